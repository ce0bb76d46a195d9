"""`threadkeep mail serve`: the host's loop over all sessions."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import click

from threadkeep import Mailroom
from threadkeep.cli.command import PROBLEMS, Call, command
from threadkeep.cli.mail.care import swept_text
from threadkeep.cli.mail.echo import ended_by_signals
from threadkeep.cli.output import json_line, note, warn, write
from threadkeep.home.mail import Adapter, Drained, FileAdapter, ProcessRunner, Report, Swept


@command(
    "serve",
    'threadkeep mail serve --agent "threadkeep mail echo" --channel-log out.jsonl',
    "threadkeep mail serve --once --json",
)
@click.option("--agent", metavar="COMMAND", help="Run this for a session that has mail.")
@click.option("--channel-log", metavar="FILE", help="Every channel is this file of JSON lines.")
@click.option("--every", default=1.0, show_default=True, help="Seconds between two deliveries.")
@click.option("--sweep-every", default=2.0, show_default=True, help="Seconds between two sweeps.")
@click.option("--once", is_flag=True, help="One turn only.")
def serve(
    call: Call,
    *,
    agent: str | None,
    channel_log: str | None,
    every: float,
    sweep_every: float,
    once: bool,
) -> int:
    """Serve all sessions until it is ended: start agents that have mail, deliver what they send.

    The agent COMMAND runs in a shell of its own for each session, with its folder in
    THREADKEEP_MAIL; what it prints goes to stderr. A message for which there is no channel here
    waits. With --json every line is what one turn did.
    """
    problems = 0
    with _room(call, agent, channel_log) as (room, adapters), ended_by_signals() as stop:
        if not adapters and channel_log is None:
            note("no channel is served: mail to people waits; --channel-log FILE takes it")

        def report(turn: Report) -> None:
            nonlocal problems
            problems = len(turn.errors)
            _show(call, turn)
            _add_channels(room, adapters, channel_log)
            if once:
                stop.set()

        room.serve(stop, every=every, sweep_every=sweep_every, on_report=report)
    return PROBLEMS if once and problems else 0


@contextmanager
def _room(
    call: Call, agent: str | None, channel_log: str | None
) -> Iterator[tuple[Mailroom, dict[str, Adapter]]]:
    adapters: dict[str, Adapter] = {}
    with ExitStack() as open_:
        runner = None
        if agent is not None:
            # Stdout is for data of ours.
            shell = ["/bin/sh", "-c", f"exec >&2\n{agent}"]
            runner = open_.enter_context(ProcessRunner(shell))
        room = call.home.mailroom(must_exist=True, adapters=adapters, runner=runner)
        open_.enter_context(room)
        _add_channels(room, adapters, channel_log)
        yield room, adapters


def _add_channels(room: Mailroom, adapters: dict[str, Adapter], log: str | None) -> None:
    """Let channels that were added since be served, too."""
    if log is None:
        return
    new = {chat.channel_type for chat in room.index.messaging_groups()} - set(adapters)
    if new:
        file = next(iter(adapters.values()), None) or FileAdapter(log)
        adapters.update(dict.fromkeys(new, file))


# ---------------------------------------------------------------------- what happened


def _show(call: Call, turn: Report) -> None:
    happened = {name: words for name in _sessions(turn) if (words := _words(turn, name))}
    if call.as_json and happened:
        json_line(turn)
        return
    for name, words in happened.items():
        if name in turn.errors:
            warn(f"{name}: {turn.errors[name]}")
        else:
            write(f"{name}\t{words}")


def _sessions(turn: Report) -> list[str]:
    return list(dict.fromkeys([*turn.swept, *turn.delivered, *turn.errors]))


def _words(turn: Report, name: str) -> str:
    """Say what one turn did for a session; nothing if it did nothing."""
    if name in turn.errors:
        return turn.errors[name]
    told = [*_delivered(turn.delivered.get(name)), *_swept(turn.swept.get(name))]
    return ", ".join(told)


def _delivered(done: Drained | None) -> list[str]:
    if done is None:
        return []
    counts = {
        "sent": done.sent,
        "failed to send": done.failed,
        "perhaps sent": done.unknown,
        "to be sent again": done.deferred,
    }
    return [f"{len(ids)} {word}" for word, ids in counts.items() if ids]


def _swept(done: Swept | None) -> list[str]:
    if done is None:
        return []
    reset = done.reset
    changed = done.settled.completed or done.settled.failed or done.rearmed or done.stuck
    told = [swept_text(done)] if changed or (reset and (reset.retried or reset.failed)) else []
    if done.started is not None:
        told.append("agent started" if done.started else "agent did not start")
    return told
