"""Undoing masks: the original is read again where its log still exists, and takes its place.

A mask can be wrong. The log itself is asked what stood there; nothing is put back unless all that
stands around the mask is the same. Which rules were undone in a session is remembered, so that
neither the next capture nor a rescan masks it again.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from threadkeep.base.tx import Tx
from threadkeep.capture.context import CaptureContext, Mask
from threadkeep.capture.masks import (
    MARKERS,
    markers_in,
    mask_of,
    masked_lines,
    redactor_of,
    tail_of,
)
from threadkeep.capture.places import Places
from threadkeep.capture.rederiving import rederive
from threadkeep.capture.reindexing import clean
from threadkeep.capture.report import Progress, Watcher, silent
from threadkeep.capture.troubles import TROUBLES
from threadkeep.errors import Invalid, ThreadkeepError
from threadkeep.knowledge.archive import digest, read_lines
from threadkeep.knowledge.context import KnowledgeContext
from threadkeep.knowledge.entries import Words, index_words
from threadkeep.knowledge.forgetting import want_cleaning
from threadkeep.knowledge.logs import LogRow, all_logs, load_log_by_id, logs_of_session
from threadkeep.knowledge.masks import (
    Marks,
    exempt,
    exempt_rules,
    masks_of,
    note_masks,
    rules_noted,
)
from threadkeep.knowledge.reading import find_session
from threadkeep.redact.engine import PRIVATE_RULE
from threadkeep.sources.files import LogFile
from threadkeep.sources.records import Source


class UnmaskReport(msgspec.Struct):
    """What was put back, or would be in a dry run."""

    logs: int = 0
    lines: int = 0
    masks: int = 0
    rules: dict[str, int] = {}  # the masks that go, by the rule that put them there
    unlike: int = 0  # lines with a mask that are not in their log as they were
    gone: list[str] = []  # logs that do not exist any more: what is masked there stays so


class _Original(NamedTuple):
    """A line of a log: as it is, as all rules leave it, and as the others leave it."""

    raw: bytes
    masked: bytes
    found: Marks
    new: bytes
    marks: Marks


class _Back(NamedTuple):
    """A line to put back, the masks that stay in it, and the rules whose masks go."""

    line: bytes
    marks: Marks
    rules: tuple[str, ...]


def undo(
    context: KnowledgeContext,
    around: CaptureContext,
    sources: Mapping[str, Source],
    name: str,
    *,
    dry_run: bool = False,
    show: Watcher = silent,
) -> UnmaskReport:
    """Undo the masks of a rule, or all of a session; what was marked as private stays so."""
    with around.db.read() as tx:
        rule = _rule(tx, around, name)
        if rule is not None:
            logs = [log for log in all_logs(tx) if log.lines]
        else:
            session = find_session(context, tx, name)
            logs = logs_of_session(tx, session.harness, session.session_id)
    done = UnmaskReport()
    counted: Counter[str] = Counter()
    progress = Progress(logs_total=len(logs))
    undoing = _Undoing(around, Places(around, sources), rule, done)
    for log in logs:
        back = undoing.look(log)
        if back:
            done.logs += 1
            done.lines += len(back)
            counted.update(one for line in back.values() for one in line.rules)
            if not dry_run:
                undoing.write(log, back)
        progress.logs_done += 1
        progress.path = log.path
        show(progress)
    done.rules, done.masks = dict(sorted(counted.items())), counted.total()
    if done.lines and not dry_run:
        clean(around, sources, show)
    return done


def _rule(tx: Tx, around: CaptureContext, name: str) -> str | None:
    """Tell whether a name is that of a rule."""
    if name == PRIVATE_RULE:
        msg = "what was marked as private is not put back"
        raise Invalid(msg, hint="take the marker <private> out of the log, and capture it again")
    return name if name in redactor_of(around).names or name in rules_noted(tx) else None


class _Undoing:
    """Undoes the masks of one rule, or of all, log by log."""

    def __init__(
        self, around: CaptureContext, places: Places, rule: str | None, done: UnmaskReport
    ) -> None:
        self._around = around
        self._places = places
        self._rule = rule
        self._done = done

    def look(self, row: LogRow) -> dict[int, _Back]:
        """Give the lines of a log that can be put back, by their number."""
        with self._around.db.read() as tx:
            wanted = self._wanted(tx, row)
            if not wanted:
                return {}
            try:
                found = dict(self._matching(tx, row, wanted))
            except (*TROUBLES, ThreadkeepError):
                self._done.gone.append(row.path)
                return {}
        self._done.unlike += len(wanted.keys() - found.keys())
        return {n: _back(one) for n, one in found.items() if one.new != wanted[n]}

    def _wanted(self, tx: Tx, row: LogRow) -> dict[int, bytes]:
        """Give the lines that have a mask of the rule, or one that nothing is noted of."""
        noted = masks_of(tx, row.id)
        wanted = {}
        for number, line in enumerate(read_lines(tx, row.id)):
            if not any(marker in line for marker in MARKERS):
                continue
            rules = [rule for rule, _ in noted.get(number, ())]
            if self._rule is None or self._rule in rules or len(rules) < len(markers_in(line)):
                wanted[number] = line
        return wanted

    def _matching(
        self, tx: Tx, row: LogRow, wanted: Mapping[int, bytes]
    ) -> Iterator[tuple[int, _Original]]:
        """Yield the originals of lines, each with the number of the line in the archive."""
        self._places.find(row)
        if self._places.source(row).kind != "lines":
            yield from self._of_records(tx, row, wanted)
            return
        names: dict[bytes, list[int]] = defaultdict(list)
        for number in sorted(wanted, reverse=True):
            names[digest(wanted[number])].append(number)
        left = dict(wanted)
        for place, one in enumerate(self._of_lines(tx, row)):
            same = left.get(place) == one.masked  # where it was, if the log was never rewritten
            candidates = names.get(digest(one.masked), ()) if one.found and not same else ()
            number = next((n for n in reversed(candidates) if n in left), place)
            if number in left and _fits(one.raw, left[number]):
                del left[number]
                yield number, one

    def _of_lines(self, tx: Tx, row: LogRow) -> Iterator[_Original]:
        before, after = self._masks(tx, row)
        tail = b""
        log = self._places.log(tx, row)
        with LogFile(log.path, log.root) as file:
            for piece in file.pieces(0):
                if piece.kept:
                    yield from _originals(piece.data, tail, before, after)
                tail = tail_of(tail, piece.data)

    def _of_records(
        self, tx: Tx, row: LogRow, wanted: Mapping[int, bytes]
    ) -> Iterator[tuple[int, _Original]]:
        before, after = self._masks(tx, row)
        log = self._places.log(tx, row)
        places: dict[str, int] = {
            key: line for key, _, line in tx.all("known_records", {"log": row.id})
        }
        for key, raw in self._places.source(row).records(log, row.item):
            number = places.get(key, -1)
            if number in wanted:
                (one,) = _originals(raw + b"\n", b"", before, after)
                if _fits(raw, wanted[number]):
                    yield number, one

    def _masks(self, tx: Tx, row: LogRow) -> tuple[Mask, Mask]:
        """Give what masks this log now, and what will."""
        redactor = redactor_of(self._around)
        undone = {*exempt_rules(tx, row.harness, row.session_id)}
        undone |= set(redactor.names) if self._rule is None else {self._rule}
        now = mask_of(tx, self._around, row.harness, row.session_id)
        return now, redactor.sparing(undone).piece

    def write(self, log: LogRow, back: Mapping[int, _Back]) -> None:
        """Put lines back, and all that was made of them; remember which rules mask no more."""
        around, places = self._around, self._places

        def change(number: int, line: bytes) -> bytes:
            return back[number].line if number in back else line

        def step(tx: Tx) -> None:
            row = load_log_by_id(tx, log.id)
            if row is None:
                return
            words: Words = []
            if rederive(tx, around, places, row, change, words).lines:
                note_masks(tx, row.id, {number: one.marks for number, one in back.items()})
                rules = {rule for one in back.values() for rule in one.rules}
                exempt(tx, row.harness, row.session_id, rules, around.clock())
                index_words(tx, words)
                want_cleaning(tx)

        places.write(step)


def _originals(data: bytes, tail: bytes, before: Mask, after: Mask) -> Iterator[_Original]:
    now, then = masked_lines(before, data, tail), masked_lines(after, data, tail)
    raw = data.split(b"\n")
    for row, (masked, new) in enumerate(zip(now.lines, then.lines, strict=True)):
        yield _Original(raw[row], masked, now.marks.get(row, ()), new, then.marks.get(row, ()))


def _back(one: _Original) -> _Back:
    """Tell which masks go: those that are found now and not any more."""
    stay = Counter(rule for rule, _ in one.marks)
    go = Counter(rule for rule, _ in one.found) - stay
    return _Back(one.new, one.marks, tuple(go.elements()))


def _fits(raw: bytes, masked: bytes) -> bool:
    """Tell whether all that stands around the masks of a line is in the original, in order."""
    for marker in MARKERS[1:]:
        masked = masked.replace(marker, MARKERS[0])
    first, *rest = masked.split(MARKERS[0])
    if not rest or not raw.startswith(first):
        return not rest and raw == masked
    place = len(first)
    for piece in rest[:-1]:
        found = raw.find(piece, place)
        if found < 0:
            return False
        place = found + len(piece)
    return raw.endswith(rest[-1]) and len(raw) - len(rest[-1]) >= place
