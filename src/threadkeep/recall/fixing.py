"""fixed: this error, and how it ended: the next success of the same command, and what came between.

Failures are commands that ended with an error, tool calls of agents that failed, and jobs of CI.
"""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from threadkeep.base.fts import index_words
from threadkeep.base.tx import Tx
from threadkeep.enrich.wording import plain
from threadkeep.knowledge.command_shapes import shape_of
from threadkeep.knowledge.error_signatures import rule_of, telling_line
from threadkeep.knowledge.layout import names
from threadkeep.recall.calls import Archive
from threadkeep.recall.endings import Ending, ending_of
from threadkeep.recall.failing import Failure, FixStep, ci_failures, failed_command, failed_results
from threadkeep.recall.records import Filters
from threadkeep.recall.remembering import MemoryReader

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
    between: tuple[FixStep, ...]  # what changed something on the way, the earliest first
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
    filters: Filters = Filters(),  # noqa: B008  (a constant)
    *,
    limit: int = 5,
) -> list[Fix]:
    """Find how an error was ended before, the best evidence first."""
    error_text = error_text[-_ERROR:]
    words = error_words(error_text)
    if not words or limit <= 0:
        return []
    kinds = msgspec.structs.replace(filters, kinds=("command", "ci"), role=None, outcome=None)
    hits = memory.recall(" ".join(words), kinds, limit=_HITS).hits
    refs = [hit.ref for hit in hits]
    with memory.store.context.db.read(lenient=True) as tx:
        tables = names(tx, "table")
        archive = Archive(tx, memory.sources) if "tk_entries" in tables else None
        if "tk_thing_words" not in tables:  # another program's file: the newest are looked through
            newest = tx.all("newest_failures", {"limit": _UNINDEXED})
            refs += [f"command:{number}" for (number,) in newest]
        found = [*_of_events(tx, refs), *_of_ci(tx, refs)]
        if archive is not None:
            found += failed_results(archive, words, filters, _HITS)
        fixes = [_fix(tx, archive, one, error_text, words) for one in _matching(found, words)]
    return best_first(fixes)[:limit]


def error_words(error_text: str) -> tuple[str, ...]:
    """Give the words that an error is found by: of the line that says most, else of all."""
    line = telling_line(error_text) or error_text
    return tuple(dict.fromkeys(index_words(line)))[:_WORDS]


def match_of(words: Sequence[str], failed: Failure) -> float:
    """Give which part of some words stands in a failure; at most 1."""
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
    numbers = [int(ref.partition(":")[2]) for ref in refs if ref.startswith("ci:")]
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
    told = telling_line(failed.run.output) or _line_with(words, plain(failed.run.output))
    is_same_kind = rule_of("", error_text, None) == rule_of("", failed.run.output, None)
    score = match + _SAME_KIND * is_same_kind
    if ending is not None:
        score += _PASSED + _SAME_SESSION * ending.same_session + _CHANGED * bool(ending.between)
    return Fix(
        failure=failed.step,
        success=None if ending is None else ending.success,
        between=() if ending is None else ending.between,
        evidence=_evidence(ending),
        match=match,
        score=score,
        error=told,
        project=failed.project,
    )


def _line_with(words: Sequence[str], output: str) -> str:
    """Give the line of an output that has most of some words, the last of these."""
    lines = [line.strip() for line in output.splitlines()[-_LINES:] if line.strip()]
    wanted = set(words)
    return max(
        reversed(lines), key=lambda line: len(wanted & set(index_words(line[:_LINE]))), default=""
    )


def _evidence(ending: Ending | None) -> Evidence:
    if ending is None:
        return "not fixed yet"
    return "same session" if ending.same_session else "later session"
