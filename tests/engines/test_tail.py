"""Following what is captured: nothing is missed, on either engine, whoever else captures."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path

import pytest

from tests.support.knowledge import NOW
from tests.support.worlds import World, as_it_is
from threadkeep.base.postgres.database import PostgresDatabase
from threadkeep.base.postgres.schema import drop
from threadkeep.capture.capture import History
from threadkeep.capture.engine import capture
from threadkeep.capture.redact.engine import MaskedBlock
from threadkeep.errors import Busy
from threadkeep.knowledge.library import Browse
from threadkeep.knowledge.segments import last_slice, noted_sessions
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.knowledge.tail import Tail

LINE = b'{"kind":"prompt","text":"the tide feed of %s"}\n{"kind":"text","text":"it is late"}\n'
# Of another agent and with other words, so that no row but those in question is written by both.
DOCUMENT = (
    b'{"three":{"a":{"session":"three","kind":"prompt","text":"rusty"},'
    b'"b":{"session":"three","kind":"text","text":"anchors"}}}'
)


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return the place of a store that is not there yet."""
    if request.param == "sqlite":
        yield str(tmp_path / "store" / "knowledge.db")
        return
    place = f"{request.getfixturevalue('server_url')}&home=tail"
    with PostgresDatabase(place, "knowledge", {}) as database, database.connect() as connection:
        drop(connection, "tail")
        yield place
        drop(connection, "tail")


def test_a_capture_that_ends_late_is_not_missed(place: str, tmp_path: Path) -> None:
    """Two machines capture into one store while somebody follows it.

    Numbers rise from one capture to the next, and whoever follows keeps the last one. If the second
    capture could be stored while the first is still at work, the first would come behind that.
    """
    mine, theirs = World(tmp_path / "mine"), World(tmp_path / "theirs")
    for name in ("one", "two"):
        mine.write(LINE % name.encode(), name)
    theirs.write(DOCUMENT, to=theirs.home / "docs" / "d.json")
    theirs.sources = {"toy-docs": theirs.documents}
    opened = partial(KnowledgeStore.open, place, clock=lambda: NOW)
    entries: list[str] = []
    pages: set[str] = set()
    slices: set[str] = set()
    with opened() as store, opened(timeout=0.1) as other, ThreadPoolExecutor(1) as there:
        readers = History(mine.around(store), mine.sources).readers
        tail, page = Tail(store, readers), Browse(store, readers, clock=lambda: NOW)
        mark, seen, masked = page.mark(), 0, 0

        def look() -> None:
            nonlocal mark, seen
            entries.extend(one.session.session_id for one in tail.new())
            mark, changed = page.changed_since(mark)
            pages.update(changed)
            with store.read() as tx:
                for reader in mine.sources:
                    slices.update(chain(*noted_sessions(tx, reader, seen).values()))
                seen = last_slice(tx)

        def they_capture() -> None:
            with suppress(Busy):
                capture(theirs.around(other), theirs.sources)

        def while_they_capture(lines: bytes, before: bytes, after: bytes) -> MaskedBlock:
            nonlocal masked
            masked += 1
            if masked > 1:  # the first log is written, and not stored yet
                there.submit(they_capture).result()
                look()
            return as_it_is(lines, before, after)

        mine.mask = while_they_capture
        capture(mine.around(store), mine.sources)
        look()
        capture(theirs.around(other), theirs.sources)
        look()
    assert masked > 1
    assert sorted(set(entries)) == ["one", "three", "two"]
    assert len(entries) == len(set(entries)) * 2
    assert len(pages) == 3
    assert slices == {*entries}
