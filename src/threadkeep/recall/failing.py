"""Failures as they are stored: commands, tool calls of agents, jobs of CI."""

from typing import Any, Final, Literal

import msgspec

from threadkeep.base.fts import match_query
from threadkeep.base.tx import Tx
from threadkeep.knowledge.command_shapes import project_of
from threadkeep.knowledge.error_signatures import is_failure
from threadkeep.knowledge.failures import run_of_row
from threadkeep.knowledge.fix_hints import is_edit
from threadkeep.knowledge.reading import CapturedSessionFilter, EntryRow, to_entry
from threadkeep.knowledge.runs import CommandAttempt
from threadkeep.recall.calls import Archive
from threadkeep.recall.records import Filters

_WIDTH: Final = len(EntryRow.__struct_fields__)
_TEXT: Final = 300  # characters of a command or a prompt
_ANY_OF: Final = 6  # words: of an error that nobody had in just these words
_OF_OTHERS: Final = frozenset({"shell", "browser", "ci"})
_OUTPUT: Final = 8_000

StepKind = Literal["command", "edit", "prompt", "ci"]


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
    """Give the beginning of a text on one line."""
    return " ".join(text[: 4 * _TEXT].split())[:_TEXT]


def failed_command(tx: Tx, number: int) -> Failure | None:
    """Give a stored command that failed; None if it did not, or is gone."""
    row = tx.one("one_run", {"id": number})
    run = None if row is None else run_of_row(*row)
    if run is None or not is_failure(run.command, run.exit_code, run.output):
        return None
    return Failure(run, step_of(run, f"command:{run.id}"), project_of(run.repo, run.cwd))


def failed_results(
    archive: Archive, words: tuple[str, ...], filters: Filters, limit: int
) -> list[Failure]:
    """Find tool calls of agents that failed with some words: with all, else with any of them."""
    if filters.source in _OF_OTHERS:
        return []
    longest = sorted(words, key=len, reverse=True)[:_ANY_OF]
    found: dict[int, Failure] = {}
    for asked in (" ".join(words), " OR ".join(f'"{word}"' for word in longest)):
        for row in _result_rows(archive.tx, asked, filters, limit):
            one = _failed_result(archive, row)
            if one is not None:
                found.setdefault(one.run.id, one)
        if found:
            break
    return list(found.values())


def ci_failures(tx: Tx, number: int) -> list[Failure]:
    """Give the jobs of a run of CI that failed."""
    texts = "\n".join(str(row[0]) for row in tx.all("ci_texts", {"id": number}))
    found = []
    for run, repo, sha, branch, at, job in tx.all("ci_failed_steps", {"id": number}):
        step = FixStep(f"ci:{run}", at, f"{job} on {branch or '?'} at {sha[:10]}", "ci")
        key = f"ci-{run}-{job}"
        told = CommandAttempt(run, at, job, None, 1, texts[-_OUTPUT:], "", key, repo=repo)
        found.append(Failure(told, step, repo, job=job, branch=branch))
    return found


# ---------------------------------------------------------------------- inside


def _result_rows(tx: Tx, asked: str, filters: Filters, limit: int) -> list[tuple[Any, ...]]:
    match = match_query(asked)
    if match is None:
        return []
    harness = filters.harness or (None if filters.source == "agent" else filters.source)
    among = CapturedSessionFilter(
        harness, filters.project, filters.branch, filters.since, filters.until
    )
    return tx.all("failed_results", {**among.params(), "match": match, "limit": limit})


def _failed_result(archive: Archive, row: tuple[Any, ...]) -> Failure | None:
    session_id, harness, cwd, project = row[_WIDTH : _WIDTH + 4]
    entry = to_entry(row)
    run = archive.run_of(entry, f"{harness}:{session_id}", cwd)
    if run is None or not is_failure(run.command, run.exit_code, run.output):
        return None
    name = project or project_of(None, cwd)
    return Failure(run, step_of(run, f"message:{entry.id}"), name, row=entry)
