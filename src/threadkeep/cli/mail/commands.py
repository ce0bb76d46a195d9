"""`threadkeep mail`: the commands of the mailbox."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import click

from threadkeep import Mailroom
from threadkeep.base.clock import now_ms, parse_duration
from threadkeep.cli.command import PROBLEMS, SECONDS, Call, alias, as_typed, command, confirm
from threadkeep.cli.mail.agent import ack, demo, echo, ncl, poll
from threadkeep.cli.mail.browse import ls, tail, trace
from threadkeep.cli.mail.group import (
    Json,
    hosting,
    is_of_mailroom,
    looking,
    mail,
    mail_json,
    message_ref,
    optional_session,
    session_argument,
    when,
    words_of,
)
from threadkeep.cli.mail.write import new, next_, send
from threadkeep.cli.options import complete_mail_session
from threadkeep.cli.output import (
    counted,
    document,
    fail,
    json_line,
    note,
    one_line,
    table,
    warn,
    write,
)
from threadkeep.cli.signals import ended_by_signals
from threadkeep.errors import Invalid, NotFound, ThreadkeepError
from threadkeep.home.mail import find_mail_session
from threadkeep.mailbox.adapters import Adapter, FileAdapter
from threadkeep.mailbox.container.inbox import tasks
from threadkeep.mailbox.host.delivery import DeliveryReport
from threadkeep.mailbox.host.host import Host
from threadkeep.mailbox.host.sweep import SweepReport
from threadkeep.mailbox.mailroom import ServeReport
from threadkeep.mailbox.records import DeadLetter, Delivery, Mail
from threadkeep.mailbox.rows import read_moment
from threadkeep.mailbox.runner import ProcessRunner
from threadkeep.mailbox.verification import Problem, verify as verify_folder

# ------------------------------------------------------------------------------
# `threadkeep mail pause`, `verify` and `sweep`.

# ---------------------------------------------------------------------- tasks


@command(
    "pause",
    "threadkeep mail pause last",
    "threadkeep mail pause last task-1760000000000-abc123",
    "threadkeep mail pause last 8 --resume",
)
@session_argument
@click.argument("task", required=False)
@click.option("--resume", is_flag=True, help="Resume the task.")
@click.option("--cancel", is_flag=True, help="Cancel it and all later runs.")
def pause(call: Call, *, session: str, task: str | None, resume: bool, cancel: bool) -> None:
    """Pause a scheduled TASK, by number, id or series; without TASK, list all."""
    if resume and cancel:
        raise Invalid("use --resume or --cancel, not both", hint="leave one out")
    if task is None:
        if resume or cancel:
            raise Invalid("no task given", hint="`threadkeep mail pause SESSION` lists them")
        _show_tasks(call, tasks(looking(call, session)))
        return
    host = hosting(call, session)
    found = _find_task(host, task)
    verb = host.cancel_task if cancel else host.resume_task if resume else host.pause_task
    changed = verb(found.series_id or found.id)
    word = "cancelled" if cancel else "resumed" if resume else "paused"
    if call.as_json:
        document(task=found.id, series=found.series_id, **{word: changed})
        return
    write(found.id)
    note(f"{word} {counted(changed, 'run')}" if changed else f"it was {found.status} already")


def _find_task(host: Host, task: str) -> Mail:
    which = message_ref(task)
    for found in host.tasks():
        if which in (found.id, found.seq, found.series_id):
            return found
    hint = "`threadkeep mail pause SESSION` lists the scheduled tasks"
    raise NotFound(f"there is no live task {task[:80]!r}", hint=hint)


def _show_tasks(call: Call, found: list[Mail]) -> None:
    if call.as_json:
        document(tasks=[mail_json(mail) for mail in found])
        return
    columns = ("number", "id", "status", "due", "every", "prompt")
    rows = [
        (
            str(mail.seq),
            str(mail.id),
            str(mail.status),
            when(mail.process_after) or "now",
            mail.recurrence or "",
            words_of(mail.content),
        )
        for mail in found
    ]
    table(columns, rows, wide="prompt", spare=("every", "id"))
    if not found:
        note("No tasks scheduled")


# ---------------------------------------------------------------------- verify


@command("verify", "threadkeep mail verify last", "threadkeep mail verify --all --json")
@click.argument("sessions", nargs=-1, shell_complete=complete_mail_session)
@click.option("--all", "everywhere", is_flag=True, help="Every session of the mailroom.")
def verify(call: Call, *, sessions: tuple[str, ...], everywhere: bool) -> int:
    """Check session folders: files, numbers, states, times, hashes and attachments.

    Nothing is changed. Exit code 1 if anything is wrong; warnings do not count.
    """
    if bool(sessions) == everywhere:
        raise Invalid("name the sessions to check, or use --all", hint="give SESSION …, or --all")
    found = {name: _problems(call, name) for name in sessions or _all_sessions(call)}
    flat = [(name, problem) for name, problems in found.items() for problem in problems]
    wrong = [problem for _, problem in flat if problem.severity == "error"]
    if call.as_json:
        document(ok=not wrong, sessions=found)
    else:
        for name, problem in flat:
            _show_problem(name if len(found) > 1 else "", problem)
        note(f"{counted(len(found), 'session')} checked, {counted(len(wrong), 'problem')}")
    return PROBLEMS if wrong else 0


def _all_sessions(call: Call) -> list[str]:
    with call.home.mail_index() as index:
        return [one.id for one in index.sessions()]


def _problems(call: Call, session: str) -> list[Problem]:
    folder = call.home.mail_folder(session)
    if not folder.is_dir():
        raise NotFound(
            f"there is no folder {folder}", hint="`threadkeep mail ls` shows the sessions"
        )
    return verify_folder(folder)


def _show_problem(name: str, problem: Problem) -> None:
    lead = f"{name}: " if name else ""
    style = "red" if problem.severity == "error" else "yellow"
    text = f"{lead}{problem.severity}: {problem.where}: {problem.what}"
    write(one_line(text), style)
    if problem.hint:
        note(f"  {one_line(problem.hint)}")


# ---------------------------------------------------------------------- sweep


@command("sweep", "threadkeep mail sweep", "threadkeep mail sweep ./box --json")
@optional_session
def sweep(call: Call, *, session: str | None) -> int:
    """Record acknowledgements, release the claims of dead agents, schedule next runs.

    For one SESSION or all active ones. Agents are not started or stopped: `serve` does that.
    """
    if session is not None and not is_of_mailroom(session):
        host = hosting(call, session)
        done: dict[str, SweepReport | ThreadkeepError] = {host.session: host.sweep()}
    else:
        done = _sweep_room(call, session)
    if call.as_json:
        document(sessions={name: _swept_json(one) for name, one in done.items()})
    else:
        for name, one in done.items():
            write(f"{name}\t{swept_text(one)}")
    return PROBLEMS if any(isinstance(one, ThreadkeepError) for one in done.values()) else 0


def _sweep_room(call: Call, session: str | None) -> dict[str, SweepReport | ThreadkeepError]:
    with call.home.mailroom(must_exist=True) as room:
        if session is not None:
            chosen = [find_mail_session(room.index, session)]
        else:
            chosen = room.index.sessions(status="active")
        return {one.id: _sweep_one(room, one.id) for one in chosen}


def _sweep_one(room: Mailroom, session: str) -> SweepReport | ThreadkeepError:
    """Sweep one session; what goes wrong in it is not the others' business."""
    try:
        return room.host(session).sweep()
    except ThreadkeepError as error:
        return error


def _swept_json(one: SweepReport | ThreadkeepError) -> Any:
    return {"problem": str(one)} if isinstance(one, ThreadkeepError) else one


def swept_text(one: SweepReport | ThreadkeepError) -> str:
    """Say in a few words what a sweep found and did."""
    if isinstance(one, ThreadkeepError):
        return f"problem: {one}"
    reset = one.reset
    counts = {
        "completed": len(one.settled.completed),
        "failed": len(one.settled.failed) + (len(reset.failed) if reset else 0),
        "to be retried": len(reset.retried) if reset else 0,
        "next runs": len(one.rearmed),
        "due": one.due,
    }
    told = [f"{count} {name}" for name, count in counts.items() if count]
    stuck = [f"the agent is stuck ({one.stuck})"] if one.stuck else []
    return ", ".join([*told, *stuck]) or "nothing to do"


# ------------------------------------------------------------------------------
# `threadkeep mail retry`: dead letters shown, tried again, purged.


@command(
    "retry",
    "threadkeep mail retry last --list",
    "threadkeep mail retry last 6",
    "threadkeep mail retry last --purge --older-than 30d --dry-run",
)
@session_argument
@click.argument("message", required=False)
@click.option("--list", "listing", is_flag=True, help="Only list the dead letters.")
@click.option("--purge", is_flag=True, help="Remove their content instead of retrying.")
@click.option("--older-than", default="30d", show_default=True, metavar="AGE", help="With --purge.")
@click.option("--force", is_flag=True, help="Include what may have been sent already.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--dry-run", is_flag=True, help="Show what would be done; do nothing.")
def retry(
    call: Call,
    *,
    session: str,
    message: str | None,
    listing: bool,
    purge: bool,
    older_than: str,
    force: bool,
    yes: bool,
    dry_run: bool,
) -> int:
    """Retry dead letters: all of a session, or MESSAGE, by number or id.

    Mail to the agent is retried under a new id. Mail that may have been sent already is left out,
    unless --force.
    """
    if listing and (purge or force):
        raise Invalid("--list changes nothing", hint="leave out --list, or --purge and --force")
    host = hosting(call, session)
    found = _dead(host, message)
    if listing:
        _show_dead(call, found)
    elif purge:
        age = 0 if message is not None else parse_duration(older_than)
        _purge(call, host, _older(found, age), yes=yes, dry_run=dry_run)
    else:
        chosen = found if message is not None else _worth_it(found, force=force)
        return _retry_all(call, host, chosen, force=force, dry_run=dry_run)
    return 0


def _dead(host: Host, message: str | None) -> list[DeadLetter]:
    found = host.dead_letters()
    if message is None:
        return found
    which = message_ref(message)
    chosen = [letter for letter in found if which in (letter.id, letter.seq)]
    if not chosen:
        hint = "`threadkeep mail retry SESSION --list` shows them"
        raise NotFound(f"there is no dead letter {message[:80]!r}", hint=hint)
    return chosen


def _worth_it(found: list[DeadLetter], *, force: bool) -> list[DeadLetter]:
    return [
        letter
        for letter in found
        if letter.retried_as is None and (force or letter.state != "unknown")
    ]


def _older(found: list[DeadLetter], age: int) -> list[DeadLetter]:
    latest = now_ms() - age
    return [letter for letter in found if (read_moment(letter.at) or 0) <= latest]


def _show_dead(call: Call, found: list[DeadLetter]) -> None:
    if call.as_json:
        document(dead=found)
        return
    columns = ("number", "id", "state", "tries", "when", "reason", "retried as", "text")
    rows = [
        (
            str(letter.seq),
            letter.id,
            letter.state,
            str(letter.tries),
            when(letter.at),
            letter.reason,
            letter.retried_as or "",
            letter.text,
        )
        for letter in found
    ]
    table(columns, rows, wide="text", spare=("retried as", "when", "tries", "id"))
    if not found:
        note("No dead letters")


def _retry_all(
    call: Call, host: Host, chosen: list[DeadLetter], *, force: bool, dry_run: bool
) -> int:
    """Try what can be tried; one that cannot does not stop those behind it."""
    tried: list[Json] = []
    problems = 0
    for letter in chosen:
        try:
            now = letter.id if dry_run else _name(host.retry(letter.id, force=force))
        except ThreadkeepError as error:
            fail(f"{one_line(letter.id)}: {error.message}", as_typed(error.hint))
            problems += 1
        else:
            shown = {"id": letter.id, "seq": letter.seq, "direction": letter.direction}
            tried.append(shown if dry_run else {**shown, "now": now})
            if not call.as_json:
                write(now)
    if call.as_json:
        document(retried=tried, dry_run=dry_run)
    else:
        note(f"{'would try' if dry_run else 'tried'} {counted(len(tried), 'dead letter')} again")
    return PROBLEMS if problems else 0


def _name(tried: Mail | Delivery) -> str:
    return tried.id if isinstance(tried, Mail) else tried.message_out_id


def _purge(call: Call, host: Host, chosen: list[DeadLetter], *, yes: bool, dry_run: bool) -> None:
    count = 0
    if chosen and not dry_run:
        confirm(f"Remove the content of {counted(len(chosen), 'dead letter')}?", yes=yes)
        count = sum(host.purge(letter.id) for letter in chosen)
    if call.as_json:
        document(dead=[letter.id for letter in chosen], purged=count, dry_run=dry_run)
        return
    for letter in chosen:
        write(letter.id)
    told = counted(len(chosen) if dry_run else count, "dead letter")
    note(f"{'would purge' if dry_run else 'purged'} {told}")


# ------------------------------------------------------------------------------
# `threadkeep mail prune`: old mail of an agent removed.


@command(
    "prune",
    "threadkeep mail prune last --older-than 90d --dry-run",
    "threadkeep mail prune ./box --keep 1000 --yes",
)
@session_argument
@click.option("--older-than", metavar="AGE", help="Only what is older than: 90d, 12h.")
@click.option("--keep", type=click.IntRange(min=0), metavar="N", help="The newest N stay.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--dry-run", is_flag=True, help="Show what would be done; do nothing.")
def prune(
    call: Call,
    *,
    session: str,
    older_than: str | None,
    keep: int | None,
    yes: bool,
    dry_run: bool,
) -> None:
    """Remove old, delivered mail of the agent, and acknowledgements recorded by the host.

    Give an age, a number to keep, or both. Mail that is waiting, has failed, or answers open mail
    is kept. Refused while an agent is working in the folder. Removed mail can no longer be edited,
    reacted to or traced.
    """
    host = hosting(call, session)
    age = None if older_than is None else parse_duration(older_than)
    found = host.prune(older_than_ms=age, keep=keep, dry_run=True)
    if not dry_run and (found.messages or found.answers):
        confirm(f"remove {counted(found.messages, 'message')} permanently?", yes=yes)
        found = host.prune(older_than_ms=age, keep=keep)
    if call.as_json:
        document(messages=found.messages, answers=found.answers, dry_run=dry_run)
        return
    word = "would remove" if dry_run else "removed"
    note(f"{word} {counted(found.messages, 'message')}, {counted(found.answers, 'answer')}")


# ------------------------------------------------------------------------------
# `threadkeep mail serve`: the host's loop over all sessions.

_SOON = 0.1  # between two turns that shall come to an end
_STARTS = 5  # of one agent that never takes its mail
_BY_HAND = "start the command by hand, with THREADKEEP_MAIL set to the folder of the session"


@command(
    "serve",
    'threadkeep mail serve --agent "threadkeep mail echo" --channel-log out.jsonl',
    "threadkeep mail serve --once --json",
)
@click.option("--agent", metavar="COMMAND", help="The command to run for a session with mail.")
@click.option("--channel-log", metavar="FILE", help="Use this file of JSON lines as every channel.")
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
@click.option("--once", is_flag=True, help="Exit when nothing is left to do.")
def serve(
    call: Call,
    *,
    agent: str | None,
    channel_log: str | None,
    every: float,
    sweep_every: float,
    once: bool,
) -> int:
    """Serve all sessions until stopped: start agents that have mail, and deliver what they send.

    The agent COMMAND runs in a separate shell for each session, with its folder in THREADKEEP_MAIL;
    its output goes to stderr. A message without a channel stays queued. With --json every line
    reports one round.
    """
    if channel_log is None:
        note("no channels: mail to people stays queued; --channel-log FILE receives it")
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
                fail(f"the agent of {session} does not pick up its mail", _BY_HAND)
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


for _command in (new, ls, send, poll, ack, tail, trace, retry, pause, verify, sweep, serve):
    mail.add_command(_command)
for _command in (prune, ncl, next_, echo, demo):
    mail.add_command(_command)
# One name for the same thing in all stores.
for _command in (alias(verify, "check"),):
    mail.add_command(_command)
