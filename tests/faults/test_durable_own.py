"""When a chunk is safe from a power cut: only a commit that writes something is synced."""

from pathlib import Path

import pytest

from tests.faults.children import SESSION
from tests.faults.family import new_store
from threadkeep.chat.store import ChatStore

pytestmark = pytest.mark.faults


def test_flush_commits_something_even_when_every_part_is_folded(tmp_path: Path) -> None:
    with ChatStore.open(new_store(tmp_path / "flush.db")) as store:
        recorder = store.record(SESSION)
        recorder.feed({"type": "text-start", "id": "t"})
        for _ in range(20):
            recorder.feed({"type": "text-delta", "id": "t", "delta": "short "})
            before = store.context.db.changes()
            recorder.flush()
            first = store.context.db.changes()
            recorder.flush()
            assert len({before, first, store.context.db.changes()}) == 3
        recorder.close()
