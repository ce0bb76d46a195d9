"""Taking over Hippo's file: its copy becomes the store, or its rows are merged into ours.

Everything is done to a private copy first: it is brought to our version, rows without their parent
are set aside, what the user asked us to forget is taken out, and secrets are masked. A dry run does
the very same to throwaway files.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from threadkeep.base.clock import now_ms
from threadkeep.base.sqlite.foreign import open_foreign
from threadkeep.base.tx import Tx
from threadkeep.capture.redact.engine import Redactor
from threadkeep.knowledge.forget import (
    TEXTS,
    Texts,
    erase,
    is_json,
    is_there,
    put_texts,
    text_rows,
)
from threadkeep.knowledge.merge import (
    WAYS,
    ForgetList,
    MergeCounts,
    drop_forgotten,
    merge_knowledge,
)
from threadkeep.knowledge.opening import refuse_write
from threadkeep.knowledge.repair import count_set_aside, set_aside_orphans
from threadkeep.knowledge.schema import (
    MEMORY,
    NEWEST,
    count_rows,
    explain_version,
    make_memory_tables,
    unknown_tables,
)
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.knowledge.upgrade import bring_up_copy
from threadkeep.transfer.originals import (
    AdoptReport,
    HomeLike,
    Original,
    Progress,
    copy_of,
    name_copy,
    throwaway,
)

_SESSIONS: Final = "agentic_sessions"
# Ours are read by us.
_READ_SO_FAR: Final = ("claude_session_offsets", "agentic_session_offsets", "agentic_cursor")


class _Prepared(NamedTuple):
    """A copy that is fit to be stored, and what was done to it."""

    store: KnowledgeStore
    set_aside: int
    forgotten: int
    masked: int
    counts: dict[str, int]  # rows by table

    @property
    def has_memory(self) -> bool:
        """Whether there are rows that only the tables of memory can take."""
        return any(self.counts.get(table) for table in MEMORY)


def adopt_knowledge(
    home: HomeLike, original: Original, place: Path, *, dry_run: bool, progress: Progress | None
) -> AdoptReport:
    """Bring the rows of a Hippo file into a knowledge store, which is begun if there is none."""
    if not dry_run:
        return _adopt(home, original, place, progress)
    with throwaway(place) as spare:
        done = _adopt(home, original, spare, progress)
    return msgspec.structs.replace(done, target=place, dry_run=True)


def _adopt(
    home: HomeLike, original: Original, place: Path, progress: Progress | None
) -> AdoptReport:
    if place.exists() or (original.version or 0) > NEWEST:
        return _merge(home, original, place, progress)
    with _prepared_copy(original, place, home.redactor(), ForgetList()) as copy:
        if copy.masked:  # the words are still in the index and in free pages: both are rewritten
            copy.store.indexes.rebuild_words()
            copy.store.vacuum()
        copy.store.close()
        with home.history(copy.store.path) as history:
            history.note_sessions()
        name_copy(copy.store.path, place)
        tables = {way.table: MergeCounts(new=copy.counts.get(way.table, 0)) for way in WAYS}
        return _told(original, place, copy, tables, [], copied=True)


def _merge(
    home: HomeLike, original: Original, place: Path, progress: Progress | None
) -> AdoptReport:
    with home.history(place) as history:
        ours = history.store
        refuse_write(ours.access)
        forgotten = ours.forgetting.listed()
        with _prepared_copy(original, place, home.redactor(), forgotten) as copy:
            if copy.has_memory:
                make_memory_tables(ours.database)
            tables = merge_knowledge(copy.store.database, ours.database, progress)
            history.note_sessions()
            notes = _left_there(original, copy, ours)
            return _told(original, place, copy, tables, notes, copied=False)


# ---------------------------------------------------------------------- the copy


@contextmanager
def _prepared_copy(
    original: Original, place: Path, redactor: Redactor, forgotten: ForgetList
) -> Iterator[_Prepared]:
    with (
        copy_of(original.path, place, bring_up_copy) as path,
        KnowledgeStore.open(path) as store,
    ):
        with store.write(foreign_keys=False) as tx:
            set_aside_orphans(tx, now_ms())
            aside = count_set_aside(tx)
        with store.write() as tx:
            gone = drop_forgotten(tx, forgotten)
            masked = sum(_mask(tx, redactor, texts) for texts in TEXTS if is_there(tx, texts))
            counts = count_rows(tx)
        yield _Prepared(store, aside, gone, masked, counts)


def _mask(tx: Tx, redactor: Redactor, texts: Texts) -> int:
    """Mask the secrets of a table; give how many rows had some."""
    count = 0
    for number, values in text_rows(tx, texts):
        masked = {
            c: (redactor.json_line if is_json(texts.table, c) else redactor.text)(v)
            for c, v in values.items()
        }
        changed = {column: text for column, text in masked.items() if text != values[column]}
        if texts.kind and any(column in changed for column in texts.names):
            erase(tx, texts.kind, [number])  # what was taken for a thing with a name is a secret
        elif changed:
            put_texts(tx, texts, number, changed)
        count += bool(changed)
    return count


# ---------------------------------------------------------------------- what is told


def _told(
    original: Original,
    place: Path,
    copy: _Prepared,
    tables: dict[str, MergeCounts],
    left_there: list[str],
    *,
    copied: bool,
) -> AdoptReport:
    sessions = tables.get(_SESSIONS, MergeCounts())
    notes = [*_notes(copy), *left_there]
    return AdoptReport(
        original,
        place,
        copied=copied,
        added=sessions.new,
        updated=sessions.changed,
        skipped=sessions.there - sessions.changed,
        notes=notes,
        tables={table: rows for table, rows in tables.items() if rows != MergeCounts()},
    )


def _notes(copy: _Prepared) -> list[str]:
    said = {
        "rows without their parent, now in tk_orphans": copy.set_aside,
        "rows of forgotten conversations that were left out": copy.forgotten,
        "rows with secrets that were masked": copy.masked,
    }
    return [f"{what}: {count:,}" for what, count in said.items() if count]


def _left_there(original: Original, copy: _Prepared, ours: KnowledgeStore) -> list[str]:
    """Say what a merge does not bring: it is in the original, and nowhere else."""
    notes = []
    read = sum(copy.counts.get(table, 0) for table in _READ_SO_FAR)
    if read:
        notes.append(f"how far Hippo has read {read:,} logs stays in the original")
    if _has_vectors(original.path):
        notes.append("vectors stay in the original: Hippo's brain makes those of new nodes again")
    with copy.store.read() as theirs, ours.read() as tx:
        odd = [f"{table} (rows: {copy.counts[table]:,})" for table in unknown_tables(theirs)]
        for way in WAYS:
            here = tx.columns(way.table)
            more = sorted(set(theirs.columns(way.table)) - set(here)) if here else []
            odd += [f"{way.table}.{column}" for column in more]
    if odd:
        listed = ", ".join(odd)
        notes.append(f"what this program does not know stays in the original: {listed}")
    if (original.version or 0) > NEWEST:
        notes.append(f"{explain_version(original.version or 0).cause}")
    return notes


def _has_vectors(path: Path) -> bool:
    with open_foreign(path) as database:
        return bool({"knowledge_vectors", "embed_model_meta"} & database.tables())
