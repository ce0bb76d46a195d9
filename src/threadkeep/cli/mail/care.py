"""`threadkeep mail pause`, `verify` and `sweep`."""

from typing import Any

import click

from threadkeep import Mailroom
from threadkeep.cli.command import PROBLEMS, Call, command
from threadkeep.cli.complete import complete_mail_session
from threadkeep.cli.mail.group import (
    hosting,
    is_of_mailroom,
    looking,
    message_ref,
    optional_session,
    session_argument,
)
from threadkeep.cli.mail.words import mail_json, when, words_of
from threadkeep.cli.output import counted, document, note, one_line, table, write
from threadkeep.errors import Invalid, NotFound, ThreadkeepError
from threadkeep.home.mail import find_mail_session
from threadkeep.mailbox.container.inbox import tasks
from threadkeep.mailbox.host.host import Host
from threadkeep.mailbox.host.sweep import SweepReport, sweep_session
from threadkeep.mailbox.records import Mail
from threadkeep.mailbox.verification import Problem, verify as verify_folder

# ---------------------------------------------------------------------- tasks


@command(
    "pause",
    "threadkeep mail pause last",
    "threadkeep mail pause last task-1760000000000-abc123",
    "threadkeep mail pause last 8 --resume",
)
@session_argument
@click.argument("task", required=False)
@click.option("--resume", is_flag=True, help="Go on with the task.")
@click.option("--cancel", is_flag=True, help="Drop it, with all later runs.")
def pause(call: Call, *, session: str, task: str | None, resume: bool, cancel: bool) -> None:
    """Hold a TASK that is still to come, named by number, id or series; without one, list all."""
    if resume and cancel:
        raise Invalid("a task goes on or is dropped, not both", hint="leave one out")
    if task is None:
        if resume or cancel:
            raise Invalid("no task is named", hint="`threadkeep mail pause SESSION` lists them")
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
    hint = "`threadkeep mail pause SESSION` lists the tasks that are still to come"
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
        note("no task is to come")


# ---------------------------------------------------------------------- verify


@command("verify", "threadkeep mail verify last", "threadkeep mail verify --all --json")
@click.argument("sessions", nargs=-1, shell_complete=complete_mail_session)
@click.option("--all", "everywhere", is_flag=True, help="Every session of the mailroom.")
def verify(call: Call, *, sessions: tuple[str, ...], everywhere: bool) -> int:
    """Check session folders: files, numbers, states, times, hashes and attachments.

    Nothing is changed. Exits with 1 if anything is wrong; warnings alone do not count.
    """
    if bool(sessions) == everywhere:
        raise Invalid("name the sessions to check, or all", hint="give SESSION …, or --all")
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
    """Take over what agents said of their mail, let go of claims of the dead, set up next runs.

    Of one SESSION or all active ones. No agent is started or ended: `serve` does that.
    """
    if session is not None and not is_of_mailroom(session):
        host = hosting(call, session)
        done: dict[str, SweepReport | ThreadkeepError] = {
            host.context.session: sweep_session(host.context)
        }
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
        return sweep_session(room.host(session).context)
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
