"""How a failure ended: the next success of the same command, and what changed on the way."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from threadkeep.base.fts import match_query
from threadkeep.base.tx import Tx
from threadkeep.knowledge.ci_fixes import commit_message
from threadkeep.knowledge.command_shapes import main_step, project_of, shape_of
from threadkeep.knowledge.fix_hints import is_change
from threadkeep.knowledge.reading import EntryRow, to_entry
from threadkeep.knowledge.records import Entry
from threadkeep.knowledge.runs import CommandAttempt
from threadkeep.recall.calls import Archive
from threadkeep.recall.failing import Failure, FixStep, one_line, step_of

_WIDTH: Final = len(EntryRow.__struct_fields__)
_ENTRIES: Final = 600  # of a session, behind the failure
_EVENTS: Final = 3_000
_CALLS: Final = 20
_BETWEEN: Final = 12


class Ending(NamedTuple):
    """The success that ended a failure, and the last changes before it."""

    success: FixStep
    between: tuple[FixStep, ...]
    same_session: bool


def ending_of(tx: Tx, archive: Archive | None, failed: Failure) -> Ending | None:
    """Find how a failure ended; None if it did not, as far as is known."""
    if failed.job is not None:
        return _ci_ending(tx, failed)
    shape = shape_of(failed.run.command)
    if not shape:
        return None
    if archive is not None and failed.row is not None:
        found = _in_its_session(archive, failed, failed.row, shape)
        if found is not None:
            return found
    later = [_among_events(tx, failed, shape)]
    if archive is not None:
        later.append(_in_other_sessions(archive, failed, shape))
    endings = [one for one in later if one is not None]
    return min(endings, key=lambda one: one.success.at, default=None)


def is_try(command: str, shape: str) -> bool:
    """Tell whether a line that passed ran a command again: alone, or among others that passed."""
    tried = shape_of(command)
    if tried == shape:
        return True
    # Behind `;` and `||` a step may fail while the line passes.
    all_passed = not any(sign in command for sign in (";", "||", "\n"))
    return all_passed and f" && {shape} && " in f" && {tried} && "


# ---------------------------------------------------------------------- the archive


def _in_its_session(archive: Archive, failed: Failure, row: EntryRow, shape: str) -> Ending | None:
    between: list[FixStep] = []
    for one, run in _runs_behind(archive, row, failed.run):
        ref = f"message:{one.id}"
        if run is None:
            between.append(FixStep(ref, one.at or 0, one_line(archive.text(one)), "prompt"))
        elif run.exit_code == 0 and is_try(run.command, shape):
            return Ending(step_of(run, ref), _last(between), same_session=True)
        elif is_change(run):
            between.append(step_of(run, ref))
    return None


def _runs_behind(
    archive: Archive, row: EntryRow, failed: CommandAttempt
) -> Iterator[tuple[EntryRow, CommandAttempt | None]]:
    """Yield the calls with their results, and the prompts, behind an entry of a session."""
    calls: dict[str, tuple[EntryRow, Entry]] = {}
    values = {"log": row.log_id, "line": row.line, "part": row.part, "session": row.session}
    for one in map(to_entry, archive.tx.all("entries_behind", values | {"limit": _ENTRIES})):
        if one.kind == "prompt":
            yield one, None
        elif one.kind in {"tool_call", "tool_result"} and (entry := archive.entry(one)) is not None:
            if one.kind == "tool_call":
                calls[entry.call_id] = one, entry
            elif entry.call_id in calls:
                pair = calls[entry.call_id]
                yield one, archive.paired(pair, one, failed.session, failed.cwd)


def _in_other_sessions(archive: Archive, failed: Failure, shape: str) -> Ending | None:
    match = match_query(shape.replace("&&", " "))
    if match is None:
        return None
    project = failed.project.rsplit("/", 1)[-1]
    values = {"match": match, "at": failed.run.at, "project": project, "cwd": failed.run.cwd}
    session = -1 if failed.row is None else failed.row.session
    rows = archive.tx.all("later_calls", {**values, "session": session, "limit": _CALLS})
    for row in rows:
        run = _answered(archive, row)
        if run is not None and run.exit_code == 0 and is_try(run.command, shape):
            return Ending(step_of(run, f"message:{run.id}"), (), same_session=False)
    return None


def _answered(archive: Archive, row: tuple[Any, ...]) -> CommandAttempt | None:
    session_id, harness, cwd, _project = row[_WIDTH : _WIDTH + 4]
    called = to_entry(row)
    call, result = archive.entry(called), archive.result_of(called)
    if call is None or result is None:
        return None
    return archive.paired((called, call), result[0], f"{harness}:{session_id}", cwd)


# ---------------------------------------------------------------------- events and CI


def _among_events(tx: Tx, failed: Failure, shape: str) -> Ending | None:
    is_event = failed.row is None
    program = main_step(failed.run.command).program
    between: list[CommandAttempt] = []
    for run in _runs_since(tx, failed.run.at, failed.run.id if is_event else 0):
        if not _same_project(project_of(run.repo, run.cwd), failed.project):
            continue
        is_same = program in run.command and is_try(run.command, shape)
        if is_same and run.exit_code == 0:
            changes = [step_of(one, f"command:{one.id}") for one in between if is_change(one)]
            success = step_of(run, f"command:{run.id}")
            same = is_event and run.session == failed.run.session
            return Ending(success, _last(changes), same_session=same)
        if not is_same:
            between.append(run)
    return None


def _runs_since(tx: Tx, at: int, number: int) -> Iterator[CommandAttempt]:
    rows = tx.all("runs_since", {"at": at, "id": number, "limit": _EVENTS})
    for id_, when, command, tool, exit_code, cwd, repo, session in rows:
        yield CommandAttempt(id_, when, command, tool, exit_code, "", cwd, "", repo, str(session))


def _same_project(one: str, other: str) -> bool:
    return one.rsplit("/", 1)[-1].lower() == other.rsplit("/", 1)[-1].lower()


def _ci_ending(tx: Tx, failed: Failure) -> Ending | None:
    values = {"repo": failed.project, "job": failed.job, "branch": failed.branch}
    row = tx.one("ci_next_success", {**values, "at": failed.run.at})
    if row is None:
        return None
    run, sha, raw, at, branch = row
    message = commit_message(raw)
    changed = (FixStep(f"ci:{run}", at, f"{sha[:10]} {message}".strip(), "ci"),) if message else ()
    success = FixStep(f"ci:{run}", at, f"{failed.job} on {branch or '?'} at {sha[:10]}", "ci")
    return Ending(success, changed, same_session=branch == failed.branch)


def _last(steps: Sequence[FixStep]) -> tuple[FixStep, ...]:
    """Keep the last steps, of the same ones in a row the last."""
    kept: list[FixStep] = []
    for step in steps:
        if kept and kept[-1].text == step.text:
            kept[-1] = step
        else:
            kept.append(step)
    return tuple(kept[-_BETWEEN:])
