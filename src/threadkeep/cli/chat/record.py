"""`threadkeep chat record`: from stdin into the store, chunk by chunk."""

import signal
import sys
from collections.abc import Callable, Iterator
from itertools import chain
from types import FrameType
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Self, cast

import click

from threadkeep import ChatStore, Recorder, Run, Session
from threadkeep.cli.command import INTERRUPTED, PROBLEMS, Call, close_stdout, store_command
from threadkeep.cli.options import OneOf, complete_session
from threadkeep.cli.output import counted, document, fail, note, write
from threadkeep.errors import Conflict, Invalid, NotFound

if TYPE_CHECKING:
    from io import BufferedReader


# ------------------------------------------------------------------------------
# What comes in on stdin: JSONL chunks or an SSE body, told apart by the first character.

_PIECE = 65536
_BOM = b"\xef\xbb\xbf"
# A body of events begins with a field (data, event, id, retry) or a comment.
_SSE_BEGINS = b"deir:"
_SHOWN = 40
_DATA = b"data: "


class Numbered(NamedTuple):
    """Bytes of an event stream, and the line of JSONL that they come from."""

    line: int | None
    data: bytes


class StreamInput:
    """Gives the input back as server-sent events, whichever of the two it is."""

    def __init__(self) -> None:
        self._blank = b""
        self._is_jsonl: bool | None = None
        self._line = 1

    def take(self, data: bytes) -> Iterator[Numbered]:
        """Take the next bytes; nothing comes back before it is clear what they are."""
        lead = b""
        if self._is_jsonl is None:
            data = (self._blank + data).removeprefix(_BOM)
            self._blank = data
            words = data.lstrip()
            if not words or _BOM.startswith(data):
                return
            self._is_jsonl = self._decide(words, words[:1])
            if self._is_jsonl:
                self._line += data[: -len(words)].count(b"\n")
                lead, data = _DATA, words
        yield from self._as_events(lead + data) if self._is_jsonl else [Numbered(None, data)]

    def _as_events(self, data: bytes) -> Iterator[Numbered]:
        """Each line becomes an event; an empty one has no data and does not count."""
        *whole, begun = data.split(b"\n")
        for line in whole:
            yield Numbered(self._line, line + b"\n\n" + _DATA)
            self._line += 1
        if begun:
            yield Numbered(self._line, begun)

    def _decide(self, data: bytes, first: bytes) -> bool:
        if first == b"{":
            return True
        if first in _SSE_BEGINS:
            return False
        shown = data[:_SHOWN].decode("utf-8", "replace")
        raise Invalid(
            f"the input is neither JSON lines nor server-sent events; it begins with {shown!r}",
            hint='send one chunk a line, {"type": …}, or the body of an AI SDK stream response',
        )


class Interruptible:
    """Reads input until it ends; a signal is heard between two pieces, never inside a write.

    So Ctrl-C cannot cut a chunk in half, and the recorder can still write down why it ended.
    """

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._waiting = False
        self._stopped = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        """Listen to Ctrl-C, to `kill`, and to a terminal that goes away."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the signals as they were."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        self._stopped = True
        if self._waiting:
            raise KeyboardInterrupt

    def pieces(self) -> Iterator[bytes]:
        """Yield what comes in, as soon as it does."""
        while data := self._next():
            yield data

    def _next(self) -> bytes:
        self._waiting = True  # first: a signal after the look below raises by itself
        try:
            if self._stopped:
                raise KeyboardInterrupt
            return self._read(_PIECE)
        finally:
            self._waiting = False


_AGENT = "cli"
_CONTINUE = (
    "a stream of its own, with its own start and text-start, is added to the message with {more};"
    " the bare rest of this one would not fit"
)


class RecordOptions(NamedTuple):
    """What the command line asks for."""

    session: str | None
    agent: str | None
    model: str | None
    title: str | None
    workspace: str
    say: str | None
    message_id: str | None
    save_on: Any
    strict: bool
    protocol: int


class Fed(NamedTuple):
    """How the input ended, and the line of the first chunk that was skipped, if it is known."""

    interrupted: bool
    skipped_line: int | None


class Outcome(NamedTuple):
    """What came of it."""

    session: Session
    recorder: Recorder
    run: Run
    fed: Fed

    @property
    def error_text(self) -> str | None:
        """The error that the stream reported; of an abort the run knows only the reason."""
        return self.run.error_text if self.run.end_reason in ("error", "finish") else None

    @property
    def incomplete(self) -> bool:
        """Tell whether the message may lack something of the reply."""
        skipped = bool(self.recorder.violation_count)
        return skipped or self.run.end_reason in ("cut", "error") or self.error_text is not None


@store_command(
    "record",
    "curl -sN https://app.example/api/chat -d @turn.json | threadkeep chat record --agent build",
    "threadkeep chat record --session last --say 'and now?' < reply.jsonl",
)
@click.option("--session", shell_complete=complete_session, help="Record into this session.")
@click.option("--agent", help=f"Who replies; a new session is opened with it.  [default: {_AGENT}]")
@click.option("--model", metavar="PROVIDER/MODEL", help="The model that replies.")
@click.option("--title", help="The title of a new session.")
@click.option("--workspace", metavar="DIR", default="", help="The folder of a new session.")
@click.option("--say", metavar="TEXT", help="Store this as the user's message before the reply.")
@click.option("--message-id", metavar="ID", help="Continue this message.")
@click.option(
    "--strict", is_flag=True, help="Stop at the first chunk that does not fit the stream."
)
@click.option("--save-on", type=OneOf(["chunk", "step", "turn"]), help="When to write to disk.")
@click.option(
    "--protocol",
    type=click.IntRange(6, 7),
    default=7,
    show_default=True,
    help="The version of the AI SDK that the stream comes from.",
)
@click.option("--tee", is_flag=True, help="Copy the input to stdout as well.")
def record(call: Call, *, tee: bool, **options: Any) -> int:
    """Record a streamed reply from stdin: JSON Lines, or the SSE body of an AI SDK response.

    Every chunk is stored before the next is read. Without --session a new session is started and
    its id printed to stderr; stdout gets the message id. Exit code 1 if the stream ended early,
    reported an error, or had invalid chunks, which are skipped; 130 after Ctrl-C. Whatever arrived
    is stored in any case.
    """
    if tee and call.as_json:
        raise Invalid("--tee and --json both write to stdout", hint="leave one of them out")
    options["save_on"] = options["save_on"] or call.home.config.chat.save_on
    if sys.stdin.isatty():
        note("reading chunks from the terminal; Ctrl-D ends them")
    sink = sys.stdout.buffer if tee else None
    source = cast("BufferedReader", sys.stdin.buffer)
    with Interruptible(source.read1) as incoming, call.writing() as store:
        done = _record(store, RecordOptions(**options), incoming.pieces(), sink)
    _tell(call, done, quiet=tee)
    if done.fed.interrupted:
        return INTERRUPTED
    return PROBLEMS if done.incomplete else 0


def _record(
    store: ChatStore, wanted: RecordOptions, pieces: Iterator[bytes], sink: BinaryIO | None
) -> Outcome:
    events = _events(pieces, sink)
    if wanted.session is not None:
        return _reply(store, store.find_session(wanted.session), wanted, events)
    if wanted.say is None:  # nothing is written before something came
        events = chain([_first(events)], events)
    session = _begin(store, wanted)
    try:
        return _reply(store, session, wanted, events)
    except (Invalid, Conflict, NotFound):
        _take_back(store, session)
        raise


def _reply(
    store: ChatStore, session: Session, wanted: RecordOptions, events: Iterator[Numbered]
) -> Outcome:
    if wanted.say is not None:
        store.say(session, wanted.say, agent=wanted.agent, model=wanted.model)
    recorder = store.record(
        session,
        wanted.message_id,
        save_on=wanted.save_on,
        strict=wanted.strict,
        protocol=wanted.protocol,
        agent=wanted.agent,
        model=wanted.model,
    )
    fed = _feed(recorder, events)
    run = next((run for run in store.runs(session) if run.id == recorder.run_id), None)
    if run is None:
        raise _nothing(recorder)
    return Outcome(session, recorder, run, fed)


def _take_back(store: ChatStore, session: Session) -> None:
    """Remove a session that was begun for a reply which was refused before its first chunk."""
    replies = [m for m in store.ui_messages(session, "all") if m["role"] == "assistant"]
    if not replies:
        store.delete(session)
        note(f"session {session.id} was removed: no reply was recorded in it")


def _begin(store: ChatStore, wanted: RecordOptions) -> Session:
    session = store.create_session(
        agent=wanted.agent or _AGENT,
        model=wanted.model or {},
        workspace_root=wanted.workspace,
        title=wanted.title,
    )
    note(f"session {session.id}")
    return session


def _first(events: Iterator[Numbered]) -> Numbered:
    for data in events:
        return data
    raise Invalid("stdin was empty", hint="pipe a stream into this command; see --help")


def _events(pieces: Iterator[bytes], sink: BinaryIO | None) -> Iterator[Numbered]:
    """Yield the input as server-sent events; what is passed on has been stored before."""
    incoming = StreamInput()
    for data in pieces:
        yield from incoming.take(data)
        if sink is not None:
            sink.write(data)
            sink.flush()


def _feed(recorder: Recorder, events: Iterator[Numbered]) -> Fed:
    """Record until the input ends; an interruption is written down."""
    line = skipped = None
    with recorder:
        try:
            for line, data in events:
                _feed_line(recorder, line, data)
                skipped = skipped or (line if recorder.violation_count else None)
        except (KeyboardInterrupt, BrokenPipeError) as stop:
            if isinstance(stop, BrokenPipeError):
                close_stdout()
            if recorder.message is None:
                recorder.close(KeyboardInterrupt("interrupted before the first chunk"))
            else:
                recorder.abort("interrupted")
            return Fed(interrupted=True, skipped_line=skipped)
    # A last line without its end is taken when the recorder closes.
    return Fed(
        interrupted=False, skipped_line=skipped or (line if recorder.violation_count else None)
    )


def _feed_line(recorder: Recorder, line: int | None, data: bytes) -> None:
    try:
        recorder.feed_sse(data)
    except Invalid as error:
        if line is None:
            raise
        raise type(error)(f"line {line}: {error.message}", hint=error.hint) from error


def _nothing(recorder: Recorder) -> Invalid:
    reason = f": {recorder.violations[0]}" if recorder.violations else ""
    hint = 'every chunk is an object with a "type", one a line or one an event'
    return Invalid(f"no chunk was found in the input{reason}", hint=hint)


def _tell(call: Call, done: Outcome, *, quiet: bool) -> None:
    recorder, run = done.recorder, done.run
    parts = recorder.message["parts"] if recorder.message else []
    if call.as_json:
        document(
            session_id=done.session.id,
            message_id=recorder.message_id,
            run_id=recorder.run_id,
            parts=len(parts),
            ended=run.end_reason,
            finish_reason=run.finish_reason,
            error_text=done.error_text,
            skipped=recorder.violation_count,
            violations=recorder.violations,
            first_skipped_line=done.fed.skipped_line,
        )
    elif not quiet:
        write(recorder.message_id or "")
    note(f"recorded {counted(len(parts), 'part')} of {recorder.message_id}: {run.end_reason}")
    if done.error_text is not None:
        fail(f"the stream reported an error: {done.error_text}")
    if recorder.violation_count:
        _tell_skipped(recorder, done.fed.skipped_line)
    if run.end_reason == "cut":
        more = f"--session {done.session.id} --message-id {recorder.message_id}"
        fail("the stream ended without a finish chunk", _CONTINUE.format(more=more))


def _tell_skipped(recorder: Recorder, line: int | None) -> None:
    place = "" if line is None else f"line {line}: "
    chunks = counted(recorder.violation_count, "chunk")
    fail(
        f"{chunks} did not fit the stream and were not stored, first: {place}"
        f"{recorder.violations[0]}",
        "their content is missing from the message; --strict stops at the first one",
    )
