"""Rescanning: what was stored before there was a rule for it is masked now, wherever it stands."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import msgspec

from threadkeep.base.tx import Tx
from threadkeep.capture.context import CaptureContext
from threadkeep.capture.masks import (
    MaskedLines,
    mask_of,
    masked_lines,
    noted_again,
    redactor_of,
    tail_of,
)
from threadkeep.capture.places import Places
from threadkeep.capture.rederiving import rederive
from threadkeep.capture.reindexing import clean
from threadkeep.capture.report import Progress, Watcher, silent
from threadkeep.knowledge.archive import read_block
from threadkeep.knowledge.entries import Words, index_words
from threadkeep.knowledge.forgetting import drop_vectors, erase, want_cleaning
from threadkeep.knowledge.logs import LogRow, all_logs, load_log_by_id
from threadkeep.knowledge.masks import Marks, masks_of, note_masks, rules_exempt_anywhere
from threadkeep.knowledge.texts import TEXTS, Texts, is_json, is_there, put_texts, text_rows
from threadkeep.redact.engine import PRIVATE_RULE, Redactor
from threadkeep.sources.records import Source

_LEARNED = [texts for texts in TEXTS if texts.kind in {"node", "entity"}]
# What comes of sessions; its texts stand in no session of their own.
_MADE_OF_SESSIONS = {None, "event", "segment", "legacy", "node", "entity"}

RulesFor = Callable[[Texts], Redactor]


class RescanReport(msgspec.Struct):
    """What was masked, or would be in a dry run."""

    logs: int = 0
    lines: int = 0
    rows: int = 0
    rules: dict[str, int] = {}  # how often each rule found something


def rescan(
    around: CaptureContext,
    sources: Mapping[str, Source],
    *,
    dry_run: bool = False,
    show: Watcher = silent,
) -> RescanReport:
    """Pass all that is stored through the rules of today; what changes is made anew."""
    redactor = redactor_of(around)
    found: Counter[str] = Counter()
    done = RescanReport()
    with around.db.read() as tx:
        logs = [log for log in all_logs(tx) if log.lines]
        progress = Progress(logs_total=len(logs))
        changed = []
        for log in logs:
            if _look(tx, around, log, (done, found)):
                changed.append(log)
            _advance(progress, log, show)
        rules = _rules_for_rows(tx, redactor)
        rows = {texts: _changed_rows(tx, rules(texts), texts, found) for texts in TEXTS}
        kinds = [row for row in tx.all("unknown_kinds") if redactor.text(row[0]) != row[0]]
    done.logs, done.rows = len(changed), sum(len(ids) for ids in rows.values()) + len(kinds)
    done.rules = dict(sorted(found.items()))
    if dry_run or not (done.logs or done.rows):
        return done
    places = Places(around, sources)
    progress = Progress(logs_total=len(changed))
    for log in changed:
        places.write(partial(_mask_log, around, places, log))
        _advance(progress, log, show)
    with around.db.write() as tx:
        _mask_tables(tx, rules, rows)
        tx.run_bulk("delete_unknown_kind", kinds)
        want_cleaning(tx)
    _mask_late(around, rules)
    clean(around, sources, show)
    return done


def _advance(progress: Progress, log: LogRow, show: Watcher) -> None:
    progress.logs_done += 1
    progress.path = log.path
    show(progress)


def _look(
    tx: Tx, around: CaptureContext, log: LogRow, into: tuple[RescanReport, Counter[str]]
) -> bool:
    """Count what would be masked in a log; a block without a secret costs one pass over it."""
    done, found = into
    before = done.lines
    for _, masked in _blocks(tx, around, log):
        done.lines += len(masked.changed)
        found.update(rule for marks in masked.marks.values() for rule, _ in marks)
    return done.lines > before


def _blocks(tx: Tx, around: CaptureContext, log: LogRow) -> Iterator[tuple[int, MaskedLines]]:
    """Mask a log block by block; give the number of the first line of each, and its lines."""
    mask = mask_of(tx, around, log.harness, log.session_id)
    tail = b""
    for first, block in tx.all("blocks_from", {"log": log.id, "first": 0}):
        text = b"".join([line + b"\n" for line in read_block(tx, block)])
        yield first, masked_lines(mask, text, tail)
        tail = tail_of(tail, text)


def _rules(redactor: Redactor, text: str) -> list[str]:
    return [finding.rule for finding in redactor.scan(text)] or [PRIVATE_RULE]


def _mask_log(around: CaptureContext, places: Places, log: LogRow, tx: Tx) -> None:
    row = load_log_by_id(tx, log.id)
    if row is None:
        return
    words: Words = []
    fresh: dict[int, Marks] = {}
    new: dict[int, bytes] = {}
    for first, masked in _blocks(tx, around, row):
        fresh |= {first + row: marks for row, marks in masked.marks.items()}
        new |= {first + row: masked.lines[row] for row in masked.changed}
    noted = masks_of(tx, row.id)

    def change(number: int, line: bytes) -> bytes:
        return new.get(number, line)

    if rederive(tx, around, places, row, change, words).lines:
        again = {n: noted_again(new[n], fresh.get(n, ()), noted.get(n, ())) for n in new}
        note_masks(tx, row.id, again)
        index_words(tx, words)
        want_cleaning(tx)


# ---------------------------------------------------------------------- rows


def _masked(redactor: Redactor, texts: Texts, values: Mapping[str, str]) -> dict[str, str]:
    """Give the texts of a row that change."""
    new = {
        c: (redactor.json_line if is_json(texts.table, c) else redactor.text)(v)
        for c, v in values.items()
    }
    return {column: text for column, text in new.items() if text != values[column]}


def _rules_for_rows(tx: Tx, redactor: Redactor) -> RulesFor:
    """Give the rules for each table: what was made of sessions keeps what was undone in one."""
    undone = redactor.sparing(rules_exempt_anywhere(tx))
    return lambda texts: undone if texts.kind in _MADE_OF_SESSIONS else redactor


def _changed_rows(tx: Tx, redactor: Redactor, texts: Texts, found: Counter[str]) -> set[int]:
    ids = set()
    for number, values in text_rows(tx, texts) if is_there(tx, texts) else ():
        changed = _masked(redactor, texts, values)
        if changed:
            ids.add(number)
            for column in changed:
                found.update(_rules(redactor, values[column]))
    return ids


def _mask_tables(tx: Tx, rules: RulesFor, rows: Mapping[Texts, set[int]]) -> None:
    for texts, ids in rows.items():
        _mask_rows(tx, rules(texts), texts, ids)


def _mask_late(around: CaptureContext, rules: RulesFor) -> None:
    """Mask what was learned from rows between the look at them and their masking.

    There it ends: since then nobody holds a ticket for what they read before.
    """
    with around.db.read() as tx:
        late = {texts: _changed_rows(tx, rules(texts), texts, Counter()) for texts in _LEARNED}
    if any(late.values()):
        with around.db.write() as tx:
            _mask_tables(tx, rules, late)


def _mask_rows(tx: Tx, redactor: Redactor, texts: Texts, ids: set[int]) -> None:
    """Mask rows as they are now; those made anew from the archive have changed already."""
    for number, values in text_rows(tx, texts) if ids else ():
        changed = _masked(redactor, texts, values) if number in ids else {}
        if texts.kind and any(column in changed for column in texts.names):
            erase(tx, texts.kind, [number])  # what was taken for a thing with a name is a secret
        elif changed:
            put_texts(tx, texts, number, changed)
            if texts.kind == "node":
                drop_vectors(tx, number)
