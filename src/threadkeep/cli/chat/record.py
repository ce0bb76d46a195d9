"""`threadkeep chat record`: from stdin into the store, chunk by chunk."""

import sys
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast

import click

from threadkeep import ChatStore, Recorder, Run, Session
from threadkeep.cli.chat.incoming import Incoming, Interruptible
from threadkeep.cli.command import INTERRUPTED, PROBLEMS, Call, close_stdout, store_command
from threadkeep.cli.complete import complete_session
from threadkeep.cli.output import document, fail, note, warn, write
from threadkeep.errors import Invalid

if TYPE_CHECKING:
    from io import BufferedReader

_AGENT = "cli"


class Wanted(NamedTuple):
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


class Outcome(NamedTuple):
    """What came of it."""

    session: Session
    recorder: Recorder
    run: Run
    interrupted: bool


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
@click.option("--tee", is_flag=True, help="Pass the input on to stdout as well.")
def record(call: Call, *, tee: bool, **options: Any) -> int:
    """Record a streamed reply from stdin: JSON lines, or the SSE body of an AI SDK response.

    Every chunk is stored before the next is read. Without --session a new one is begun, and its
    id is printed on stderr; stdout gets the id of the message. Exits with 1 if the stream
    ended before its finish, and with 130 after Ctrl-C: what had arrived is stored either way.
    """
    if tee and call.as_json:
        raise Invalid("--tee and --json both want stdout", hint="leave one of them out")
    options["save_on"] = options["save_on"] or call.home.config.chat.save_on
    if sys.stdin.isatty():
        note("reading chunks from the terminal; Ctrl-D ends them")
    sink = sys.stdout.buffer if tee else None
    source = cast("BufferedReader", sys.stdin.buffer)
    with Interruptible(source.read1) as incoming, call.writing() as store:
        done = _record(store, Wanted(**options), incoming.pieces(), sink)
    _tell(call, done, quiet=tee)
    if done.interrupted:
        return INTERRUPTED
    return PROBLEMS if done.run.end_reason == "cut" else 0


def _record(
    store: ChatStore, wanted: Wanted, pieces: Iterator[bytes], sink: BinaryIO | None
) -> Outcome:
    session = store.find_session(wanted.session) if wanted.session else None
    if wanted.say is not None:
        session = session or _begin(store, wanted)
        store.say(session, wanted.say, agent=wanted.agent, model=wanted.model)
    events = _events(pieces, sink)
    begun = session is None
    if session is None:  # nothing is written before something came
        events = chain([_first(events)], events)
        session = _begin(store, wanted)
    recorder = store.record(
        session,
        wanted.message_id,
        save_on=wanted.save_on,
        strict=wanted.strict,
        agent=wanted.agent,
        model=wanted.model,
    )
    interrupted = _feed(recorder, events)
    run = next((run for run in store.runs(session) if run.id == recorder.run_id), None)
    if run is None:
        if begun:
            store.delete(session)
        raise _nothing(recorder)
    return Outcome(session, recorder, run, interrupted)


def _begin(store: ChatStore, wanted: Wanted) -> Session:
    session = store.create_session(
        agent=wanted.agent or _AGENT,
        model=wanted.model or {},
        workspace_root=wanted.workspace,
        title=wanted.title,
    )
    note(f"session {session.id}")
    return session


def _first(events: Iterator[bytes]) -> bytes:
    for data in events:
        return data
    raise Invalid("nothing came in on stdin", hint="pipe a stream into this command; see --help")


def _events(pieces: Iterator[bytes], sink: BinaryIO | None) -> Iterator[bytes]:
    """Yield the input as server-sent events; what is passed on has been stored before."""
    incoming = Incoming()
    for data in pieces:
        events = incoming.take(data)
        if events:
            yield events
        if sink is not None:
            sink.write(data)
            sink.flush()


def _feed(recorder: Recorder, events: Iterator[bytes]) -> bool:
    """Record until the input ends; tell whether it was interrupted, which is written down."""
    with recorder:
        try:
            for data in events:
                recorder.feed_sse(data)
        except (KeyboardInterrupt, BrokenPipeError) as stop:
            if isinstance(stop, BrokenPipeError):
                close_stdout()
            if recorder.message is None:
                recorder.close(KeyboardInterrupt("interrupted before the first chunk"))
            else:
                recorder.abort("interrupted")
            return True
    return False


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
            skipped=recorder.violation_count,
            violations=recorder.violations,
        )
    elif not quiet:
        write(recorder.message_id or "")
    note(f"recorded {len(parts)} parts of {recorder.message_id}: {run.end_reason}")
    if recorder.violation_count:
        warn(f"{recorder.violation_count} chunks were skipped, first: {recorder.violations[0]}")
    if run.end_reason == "cut":
        hint = f"the rest can be added with --session {done.session.id} --message-id"
        fail("the stream ended before its finish", f"{hint} {recorder.message_id}")
