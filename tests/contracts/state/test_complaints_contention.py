"""What users of Hermes complain about: locks, frozen event loops, leaks, damaged files.

Issue numbers are those of NousResearch/hermes-agent unless a test says otherwise.
"""

from pathlib import Path
from typing import Any

from threadkeep.aio import AsyncSessionDB
from threadkeep.state.hermes_state import SessionDB


def test_event_loop_every_verb_can_be_awaited() -> None:
    """#40695."""
    verbs = {name for name in vars(SessionDB) if not name.startswith("_") and name.islower()}
    others = {n for n in verbs if isinstance(vars(SessionDB)[n], staticmethod | property)}
    assert verbs - {"context", "db_path"} - others <= set(dir(AsyncSessionDB))


def test_store_interface_is_narrow() -> None:
    """#23717, #20268, #104018: one place to put another engine in; no verb knows SQLite."""
    from threadkeep import state

    folder = Path(next(iter(state.__path__)))
    texts: dict[str, Any] = {file.name: file.read_text() for file in folder.glob("*.py")}
    assert len(texts) > 10
    assert [name for name, text in texts.items() if "import sqlite3" in text] == []
