"""Damage that no recovery may hide: bits flipped in what a crashed recorder left behind."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.faults.family import new_store, record_and_kill
from threadkeep.chat.store import ChatStore
from threadkeep.errors import ThreadkeepError

pytestmark = pytest.mark.faults

KEY = "k18"
BEFORE_THE_END = 400
# As a damaged page would leave it: the triggers that keep the hashes right do not run.
DAMAGE = {
    "a chunk in the journal": (
        "UPDATE chat_events SET data_json = replace(data_json, 'alpha', 'alphA')"
    ),
    "how far the parts are folded": (
        """UPDATE tk_recordings SET open_json = replace(open_json, '"at":', '"at":9')"""
    ),
    "what is open": "UPDATE tk_recordings SET open_json = substr(open_json, 1, 20)",
    "the text of the growing part": (
        "UPDATE chat_parts SET data_json = replace(data_json, 'alpha', 'alphA')"
    ),
    "a part row that is gone": (
        'DELETE FROM chat_parts WHERE "index" = (SELECT max("index") FROM chat_parts)'
    ),
    "the message row that is gone": "DELETE FROM chat_messages",
}


def damage(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'"):
            connection.execute(f"DROP TRIGGER {name}")
        assert connection.execute(sql).rowcount > 0
        connection.commit()


@pytest.mark.parametrize("sql", DAMAGE.values(), ids=DAMAGE.keys())
def test_damage_to_an_unfinished_reply_is_reported_not_folded_in(tmp_path: Path, sql: str) -> None:
    path = new_store(tmp_path / "damaged.db")
    record_and_kill(path, KEY, BEFORE_THE_END)
    damage(path, sql)
    for _ in range(2):  # opening must not repair the evidence away
        try:
            with ChatStore.open(path) as store:
                assert store.verify().problems != []
        except ThreadkeepError:
            pass


def test_a_damaged_reply_does_not_keep_the_others_from_being_read(tmp_path: Path) -> None:
    path = new_store(tmp_path / "damaged.db")
    with ChatStore.open(path) as store:
        other = store.create_session(agent="coder", model="p/m")
        store.say(other, "still here")
    record_and_kill(path, KEY, BEFORE_THE_END)
    damage(path, DAMAGE["a chunk in the journal"])
    with ChatStore.open(path) as store:
        assert [m["parts"][0]["text"] for m in store.ui_messages(other)] == ["still here"]
        store.say(other, "and writable")
        assert len(store.ui_messages(other)) == 2


def test_a_changed_system_prompt_is_noticed_by_its_own_name(tmp_path: Path) -> None:
    path = new_store(tmp_path / "prompt.db")
    with ChatStore.open(path) as store:
        store.put_system_prompt("You are a careful coder. \ud83d")
        assert store.verify().problems == []
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE system_prompts SET body = 'You are a careless coder.'")
        connection.commit()
    with ChatStore.open(path) as store:
        assert any("system prompt" in problem for problem in store.verify().problems)
