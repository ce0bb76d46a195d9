"""`threadkeep chat record`: from stdin into the store, chunk by chunk."""

import sys
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast

import click

from threadkeep import ChatStore, Recorder, Run, Session
from threadkeep.cli.chat.incoming import Interruptible, Numbered, StreamInput
from threadkeep.cli.command import INTERRUPTED, PROBLEMS, Call, close_stdout, store_command
from threadkeep.cli.complete import complete_session
from threadkeep.cli.output import counted, document, fail, note, write
from threadkeep.errors import Conflict, Invalid, NotFound

if TYPE_CHECKING:
    from io import BufferedReader

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
@click.option("--say", metavar="TEXT", help="Store what the user said, before the reply.")
@click.option("--message-id", metavar="ID", help="Go on with this message.")
@click.option("--strict", is_flag=True, help="Stop at a chunk that does not fit the stream.")
@click.option("--save-on", type=click.Choice(["chunk", "step", "turn"]), help="When to store.")
@click.option(
    "--protocol",
    type=click.IntRange(6, 7),
    default=7,
    show_default=True,
    help="The version of the AI SDK that the stream comes from.",
)
@click.option("--tee", is_flag=True, help="Pass the input on to stdout as well.")
def record(call: Call, *, tee: bool, **options: Any) -> int:
    """Record a streamed reply from stdin: JSON lines, or the SSE body of an AI SDK response.

    Every chunk is stored before the next is read. Without --session a new one is begun, and its
    id is printed on stderr; stdout gets the id of the message. Exits with 1 if the stream ended
    before its finish, reported an error, or had chunks that did not fit and were skipped; with
    130 after Ctrl-C. What had arrived is stored either way.
    """
    if tee and call.as_json:
        raise Invalid("--tee and --json both want stdout", hint="leave one of them out")
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
        note(f"session {session.id} was taken back: no reply was recorded in it")


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
    raise Invalid("nothing came in on stdin", hint="pipe a stream into this command; see --help")


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
        fail("the stream ended before its finish", _CONTINUE.format(more=more))


def _tell_skipped(recorder: Recorder, line: int | None) -> None:
    place = "" if line is None else f"line {line}: "
    chunks = counted(recorder.violation_count, "chunk")
    fail(
        f"{chunks} did not fit the stream and were not stored, first: {place}"
        f"{recorder.violations[0]}",
        "what they held is missing in the message; --strict stops at the first one",
    )
