"""Moving sessions out of files that other programs made."""

from pathlib import Path

import pytest

from tests.faults.old_files import VERSIONS, make_old_file
from tests.support.chats import (
    open_store,
)
from threadkeep.chat.store import ChatStore


@pytest.mark.parametrize("version", VERSIONS)
def test_files_of_other_programs_can_be_moved(
    tmp_path: Path, store: ChatStore, version: int
) -> None:
    make_old_file(tmp_path / "old.db", version)
    with open_store(tmp_path / "old.db") as old:
        lines = list(old.export_all())
        assert store.import_sessions(lines).ok
        assert list(store.export_all()) == lines
