"""Rescanning: what was stored before there was a rule for it is masked now, wherever it stands."""

from collections import Counter
from collections.abc import Mapping

import msgspec

from threadkeep.base.sqlite import Tx
from threadkeep.capture.context import Mask, Surroundings
from threadkeep.capture.rederiving import Places, rederive
from threadkeep.capture.reindexing import clean
from threadkeep.capture.report import Progress, Watcher, silent
from threadkeep.knowledge.archive import read_block
from threadkeep.knowledge.entries import Words, index_words
from threadkeep.knowledge.forgetting import drop_vectors, erase, want_cleaning
from threadkeep.knowledge.logs import LogRow, all_logs, load_log_by_id
from threadkeep.knowledge.texts import TEXTS, Texts, is_json, is_there, put_texts, text_rows
from threadkeep.redact.engine import Redactor
from threadkeep.sources.records import Source

_LEARNED = [texts for texts in TEXTS if texts.kind in {"node", "entity"}]
_PRIVATE = "private"  # a part that was marked so; no rule finds it


class Rescanned(msgspec.Struct):
    """What was masked, or would be in a dry run."""

    logs: int = 0
    lines: int = 0
    rows: int = 0
    rules: dict[str, int] = {}  # how often each rule found something


def rescan(
    around: Surroundings,
    sources: Mapping[str, Source],
    *,
    dry_run: bool = False,
    show: Watcher = silent,
) -> Rescanned:
    """Pass all that is stored through the rules of today; what changes is made anew."""
    redactor = around.redactor or Redactor.default()
    found: Counter[str] = Counter()
    done = Rescanned()
    with around.db.read() as tx:
        logs = [log for log in all_logs(tx) if log.lines]
        progress = Progress(logs_total=len(logs))
        changed = []
        for log in logs:
            if _look(tx, around.mask, redactor, log, (done, found)):
                changed.append(log)
            _advance(progress, log, show)
        rows = {texts: _changed_rows(tx, redactor, texts, found) for texts in TEXTS}
        kinds = [row for row in tx.all("unknown_kinds") if redactor.text(row[0]) != row[0]]
    done.logs, done.rows = len(changed), sum(len(ids) for ids in rows.values()) + len(kinds)
    done.rules = dict(sorted(found.items()))
    if dry_run or not (done.logs or done.rows):
        return done
    places = Places(around, sources)
    progress = Progress(logs_total=len(changed))
    for log in changed:
        _mask_log(around, places, log)
        _advance(progress, log, show)
    with around.db.write() as tx:
        _mask_tables(tx, redactor, rows)
        tx.run_bulk("delete_unknown_kind", kinds)
        want_cleaning(tx)
    _mask_late(around, redactor)
    clean(around, sources, show)
    return done


def _advance(progress: Progress, log: LogRow, show: Watcher) -> None:
    progress.logs_done += 1
    progress.path = log.path
    show(progress)


def _look(
    tx: Tx, mask: Mask, redactor: Redactor, log: LogRow, into: tuple[Rescanned, Counter[str]]
) -> bool:
    """Count what would be masked in a log; a block without a secret costs one pass over it."""
    done, found = into
    before = done.lines
    for _, block in tx.all("blocks_from", {"log": log.id, "first": 0}):
        lines = read_block(tx, block)
        text = b"".join([line + b"\n" for line in lines])
        masked = mask(text)
        if masked is not text:
            for line, new in zip(lines, masked.split(b"\n"), strict=False):
                if line != new:
                    done.lines += 1
                    found.update(_rules(redactor, line.decode("utf-8", "replace")))
    return done.lines > before


def _rules(redactor: Redactor, text: str) -> list[str]:
    return [finding.rule for finding in redactor.scan(text)] or [_PRIVATE]


def _mask_log(around: Surroundings, places: Places, log: LogRow) -> None:
    with around.db.write() as tx:
        row = load_log_by_id(tx, log.id)
        if row is None:
            return
        words: Words = []

        def masked(_: int, line: bytes) -> bytes:
            return around.mask(line + b"\n")[:-1]

        if rederive(tx, around, places.sources, row, masked, words, places).lines:
            index_words(tx, words)
            want_cleaning(tx)


# ---------------------------------------------------------------------- rows


def _masked(redactor: Redactor, values: Mapping[str, str]) -> dict[str, str]:
    """Give the texts of a row that change."""
    new = {c: (redactor.json_line if is_json(c) else redactor.text)(v) for c, v in values.items()}
    return {column: text for column, text in new.items() if text != values[column]}


def _changed_rows(tx: Tx, redactor: Redactor, texts: Texts, found: Counter[str]) -> set[int]:
    ids = set()
    for number, values in text_rows(tx, texts) if is_there(tx, texts) else ():
        changed = _masked(redactor, values)
        if changed:
            ids.add(number)
            for column in changed:
                found.update(_rules(redactor, values[column]))
    return ids


def _mask_tables(tx: Tx, redactor: Redactor, rows: Mapping[Texts, set[int]]) -> None:
    for texts, ids in rows.items():
        _mask_rows(tx, redactor, texts, ids)


def _mask_late(around: Surroundings, redactor: Redactor) -> None:
    """Mask what was learned from rows between the look at them and their masking.

    There it ends: since then nobody holds a ticket for what they read before.
    """
    with around.db.read() as tx:
        late = {texts: _changed_rows(tx, redactor, texts, Counter()) for texts in _LEARNED}
    if any(late.values()):
        with around.db.write() as tx:
            _mask_tables(tx, redactor, late)


def _mask_rows(tx: Tx, redactor: Redactor, texts: Texts, ids: set[int]) -> None:
    """Mask rows as they are now; those made anew from the archive have changed already."""
    for number, values in text_rows(tx, texts) if ids else ():
        changed = _masked(redactor, values) if number in ids else {}
        if texts.kind and any(column in changed for column in texts.names):
            erase(tx, texts.kind, [number])  # what was taken for a thing with a name is a secret
        elif changed:
            put_texts(tx, texts, number, changed)
            if texts.kind == "node":
                drop_vectors(tx, number)
