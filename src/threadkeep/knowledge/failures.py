"""Failures of commands and tool calls that come back become lessons, with what ended them.

Work is looked at once, in the order of its rows. What is counted is named by its own id, so that
nothing counts twice, whatever is captured again; the tables for this hold no text.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec

from threadkeep.base.tx import Tx
from threadkeep.knowledge.archive import digest
from threadkeep.knowledge.lessons import (
    LessonKey,
    LessonRules,
    key_digest,
    learn,
    note_fix,
    summarize,
)
from threadkeep.knowledge.records import CommandAttempt, is_shell_tool
from threadkeep.knowledge.shapes import (
    aim_of,
    is_failure,
    main_step,
    only_looks,
    project_of,
    rule_of,
    shape_of,
    target_of,
    telling_line,
)
from threadkeep.knowledge.workflow_runs import learn_ci_fixes

# ------------------------------------------------------------------------------
# What ended a failure, in a line: the edits and commands between it and the next success.

_MOST_NAMED: Final = 4
_LONGEST_COMMAND: Final = 100
_LONGEST_HINT: Final = 400
_EDITS: Final = frozenset(
    {
        *("edit", "write", "multiedit", "notebookedit", "apply_patch", "write_file", "replace"),
        *("str_replace_editor", "str_replace", "create", "edit_file", "create_file", "patch"),
    }
)
_EDITORS: Final = frozenset({"vi", "vim", "nvim", "nano", "emacs", "code", "hx", "micro", "subl"})


def is_edit(run: CommandAttempt) -> bool:
    """Tell whether a run changed a file by hand."""
    if is_shell_tool(run.tool):
        return main_step(run.command).program in _EDITORS
    return str(run.tool).lower() in _EDITS


def is_change(run: CommandAttempt) -> bool:
    """Tell whether a run may have changed something: it worked, and does more than look."""
    if run.exit_code != 0 and is_failure(run.command, run.exit_code, run.output):
        return False
    if is_edit(run):
        return True
    step = main_step(run.command)
    if step.program == "sed" and "-i" not in run.command:
        return False
    return is_shell_tool(run.tool) and not only_looks(step)


def hint_of(
    failure: CommandAttempt, between: Sequence[CommandAttempt], success: CommandAttempt
) -> str:
    """Say what stood between a failure and the next success of the same command."""
    named = list(dict.fromkeys(_named(run) for run in between if is_change(run)))[-_MOST_NAMED:]
    passed = _quoted(success.command)
    if named:
        return f"{', '.join(named)}; then {passed} passed"[:_LONGEST_HINT]
    if success.command.strip() != failure.command.strip():
        return f"{passed} passed instead"[:_LONGEST_HINT]
    return f"{passed} passed when it was run again"[:_LONGEST_HINT]


def _named(run: CommandAttempt) -> str:
    target = target_of(run.command, run.cwd)
    return f"edit of {target}" if is_edit(run) and target else _quoted(run.command)


def _quoted(command: str) -> str:
    line = " ".join(command.split())
    cut = line[:_LONGEST_COMMAND] + "…" if len(line) > _LONGEST_COMMAND else line
    return f"`{cut}`"


EVENTS: Final = "event"
ENTRIES: Final = "entry"
_SUMMARY: Final = 240  # characters
_BETWEEN: Final = 200  # runs that are looked at for what ended a failure
_UNENDED: Final = 200
_PATIENCE_MS: Final = 86_400_000  # with runs that do not end


class AttemptBatch(NamedTuple):
    """Runs in the order of their rows, and the last row that was looked at for them."""

    runs: list[CommandAttempt]
    last: int


# Gives the runs behind a row: at most so many rows are looked at.
Look = Callable[[Tx, int, int], AttemptBatch]


def learn_failures(
    tx: Tx, rules: LessonRules, now: int, limit: int = 1000, archived: Look | None = None
) -> int:
    """Count the failures that nobody has counted yet, and learn what ended them; give the number.

    `archived` reads tool calls that stand in the archive alone (see `recall.calls`).
    """
    drop_unfounded(tx)
    counted = _learn_from(tx, EVENTS, event_runs, rules, now, limit)
    if archived is not None:
        counted += _learn_from(tx, ENTRIES, archived, rules, now, limit)
    learn_ci_fixes(tx)
    return counted


def drop_unfounded(tx: Tx) -> int:
    """Take back what was learned from failures that are gone; give how many these were.

    A lesson of which nothing is left goes; another one loses the words that may be of them.
    """
    lost = tx.all("lost_failures")
    for name, _ in lost:
        tx.run("drop_counted", {"digest": name})
    touched = {lesson for _, lesson in lost}
    for row in tx.all("lesson_keys") if touched else ():
        key = LessonKey(*row)
        lesson = key_digest(key)
        if lesson in touched and tx.value("still_counted", {"lesson": lesson}) is None:
            tx.run("unlearn_lesson", key._asdict())
            tx.run("drop_lesson_waiting", key._asdict())
        elif lesson in touched:
            tx.run("blank_lesson", {**key._asdict(), "summary": summarize(key)})
    return len(lost)


def event_runs(tx: Tx, after: int, limit: int) -> AttemptBatch:
    """Return the commands and tool calls that are events; probes are none."""
    rows = tx.all("runs_after", {"after": after, "limit": limit})
    runs = [run_of_row(*row) for row in rows]
    return AttemptBatch(runs, runs[-1].id if runs else after)


def run_of_row(
    id_: int,
    at: int,
    command: str,
    tool: str | None,
    exit_code: int | None,
    stdout: str,
    stderr: str,
    cwd: str,
    repo: str | None,
    key: str,
    session: int,
    is_open: int,
) -> CommandAttempt:
    """Make a run of a row of `events`, as the queries give it."""
    output = "\n".join(text for text in (stdout, stderr) if text)
    rest = {"repo": repo, "session": str(session), "is_open": bool(is_open)}
    return CommandAttempt(id_, at, command, tool, exit_code, output, cwd, key, **rest)  # type: ignore[arg-type]


def lesson_key(run: CommandAttempt) -> LessonKey:
    """Tell what makes a failure the same as another: project, program, kind of error, target."""
    step = main_step(run.command)
    tool = step.program if is_shell_tool(run.tool) else str(run.tool)
    project = project_of(run.repo, run.cwd)
    rule = rule_of(step.program, run.output, run.exit_code)
    return LessonKey(project, tool, rule, aim_of(run.command, run.cwd))


def summary_of(run: CommandAttempt, key: LessonKey) -> str:
    """Say in one line what fails, with the words of the error."""
    what = f"{key.tool} {key.path_prefix}".strip()
    told = telling_line(run.output) or key.rule_id
    rule = "" if key.rule_id in told or "…" in key.rule_id else f"{key.rule_id}, "
    return f"{what}: {rule}{told}"[:_SUMMARY]


# ---------------------------------------------------------------------- one pass


def learned_to(tx: Tx) -> tuple[int, ...]:
    """Tell up to where failures were counted, of events and of entries."""
    return tuple(int(tx.value("learned_to", {"origin": one}) or 0) for one in (EVENTS, ENTRIES))


def failures_wait(tx: Tx) -> bool:
    """Tell whether a run is open that may have ended, or a failure was counted that is gone."""
    return bool(tx.value("failures_wait"))


def _learn_from(tx: Tx, origin: str, look: Look, rules: LessonRules, now: int, limit: int) -> int:
    seen = int(tx.value("learned_to", {"origin": origin}) or 0)
    if origin == EVENTS:  # the number of a row that is gone may be given again
        seen = min(seen, int(tx.value("newest_run") or 0))
    looked = look(tx, seen, limit)
    counted = 0
    for run in [*_ended_since(tx, origin, look, now), *looked.runs]:
        if run.is_open:
            tx.run("note_unended", {"origin": origin, "row": run.id})
        else:
            counted += _take(tx, origin, look, run, rules, now)
    tx.run("move_learned", {"origin": origin, "seen": looked.last})
    return counted


def _ended_since(tx: Tx, origin: str, look: Look, now: int) -> list[CommandAttempt]:
    """Return the runs that had not ended when they were looked at, and have now."""
    ended = []
    for (row,) in tx.all("unended_runs", {"origin": origin, "limit": _UNENDED}):
        run = _run_at(tx, look, row)
        if run is not None and run.is_open and run.at > now - _PATIENCE_MS:
            continue
        tx.run("drop_unended", {"origin": origin, "row": row})
        if run is not None and not run.is_open:
            ended.append(run)
    return ended


def _take(
    tx: Tx, origin: str, look: Look, run: CommandAttempt, rules: LessonRules, now: int
) -> int:
    shape = shape_of(run.command)
    if not shape or run.command == run.tool:
        return 0  # nobody knows what was run
    command = _command_digest(run, shape)
    if is_failure(run.command, run.exit_code, run.output):
        return _count(tx, origin, look, run, command, rules, now)
    if run.exit_code == 0:
        _end(tx, origin, look, run, command)
    return 0


def _count(
    tx: Tx,
    origin: str,
    look: Look,
    run: CommandAttempt,
    command: bytes,
    rules: LessonRules,
    now: int,
) -> int:
    name = {"digest": digest(run.key.encode("utf-8", "replace")), "row": run.id}
    if tx.count("counted_before", name):
        return 0
    key = lesson_key(run)
    tx.run("count_failure", {**name, "lesson": key_digest(key), "origin": origin})
    before = tx.one("last_failure", {"command": command, "origin": origin})
    is_lesson = learn(tx, key, rules, min(run.at, now), summary_of(run, key))
    if is_lesson and before is not None and before[1] is not None:
        _learn_fix(tx, look, command, failed=before[0], fixed=before[1], at=run.at)
    tx.run("put_failure", {"command": command, "origin": origin, "failed": run.id})
    return 1


def _end(tx: Tx, origin: str, look: Look, run: CommandAttempt, command: bytes) -> None:
    values = {"command": command, "origin": origin}
    before = tx.one("last_failure", values)
    if before is not None and before[1] is None and before[0] < run.id:
        tx.run("end_failure", {**values, "fixed": run.id})
        _learn_fix(tx, look, command, failed=before[0], fixed=run.id, at=run.at)


def _learn_fix(tx: Tx, look: Look, command: bytes, *, failed: int, fixed: int, at: int) -> None:
    """Write down what is between a failure and its end, if both are still there."""
    failure = _run_at(tx, look, failed)
    if failure is None or _command_digest(failure, shape_of(failure.command)) != command:
        return
    behind = look(tx, failed, min(_BETWEEN, fixed - failed)).runs  # what is behind it is not asked
    success = next((run for run in behind if run.id == fixed), None) or _run_at(tx, look, fixed)
    if success is None or success.at < failure.at:
        return
    project = project_of(failure.repo, failure.cwd)
    between = [
        run
        for run in behind
        if run.id < fixed and _same_project(project_of(run.repo, run.cwd), project)
    ]
    note_fix(tx, lesson_key(failure), hint_of(failure, between, success), at)


def _run_at(tx: Tx, look: Look, row: int) -> CommandAttempt | None:
    found = look(tx, row - 1, 1).runs
    return found[0] if found and found[0].id == row else None


def _same_project(one: str, other: str) -> bool:
    """Tell whether two names are one project's: a folder `name`, a repository `owner/name`."""
    return one.rsplit("/", 1)[-1].lower() == other.rsplit("/", 1)[-1].lower()


def _command_digest(run: CommandAttempt, shape: str) -> bytes:
    project = project_of(run.repo, run.cwd).rsplit("/", 1)[-1].lower()
    return digest(msgspec.json.encode((project, shape)))
