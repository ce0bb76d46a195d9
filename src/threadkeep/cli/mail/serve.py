"""`threadkeep mail serve`: the host's loop over all sessions."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import click

from threadkeep import Mailroom
from threadkeep.cli.command import PROBLEMS, SECONDS, Call, command
from threadkeep.cli.ending import ended_by_signals
from threadkeep.cli.mail.care import swept_text
from threadkeep.cli.output import fail, json_line, note, warn, write
from threadkeep.mailbox.adapters import Adapter, FileAdapter
from threadkeep.mailbox.host.delivery import DeliveryReport
from threadkeep.mailbox.host.sweep import SweepReport
from threadkeep.mailbox.mailroom import ServeReport
from threadkeep.mailbox.runner import ProcessRunner

_SOON = 0.1  # between two turns that shall come to an end
_STARTS = 5  # of one agent that never takes its mail
_BY_HAND = "start the command by hand, with THREADKEEP_MAIL set to the folder of the session"


@command(
    "serve",
    'threadkeep mail serve --agent "threadkeep mail echo" --channel-log out.jsonl',
    "threadkeep mail serve --once --json",
)
@click.option("--agent", metavar="COMMAND", help="Run this for a session that has mail.")
@click.option("--channel-log", metavar="FILE", help="Every channel is this file of JSON lines.")
@click.option(
    "--every", type=SECONDS, default=1.0, show_default=True, help="Seconds between two deliveries."
)
@click.option(
    "--sweep-every",
    type=SECONDS,
    default=2.0,
    show_default=True,
    help="Seconds between two sweeps.",
)
@click.option("--once", is_flag=True, help="End when there is nothing left to do now.")
def serve(
    call: Call,
    *,
    agent: str | None,
    channel_log: str | None,
    every: float,
    sweep_every: float,
    once: bool,
) -> int:
    """Serve all sessions: start agents that have mail, deliver what they send, until it is ended.

    The agent COMMAND runs in a shell of its own for each session, with its folder in
    THREADKEEP_MAIL; what it prints goes to stderr. A message for which there is no channel here
    waits. With --json every line is what one turn did.
    """
    if channel_log is None:
        note("no channel is served: mail to people waits; --channel-log FILE takes it")
    with _room(call, agent, channel_log) as (room, adapters), ended_by_signals() as stop:
        turns = TurnCounter(stop, once=once, has_agent=agent is not None)

        def report(turn: ServeReport) -> None:
            _show(call, turn)
            _add_channels(room, adapters, channel_log)
            turns.judge(turn)

        pace = (_SOON, 0.0) if once else (every, sweep_every)
        room.serve(stop, every=pace[0], sweep_every=pace[1], on_report=report)
    return PROBLEMS if turns.problems else 0


class TurnCounter:
    """Decides after each turn whether it was the last one, for those that shall come to an end."""

    def __init__(self, stop: threading.Event, *, once: bool, has_agent: bool) -> None:
        self.problems = 0
        self._stop = stop
        self._once = once
        self._has_agent = has_agent
        self._starts: Counter[str] = Counter()

    def judge(self, turn: ServeReport) -> None:
        """Look at what a turn did."""
        if not self._once:
            return
        for session, swept in turn.swept.items():
            if swept.started is not None:
                self._starts[session] += 1
            if swept.settled.completed or swept.settled.failed:
                self._starts[session] = 0
            if swept.started is False or self._starts[session] > _STARTS:
                self.problems += 1
                fail(f"the agent of {session} does not take its mail", _BY_HAND)
        self.problems += len(turn.errors)
        if self.problems or not left_to_do(turn, has_agent=self._has_agent):
            self._stop.set()


def left_to_do(turn: ServeReport, *, has_agent: bool) -> bool:
    """Tell whether another turn may find something, after what this one found."""
    moved = any(done.sent or done.failed or done.unknown for done in turn.delivered.values())
    return (
        bool(turn.busy)
        or moved
        or any(
            swept.settled.completed
            or swept.settled.failed
            or swept.rearmed
            or (has_agent and swept.due)
            for swept in turn.swept.values()
        )
    )


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


def _show(call: Call, turn: ServeReport) -> None:
    sessions = dict.fromkeys([*turn.swept, *turn.delivered, *turn.errors])
    happened = {name: words for name in sessions if (words := _words(turn, name))}
    if call.as_json:
        if happened:
            json_line(turn)
        return
    for name, words in happened.items():
        if name in turn.errors:
            warn(f"{name}: {words}")
        else:
            write(f"{name}\t{words}")


def _words(turn: ServeReport, name: str) -> str:
    """Say what one turn did for a session; nothing if it did nothing."""
    if name in turn.errors:
        return turn.errors[name]
    told = [*_swept(turn.swept.get(name)), *_delivered(turn.delivered.get(name))]
    return ", ".join(told)


def _delivered(done: DeliveryReport | None) -> list[str]:
    if done is None:
        return []
    counts = {
        "sent": done.sent,
        "failed to send": done.failed,
        "perhaps sent": done.unknown,
        "to be sent again": done.deferred,
    }
    return [f"{len(ids)} {word}" for word, ids in counts.items() if ids]


def _swept(done: SweepReport | None) -> list[str]:
    if done is None:
        return []
    reset = done.reset
    changed = done.settled.completed or done.settled.failed or done.rearmed or done.stuck
    told = [swept_text(done)] if changed or (reset and (reset.retried or reset.failed)) else []
    if done.started is not None:
        told.append("agent started" if done.started else "agent did not start")
    return told
