"""Rescanning: what was stored before there was a rule for it is masked now, wherever it stands."""

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

import msgspec

from threadkeep.base.tx import Tx
from threadkeep.capture import intake
from threadkeep.capture.rebuild import Places, rederive
from threadkeep.capture.records import TROUBLES, Progress, Watcher, silent
from threadkeep.capture.redact.engine import PRIVATE_RULE, Redactor
from threadkeep.errors import Invalid, ThreadkeepError
from threadkeep.knowledge import archive, forget
from threadkeep.knowledge.archived import entries_in
from threadkeep.knowledge.reindex import (
    entries_to_index,
    leave_index,
    next_log,
    take_up_index,
)
from threadkeep.knowledge.sessions import find_session
from threadkeep.sources.files import LogFile
from threadkeep.sources.records import Source

# ------------------------------------------------------------------------------
# The index of all entries rebuilt, and what was forgotten taken out of the file itself.
#
# A row of `tk_cleaning` says that there is work, from the transaction that made it until the file
# is clean. So a run that is killed is finished by the next one, whoever starts it.

log = logging.getLogger(__name__)


def reindex(
    around: intake.CaptureContext, sources: Mapping[str, Source], show: Watcher = silent
) -> int:
    """Rebuild the index of all entries from the archive; give how many were indexed."""
    around.store.indexes.want()
    return clean(around, sources, show)


def clean(
    around: intake.CaptureContext, sources: Mapping[str, Source], show: Watcher = silent
) -> int:
    """Finish what a change of the archive began, if anything did; give how many were indexed.

    The words are reindexed, in several transactions: others may write meanwhile. Then the
    file is rewritten, since free pages and the index's own pages may hold old text.
    """
    left = around.store.indexes.logs_left()
    if left is None:
        return 0
    progress = Progress(logs_total=left, doing="rebuilding the search index")
    while _index_some(around, sources, progress):
        show(progress)
    around.store.index()
    show(progress)
    around.store.indexes.finish(around.clock())
    around.store.vacuum()
    if not around.store.truncate_log():
        log.warning("%s: a reader is in the way; it is cleaned at the next run", around.store.name)
        return progress.entries
    around.store.indexes.is_done()
    around.store.truncate_log()
    return progress.entries


def _index_some(
    around: intake.CaptureContext, sources: Mapping[str, Source], progress: Progress
) -> bool:
    """Index some logs in one transaction; tell whether there are more."""
    with around.store.write() as tx:
        index = take_up_index(tx)
        words: archive.Words = []
        size = 0
        while size < intake.BATCH_BYTES:
            row = next_log(tx, index.next_log)
            if row is None:
                break
            fresh = _words_of(tx, sources, row, index.last_entry)
            size += sum(len(text) for _, text in fresh)
            words += fresh
            index = index._replace(next_log=row.id + 1)
            progress.logs_done += 1
            progress.path = row.path
        archive.index_words(tx, words)
        progress.entries += len(words)
        leave_index(tx, index)
        return next_log(tx, index.next_log) is not None


def _words_of(
    tx: Tx, sources: Mapping[str, Source], row: archive.LogRow, last: int
) -> archive.Words:
    """Return what the entries of one log are found by."""
    wanted = entries_to_index(tx, row.id, last)
    words: archive.Words = []
    for number, text in enumerate(archive.read_lines(tx, row.id)) if wanted else ():
        places = wanted.get(number)
        if places is not None:
            entries = entries_in(sources, row.reader, text, number)
            words += [
                (entry, archive.words_of(entries[key].text))
                for entry, key in places
                if key in entries and entries[key].text
            ]
    return words


_LEARNED = [texts for texts in forget.TEXTS if texts.kind in {"node", "entity"}]
# What comes of sessions; its texts stand in no session of their own.
_MADE_OF_SESSIONS = {None, "event", "segment", "legacy", "node", "entity"}

RulesFor = Callable[[forget.Texts], Redactor]


class RescanReport(msgspec.Struct):
    """What was masked, or would be in a dry run."""

    logs: int = 0
    lines: int = 0
    rows: int = 0
    rules: dict[str, int] = {}  # how often each rule found something


def rescan(
    around: intake.CaptureContext,
    sources: Mapping[str, Source],
    *,
    dry_run: bool = False,
    show: Watcher = silent,
) -> RescanReport:
    """Pass all that is stored through the rules of today; what changes is rebuilt."""
    redactor = intake.redactor_of(around)
    found: Counter[str] = Counter()
    done = RescanReport()
    with around.store.read() as tx:
        logs = [log for log in archive.all_logs(tx) if log.lines]
        progress = Progress(logs_total=len(logs))
        changed = []
        for log in logs:
            if _look(tx, around, log, (done, found)):
                changed.append(log)
            _advance(progress, log, show)
        rules = _rules_for_rows(tx, redactor)
        rows = {texts: _changed_rows(tx, rules(texts), texts, found) for texts in forget.TEXTS}
        kinds = forget.matching_names(
            tx, "unknown record", lambda kind: redactor.text(kind) != kind
        )
    done.logs, done.rows = len(changed), sum(len(ids) for ids in rows.values()) + len(kinds)
    done.rules = dict(sorted(found.items()))
    if dry_run or not (done.logs or done.rows):
        return done
    places = Places(around, sources)
    progress = Progress(logs_total=len(changed))
    for log in changed:
        places.write(partial(_mask_log, around, places, log))
        _advance(progress, log, show)
    with around.store.write() as tx:
        _mask_tables(tx, rules, rows)
        forget.drop_names(tx, "unknown record", kinds)
        forget.want_cleaning(tx)
    _mask_late(around, rules)
    clean(around, sources, show)
    return done


def _advance(progress: Progress, log: archive.LogRow, show: Watcher) -> None:
    progress.logs_done += 1
    progress.path = log.path
    show(progress)


def _look(
    tx: Tx,
    around: intake.CaptureContext,
    log: archive.LogRow,
    into: tuple[RescanReport, Counter[str]],
) -> bool:
    """Count what would be masked in a log; a block without a secret costs one pass over it."""
    done, found = into
    before = done.lines
    for _, masked in _blocks(tx, around, log):
        done.lines += len(masked.changed)
        found.update(rule for marks in masked.marks.values() for rule, _ in marks)
    return done.lines > before


def _blocks(
    tx: Tx, around: intake.CaptureContext, log: archive.LogRow
) -> Iterator[tuple[int, intake.MaskedLines]]:
    """Mask a log block by block; give the number of the first line of each, and its lines."""
    mask = intake.mask_of(tx, around, log.harness, log.session_id)
    tail = b""
    for first, lines in archive.read_blocks(tx, log.id):
        text = b"".join([line + b"\n" for line in lines])
        yield first, intake.masked_lines(mask, text, tail)
        tail = intake.tail_of(tail, text)


def _rules(redactor: Redactor, text: str) -> list[str]:
    return [finding.rule for finding in redactor.scan(text)] or [PRIVATE_RULE]


def _mask_log(around: intake.CaptureContext, places: Places, log: archive.LogRow, tx: Tx) -> None:
    row = archive.load_log_by_id(tx, log.id)
    if row is None:
        return
    words: archive.Words = []
    fresh: dict[int, forget.Marks] = {}
    new: dict[int, bytes] = {}
    for first, masked in _blocks(tx, around, row):
        fresh |= {first + row: marks for row, marks in masked.marks.items()}
        new |= {first + row: masked.lines[row] for row in masked.changed}
    noted = forget.masks_of(tx, row.id)

    def change(number: int, line: bytes) -> bytes:
        return new.get(number, line)

    if rederive(tx, around, places, row, change, words).lines:
        again = {n: intake.noted_again(new[n], fresh.get(n, ()), noted.get(n, ())) for n in new}
        forget.note_masks(tx, row.id, again)
        archive.index_words(tx, words)
        forget.want_cleaning(tx)


# ---------------------------------------------------------------------- rows


def _masked(redactor: Redactor, texts: forget.Texts, values: Mapping[str, str]) -> dict[str, str]:
    """Return the texts of a row that change."""
    new = {
        c: (redactor.json_line if forget.is_json(texts.table, c) else redactor.text)(v)
        for c, v in values.items()
    }
    return {column: text for column, text in new.items() if text != values[column]}


def _rules_for_rows(tx: Tx, redactor: Redactor) -> RulesFor:
    """Return the rules for each table: what was made of sessions keeps what was undone in one."""
    undone = redactor.sparing(forget.rules_exempt_anywhere(tx))
    return lambda texts: undone if texts.kind in _MADE_OF_SESSIONS else redactor


def _changed_rows(tx: Tx, redactor: Redactor, texts: forget.Texts, found: Counter[str]) -> set[int]:
    ids = set()
    for number, values in forget.text_rows(tx, texts) if forget.is_there(tx, texts) else ():
        changed = _masked(redactor, texts, values)
        if changed:
            ids.add(number)
            for column in changed:
                found.update(_rules(redactor, values[column]))
    return ids


def _mask_tables(tx: Tx, rules: RulesFor, rows: Mapping[forget.Texts, set[int]]) -> None:
    for texts, ids in rows.items():
        _mask_rows(tx, rules(texts), texts, ids)


def _mask_late(around: intake.CaptureContext, rules: RulesFor) -> None:
    """Mask what was learned from rows between the look at them and their masking.

    There it ends: since then nobody holds a ticket for what they read before.
    """
    with around.store.read() as tx:
        late = {texts: _changed_rows(tx, rules(texts), texts, Counter()) for texts in _LEARNED}
    if any(late.values()):
        with around.store.write() as tx:
            _mask_tables(tx, rules, late)


def _mask_rows(tx: Tx, redactor: Redactor, texts: forget.Texts, ids: set[int]) -> None:
    """Mask rows as they are now; those rebuilt from the archive have changed already."""
    for number, values in forget.text_rows(tx, texts) if ids else ():
        changed = _masked(redactor, texts, values) if number in ids else {}
        if texts.kind and any(column in changed for column in texts.names):
            forget.erase(
                tx, texts.kind, [number]
            )  # what was taken for a thing with a name is a secret
        elif changed:
            forget.put_texts(tx, texts, number, changed)
            if texts.kind == "node":
                forget.drop_vectors(tx, number)


# ------------------------------------------------------------------------------
# Undoing masks: the original is read again where its log still exists, and takes its place.
#
# A mask can be wrong. The log itself is asked what stood there; nothing is put back unless all that
# stands around the mask is the same. Which rules were undone in a session is remembered, so that
# neither the next capture nor a rescan masks it again.


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
    found: forget.Marks
    new: bytes
    marks: forget.Marks


class _Back(NamedTuple):
    """A line to put back, the masks that stay in it, and the rules whose masks go."""

    line: bytes
    marks: forget.Marks
    rules: tuple[str, ...]


def undo(
    around: intake.CaptureContext,
    sources: Mapping[str, Source],
    name: str,
    *,
    dry_run: bool = False,
    show: Watcher = silent,
) -> UnmaskReport:
    """Undo the masks of a rule, or all of a session; what was marked as private stays so."""
    with around.store.read() as tx:
        rule = _rule(tx, around, name)
        if rule is not None:
            logs = [log for log in archive.all_logs(tx) if log.lines]
        else:
            session = find_session(tx, name)
            logs = archive.logs_of_session(tx, session.agent, session.session_id)
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


def _rule(tx: Tx, around: intake.CaptureContext, name: str) -> str | None:
    """Tell whether a name is that of a rule."""
    if name == PRIVATE_RULE:
        msg = "private parts are not restored"
        raise Invalid(msg, hint="remove the marker <private> from the log, and capture it again")
    return (
        name if name in intake.redactor_of(around).names or name in forget.rules_noted(tx) else None
    )


class _Undoing:
    """Undoes the masks of one rule, or of all, log by log."""

    def __init__(
        self, around: intake.CaptureContext, places: Places, rule: str | None, done: UnmaskReport
    ) -> None:
        self._around = around
        self._places = places
        self._rule = rule
        self._done = done

    def look(self, row: archive.LogRow) -> dict[int, _Back]:
        """Return the lines of a log that can be put back, by their number."""
        with self._around.store.read() as tx:
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

    def _wanted(self, tx: Tx, row: archive.LogRow) -> dict[int, bytes]:
        """Return the lines that have a mask of the rule, or one that nothing is noted of."""
        noted = forget.masks_of(tx, row.id)
        wanted = {}
        for number, line in enumerate(archive.read_lines(tx, row.id)):
            if not any(marker in line for marker in intake.MARKERS):
                continue
            rules = [rule for rule, _ in noted.get(number, ())]
            if (
                self._rule is None
                or self._rule in rules
                or len(rules) < len(intake.markers_in(line))
            ):
                wanted[number] = line
        return wanted

    def _matching(
        self, tx: Tx, row: archive.LogRow, wanted: Mapping[int, bytes]
    ) -> Iterator[tuple[int, _Original]]:
        """Yield the originals of lines, each with the number of the line in the archive."""
        self._places.find(row)
        if self._places.source(row).kind != "lines":
            yield from self._of_records(tx, row, wanted)
            return
        names: dict[bytes, list[int]] = defaultdict(list)
        for number in sorted(wanted, reverse=True):
            names[archive.digest(wanted[number])].append(number)
        left = dict(wanted)
        for place, one in enumerate(self._of_lines(tx, row)):
            same = left.get(place) == one.masked  # where it was, if the log was never rewritten
            candidates = names.get(archive.digest(one.masked), ()) if one.found and not same else ()
            number = next((n for n in reversed(candidates) if n in left), place)
            if number in left and _fits(one.raw, left[number]):
                del left[number]
                yield number, one

    def _of_lines(self, tx: Tx, row: archive.LogRow) -> Iterator[_Original]:
        before, after = self._masks(tx, row)
        tail = b""
        log = self._places.log(tx, row)
        with LogFile(log.path, log.root) as file:
            for piece in file.pieces(0):
                if piece.kept:
                    yield from _originals(piece.data, tail, before, after)
                tail = intake.tail_of(tail, piece.data)

    def _of_records(
        self, tx: Tx, row: archive.LogRow, wanted: Mapping[int, bytes]
    ) -> Iterator[tuple[int, _Original]]:
        before, after = self._masks(tx, row)
        log = self._places.log(tx, row)
        known = archive.records_of(tx, row.id)
        for key, raw in self._places.source(row).records(log, row.item):
            number = known[key][1] if key in known else -1
            if number in wanted:
                (one,) = _originals(raw + b"\n", b"", before, after)
                if _fits(raw, wanted[number]):
                    yield number, one

    def _masks(self, tx: Tx, row: archive.LogRow) -> tuple[intake.Mask, intake.Mask]:
        """Return what masks this log now, and what will."""
        redactor = intake.redactor_of(self._around)
        undone = {*forget.exempt_rules(tx, row.harness, row.session_id)}
        undone |= set(redactor.names) if self._rule is None else {self._rule}
        now = intake.mask_of(tx, self._around, row.harness, row.session_id)
        return now, redactor.sparing(undone).piece

    def write(self, log: archive.LogRow, back: Mapping[int, _Back]) -> None:
        """Put lines back, and all that was made of them; remember which rules mask no more."""
        around, places = self._around, self._places

        def change(number: int, line: bytes) -> bytes:
            return back[number].line if number in back else line

        def step(tx: Tx) -> None:
            row = archive.load_log_by_id(tx, log.id)
            if row is None:
                return
            words: archive.Words = []
            if rederive(tx, around, places, row, change, words).lines:
                forget.note_masks(tx, row.id, {number: one.marks for number, one in back.items()})
                rules = {rule for one in back.values() for rule in one.rules}
                forget.exempt(tx, row.harness, row.session_id, rules, around.clock())
                archive.index_words(tx, words)
                forget.want_cleaning(tx)

        places.write(step)


def _originals(
    data: bytes, tail: bytes, before: intake.Mask, after: intake.Mask
) -> Iterator[_Original]:
    now, then = intake.masked_lines(before, data, tail), intake.masked_lines(after, data, tail)
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
    for marker in intake.MARKERS[1:]:
        masked = masked.replace(marker, intake.MARKERS[0])
    first, *rest = masked.split(intake.MARKERS[0])
    if not rest or not raw.startswith(first):
        return not rest and raw == masked
    place = len(first)
    for piece in rest[:-1]:
        found = raw.find(piece, place)
        if found < 0:
            return False
        place = found + len(piece)
    return raw.endswith(rest[-1]) and len(raw) - len(rest[-1]) >= place
