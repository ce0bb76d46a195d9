"""fixed: this error, and how it ended: the next success of the same command, and what came between.

Failures are commands that ended with an error, tool calls of agents that failed, and jobs of CI.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final, Literal, NamedTuple

import msgspec

from threadkeep.base.match import read_match
from threadkeep.base.tx import Tx
from threadkeep.base.words import index_words
from threadkeep.knowledge.archived import ArchivedEntries
from threadkeep.knowledge.attempts import (
    calls_before,
    command_row,
    commands_since,
    entries_behind,
    failed_jobs,
    failed_results as failed_result_rows,
    later_calls,
    newest_failures,
    next_success,
    results_after,
    results_behind,
)
from threadkeep.knowledge.failures import AttemptBatch, Look, is_change, is_edit, run_of_row
from threadkeep.knowledge.query import Query
from threadkeep.knowledge.recent_entries import RecentEntries
from threadkeep.knowledge.records import (
    CommandAttempt,
    Entry,
    EntryRow,
    Readers,
    is_shell_tool,
    to_entry,
)
from threadkeep.knowledge.schema import THING_WORDS
from threadkeep.knowledge.search_scope import ANY_NODE, Scope, scope_of
from threadkeep.knowledge.shapes import (
    is_failure,
    main_step,
    project_of,
    rule_of,
    says_the_same,
    shape_of,
    telling_line,
)
from threadkeep.knowledge.workflow_runs import commit_message
from threadkeep.memory.learn.text_cleaning import plain
from threadkeep.memory.memory import ANYTHING, MemoryReader

# ------------------------------------------------------------------------------
# Tool calls of agents as the archive has them: the call, its result, and what was run.

_WIDTH: Final = len(EntryRow.__struct_fields__)
_CALLS_LOOKED_AT: Final = 16  # an agent rarely starts more at once
_OUTPUT: Final = 8_000  # characters from the end: there the error is
# What describes a call beside the command itself.
_BESIDE: Final = re.compile(
    r"(?:description|timeout(?:_?ms)?|workdir|cwd|directory|dir_path|run_in_background|login"
    r"|is_?background|justification|with_escalated_permissions|sandbox_permissions|yield_time_ms"
    r"|max_output_tokens|prefix_rule|mode|explanation|shellId|initial_wait|tty)(?:: .*)?$"
)
_LISTED: Final = re.compile(r"^(?:command|cmd): (\[.*\])$", re.MULTILINE)
_PATH: Final = re.compile(
    r"^(?:file_?[pP]ath|path|file|filename|target_file|absolute_path|notebook_path): (.+)$"
    r"|^\*\*\* (?:Update|Add|Delete) File: (.+)$",
    re.MULTILINE,
)


class Archive:
    """Entries of the archive within one transaction, and which call belongs to which result."""

    def __init__(self, tx: Tx, sources: Readers, recent: RecentEntries | None = None) -> None:
        self.tx = tx
        self._entries = ArchivedEntries(tx, sources, recent)
        self.entry = self._entries.entry
        self.text = self._entries.text

    def call_of(self, row: EntryRow) -> tuple[EntryRow, Entry] | None:
        """Find the call that a result belongs to."""
        result = self.entry(row)
        if result is None:
            return None
        near: tuple[EntryRow, Entry] | None = None
        for other in calls_before(self.tx, row, _CALLS_LOOKED_AT):
            call = self.entry(other)
            if call is not None and result.call_id and call.call_id == result.call_id:
                return other, call
            if call is not None and near is None and not (call.call_id and result.call_id):
                near = other, call
        return near

    def result_of(self, row: EntryRow) -> tuple[EntryRow, Entry] | None:
        """Find the result of a call."""
        call = self.entry(row)
        for other in results_behind(self.tx, row, _CALLS_LOOKED_AT) if call is not None else ():
            result = self.entry(other)
            if result is not None and call is not None and call.call_id == result.call_id:
                return other, result
        return None

    def run_of(self, row: EntryRow, session_id: str, cwd: str) -> CommandAttempt | None:
        """Return a result with its call as a run."""
        found = self.call_of(row)
        return None if found is None else self.paired(found, row, session_id, cwd)

    def paired(
        self, call: tuple[EntryRow, Entry], row: EntryRow, session_id: str, cwd: str
    ) -> CommandAttempt:
        """Make a run of a call and its result."""
        tool = call[1].tool or row.tool or "tool"
        return CommandAttempt(
            id=row.id,
            at=row.at or call[0].at or 0,
            command=command_in(tool, call[1].text),
            tool=tool,
            exit_code=int(row.error),
            output=self.text(row)[-_OUTPUT:],
            cwd=cwd,
            key=f"{session_id}\n{row.key}",
            session=session_id,
        )


def archived_runs(sources: Readers, recent: RecentEntries | None = None) -> Look:
    """Return the reader of archived tool calls that `learn_failures` takes."""

    def look(tx: Tx, after: int, limit: int) -> AttemptBatch:
        rows, upto = results_after(tx, after, limit)
        archive = Archive(tx, sources, recent)
        return AttemptBatch([run for row in rows if (run := _run(archive, row)) is not None], upto)

    return look


def _run(archive: Archive, row: tuple[Any, ...]) -> CommandAttempt | None:
    session_id, harness, cwd = row[_WIDTH : _WIDTH + 3]
    return archive.run_of(to_entry(row), f"{harness}:{session_id}", cwd)


# ---------------------------------------------------------------------- what was run


def command_in(tool: str, text: str) -> str:
    """Return the command that a call ran, or the tool with the file it was called for."""
    if is_shell_tool(tool):
        listed = _LISTED.search(text)
        if listed:
            return _joined(listed[1])
        kept = (line for line in text.splitlines() if not _BESIDE.match(line))
        return "\n".join(kept).strip() or tool
    found = _PATH.search(text)
    return f"{tool} {(found[1] or found[2]).strip()}" if found else tool


def _joined(listed: str) -> str:
    """Write a command given as a list of words as one line; of `bash -lc TEXT` the text."""
    try:
        words = msgspec.json.decode(listed, type=list[str])
    except (msgspec.DecodeError, UnicodeEncodeError):
        return listed
    if len(words) == 3 and words[1] in {"-c", "-lc"}:  # noqa: PLR2004
        return words[2]
    return shlex.join(words)


# ------------------------------------------------------------------------------
# Failures as they are stored: commands, tool calls of agents, jobs of CI.

_TEXT: Final = 300  # characters of a command or a prompt
_ANY_OF: Final = 6  # words: of an error that nobody had in just these words

StepKind = Literal["command", "edit", "prompt", "run"]


class FixStep(msgspec.Struct, frozen=True):
    """One thing on the way from a failure to its end."""

    ref: str  # opens it
    at: int
    text: str
    kind: StepKind


class Failure(msgspec.Struct, frozen=True):
    """A failure, and what is needed to look for its end."""

    run: CommandAttempt
    step: FixStep
    project: str
    row: EntryRow | None = None  # where the archive has it; None: it is an event or a job
    job: str | None = None  # the name of a job of CI
    branch: str | None = None


def step_of(run: CommandAttempt, ref: str) -> FixStep:
    """Tell a run as a step."""
    return FixStep(ref, run.at, one_line(run.command), "edit" if is_edit(run) else "command")


def one_line(text: str) -> str:
    """Return the beginning of a text on one line."""
    return " ".join(text[: 4 * _TEXT].split())[:_TEXT]


def failed_command(tx: Tx, number: int) -> Failure | None:
    """Return a stored command that failed; None if it did not, or is gone."""
    row = command_row(tx, number)
    run = None if row is None else run_of_row(*row)
    if run is None or not is_failure(run.command, run.exit_code, run.output):
        return None
    return Failure(run, step_of(run, f"command:{run.id}"), project_of(run.repo, run.cwd))


def failed_results(
    archive: Archive, words: tuple[str, ...], scope: Scope, limit: int
) -> list[Failure]:
    """Find tool calls of agents that failed with some words: with all, else with any of them."""
    longest = sorted(words, key=len, reverse=True)[:_ANY_OF]
    found: dict[int, Failure] = {}
    for asked in (" ".join(words), " OR ".join(f'"{word}"' for word in longest)):
        match = read_match(asked)
        rows = [] if match is None else failed_result_rows(archive.tx, match, scope, limit)
        for row in rows:
            one = _failed_result(archive, row)
            if one is not None:
                found.setdefault(one.run.id, one)
        if found:
            break
    return list(found.values())


def ci_failures(tx: Tx, number: int) -> list[Failure]:
    """Return the jobs of a run of CI that failed."""
    jobs, texts = failed_jobs(tx, number)
    found = []
    for run, repo, sha, branch, at, job in jobs:
        step = FixStep(f"run:{run}", at, f"{job} on {branch or '?'} at {sha[:10]}", "run")
        key = f"ci-{run}-{job}"
        told = CommandAttempt(run, at, job, None, 1, texts[-_OUTPUT:], "", key, repo=repo)
        found.append(Failure(told, step, repo, job=job, branch=branch))
    return found


# ---------------------------------------------------------------------- inside


def _failed_result(archive: Archive, row: tuple[Any, ...]) -> Failure | None:
    session_id, harness, cwd, project = row[_WIDTH : _WIDTH + 4]
    entry = to_entry(row)
    run = archive.run_of(entry, f"{harness}:{session_id}", cwd)
    if run is None or not _has_failed(run):
        return None
    name = project or project_of(None, cwd)
    return Failure(run, step_of(run, f"message:{entry.id}"), name, row=entry)


def _has_failed(run: CommandAttempt) -> bool:
    """Tell whether a tool call failed; of `make | tail` only the output tells it."""
    if run.exit_code == 0 and is_shell_tool(run.tool or "") and "|" in run.command:
        return bool(telling_line(run.output))
    return is_failure(run.command, run.exit_code, run.output)


# ------------------------------------------------------------------------------
# How a failure ended: the next success of the same command, and what changed on the way.

_ENTRIES: Final = 600  # of a session, behind the failure
_EVENTS: Final = 3_000
_CALLS: Final = 20
_BETWEEN: Final = 12
_SOON: Final = 24 * 3_600_000
_NEXT: Final = 3  # steps that are shown where nothing passed


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
    # What passes days later, with nothing done before it, was not fixed by what is known.
    last = failed.run.at + _SOON
    endings = [one for one in later if one and (one.between or one.success.at <= last)]
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
    error = telling_line(failed.run.output)
    for one, run in _runs_behind(archive, row, failed.run):
        ref = f"message:{one.id}"
        if run is None:
            between.append(FixStep(ref, one.at or 0, one_line(archive.text(one)), "prompt"))
        elif run.exit_code == 0 and is_try(run.command, shape):
            if error and says_the_same(error, run.output):  # of a pipe only the output tells it
                continue
            return Ending(step_of(run, ref), _last(between), same_session=True)
        elif is_change(run):
            between.append(step_of(run, ref))
    return None


def next_steps(archive: Archive | None, failed: Failure) -> tuple[FixStep, ...]:
    """Return what was done next in the session of a failure, whether or not it helped."""
    if archive is None or failed.row is None:
        return ()
    behind = _runs_behind(archive, failed.row, failed.run)
    steps = (
        step_of(run, f"message:{one.id}")
        for one, run in behind
        if run is not None
        and run.exit_code == 0
        and (is_edit(run) or is_shell_tool(run.tool or ""))
    )
    return tuple(islice(steps, _NEXT))


def _runs_behind(
    archive: Archive, row: EntryRow, failed: CommandAttempt
) -> Iterator[tuple[EntryRow, CommandAttempt | None]]:
    """Yield the calls with their results, and the prompts, behind an entry of a session."""
    calls: dict[str, tuple[EntryRow, Entry]] = {}
    for one in entries_behind(archive.tx, row, _ENTRIES):
        if one.kind == "prompt":
            yield one, None
        elif one.kind in {"tool_call", "tool_result"} and (entry := archive.entry(one)) is not None:
            if one.kind == "tool_call":
                calls[entry.call_id] = one, entry
            elif entry.call_id in calls:
                pair = calls[entry.call_id]
                yield one, archive.paired(pair, one, failed.session, failed.cwd)


def _in_other_sessions(archive: Archive, failed: Failure, shape: str) -> Ending | None:
    match = read_match(shape.replace("&&", " "))
    if match is None:
        return None
    project = failed.project.rsplit("/", 1)[-1]
    values = {"at": failed.run.at, "project": project, "cwd": failed.run.cwd}
    session = -1 if failed.row is None else failed.row.session
    for row in later_calls(archive.tx, match, {**values, "session": session}, _CALLS):
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
    rows = commands_since(tx, at, number, _EVENTS)
    for id_, when, command, tool, exit_code, cwd, repo, session in rows:
        yield CommandAttempt(id_, when, command, tool, exit_code, "", cwd, "", repo, str(session))


def _same_project(one: str, other: str) -> bool:
    return one.rsplit("/", 1)[-1].lower() == other.rsplit("/", 1)[-1].lower()


def _ci_ending(tx: Tx, failed: Failure) -> Ending | None:
    row = next_success(tx, failed.project, failed.job, failed.branch, failed.run.at)
    if row is None:
        return None
    run, sha, raw, at, branch = row
    message = commit_message(raw)
    changed = (
        (FixStep(f"run:{run}", at, f"{sha[:10]} {message}".strip(), "run"),) if message else ()
    )
    success = FixStep(f"run:{run}", at, f"{failed.job} on {branch or '?'} at {sha[:10]}", "run")
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


_HITS: Final = 30  # failures that are looked at
_UNINDEXED: Final = 500
_ERROR: Final = 20_000  # characters from the end of what is asked: there the error is
_ENDED: Final = 15  # of these, failures whose end is looked for
_LINES: Final = 200
_LINE: Final = 400
_WORDS: Final = 40  # of an error: a stack trace has thousands
_SAME_KIND: Final = 0.2
_PASSED: Final = 1.0
_SAME_SESSION: Final = 0.2
_CHANGED: Final = 0.2
_FEW_WORDS: Final = 6
_LEAST_OF_FEW: Final = 0.75  # of a short error, a word that is not there may be all of it
_LEAST_MATCH: Final = 0.34

Evidence = Literal["same session", "later session", "not fixed yet"]


class Fix(msgspec.Struct, frozen=True):
    """A failure that is like the one asked about, and how it ended."""

    failure: FixStep
    success: FixStep | None  # None: the command never passed since, as far as is known
    between: tuple[FixStep, ...]  # changes on the way, or what came next; the earliest first
    evidence: Evidence
    match: float  # how much of the error's words the failure has
    score: float
    error: str  # the line of the failure that says most
    project: str | None = None

    @property
    def command(self) -> str:
        """What failed, and passed later."""
        return self.failure.text


def fixed(
    memory: MemoryReader,
    error_text: str,
    within: Query = ANYTHING,
    *,
    limit: int = 5,
) -> list[Fix]:
    """Find how an error was fixed before, the best evidence first."""
    error_text = error_text[-_ERROR:]
    words = error_words(error_text)
    if not words or limit <= 0:
        return []
    tried = msgspec.structs.replace(within, kind=("command", "run"), role=(), outcome=())
    refs = [hit.ref for hit in memory.recall(" ".join(words), tried, limit=_HITS).hits]
    with memory.store.read(lenient=True) as tx:
        tables = tx.tables()
        archive = Archive(tx, memory.sources) if "tk_entries" in tables else None
        if not THING_WORDS.is_among(tx, tables):  # another's file: the newest are looked through
            refs += [f"command:{number}" for number in newest_failures(tx, _UNINDEXED)]
        found = [*_of_events(tx, refs), *_of_ci(tx, refs)]
        if archive is not None and (not within.kind or "message" in within.kind):
            said = msgspec.structs.replace(within, kind=(), role=(), outcome=())
            scope = scope_of(tx, said, ANY_NODE, memory.clock())
            found += failed_results(archive, words, scope, _HITS)
        alike = [
            one for one in found if says_the_same(error_text, one.run.output or one.run.command)
        ]
        fixes = [_fix(tx, archive, one, error_text, words) for one in _matching(alike, words)]
    return best_first(fixes)[:limit]


def error_words(error_text: str) -> tuple[str, ...]:
    """Return the words that an error is found by: of the line that says most, else of all."""
    line = telling_line(error_text) or error_text
    return tuple(dict.fromkeys(index_words(line)))[:_WORDS]


def match_of(words: Sequence[str], failed: Failure) -> float:
    """Return which part of some words stands in a failure; at most 1."""
    # Colours would stick to the words that they stand before.
    held = set(index_words(plain(f"{failed.run.command}\n{failed.run.output}")))
    return sum(word in held for word in words) / max(1, len(words))


def best_first(fixes: Sequence[Fix]) -> list[Fix]:
    """Put fixes in order: what matches and ended first; of the same failure ended the same, one."""
    ranked = sorted(fixes, key=lambda fix: (-fix.score, -fix.failure.at, fix.failure.ref))
    seen: set[tuple[str, str | None]] = set()
    kept = []
    for fix in ranked:
        ended = fix.success.ref if fix.success is not None else None
        name = (fix.failure.text, ended)
        if name not in seen:
            seen.add(name)
            kept.append(fix)
    return kept


# ---------------------------------------------------------------------- inside


def _of_events(tx: Tx, refs: Sequence[str]) -> list[Failure]:
    numbers = [int(ref.partition(":")[2]) for ref in refs if ref.startswith("command:")]
    found = (failed_command(tx, number) for number in numbers)
    return [one for one in found if one is not None]


def _of_ci(tx: Tx, refs: Sequence[str]) -> list[Failure]:
    numbers = [int(ref.partition(":")[2]) for ref in refs if ref.startswith("run:")]
    return [one for number in numbers for one in ci_failures(tx, number)]


def _matching(found: Sequence[Failure], words: Sequence[str]) -> list[Failure]:
    by_match = [(match_of(words, one), one) for one in found]
    least = _LEAST_OF_FEW if len(words) <= _FEW_WORDS else _LEAST_MATCH
    enough = [pair for pair in by_match if pair[0] >= least]
    enough.sort(key=lambda pair: (-pair[0], -pair[1].run.at))
    tries: dict[tuple[str, str], Failure] = {}
    for _, one in enough:  # tries of one session end together: the last of them is told
        tries.setdefault((one.run.session or one.step.ref, shape_of(one.run.command)), one)
    return list(tries.values())[:_ENDED]


def _fix(
    tx: Tx, archive: Archive | None, failed: Failure, error_text: str, words: Sequence[str]
) -> Fix:
    ending = ending_of(tx, archive, failed)
    match = match_of(words, failed)
    told = _line_with(words, plain(failed.run.output))
    is_same_kind = rule_of("", error_text, None) == rule_of("", failed.run.output, None)
    score = match + _SAME_KIND * is_same_kind
    if ending is not None:
        score += _PASSED + _SAME_SESSION * ending.same_session + _CHANGED * bool(ending.between)
    return Fix(
        failure=failed.step,
        success=None if ending is None else ending.success,
        between=next_steps(archive, failed) if ending is None else ending.between,
        evidence=_evidence(ending),
        match=match,
        score=score,
        error=told,
        project=failed.project,
    )


def _line_with(words: Sequence[str], output: str) -> str:
    """Return the line of an output that has most of some words, the last of these."""
    lines = [line.strip() for line in output.splitlines()[-_LINES:] if line.strip()]
    wanted = set(words)
    return max(
        reversed(lines), key=lambda line: len(wanted & set(index_words(line[:_LINE]))), default=""
    )


def _evidence(ending: Ending | None) -> Evidence:
    if ending is None:
        return "not fixed yet"
    return "same session" if ending.same_session else "later session"
