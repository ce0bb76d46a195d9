"""OpenCode's older files: the same records as from the database, unless that has them."""

import copy
import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.sources.opencode_support import EXPORT, SESSION, Database, data_folder, make_tree, user
from tests.sources.source_support import Result, document, feed, only
from threadkeep.base.sqlite import foreign
from threadkeep.sources.opencode import database
from threadkeep.sources.opencode.files import SOURCE
from threadkeep.sources.records import Log


def read(log: Log) -> Result:
    return feed(SOURCE, log, document(SOURCE, log, log.session_id))


@pytest.mark.parametrize("oldest", [False, True])
def test_files_give_what_the_database_gives(tmp_path: Path, *, oldest: bool) -> None:
    make_tree(tmp_path / "files", oldest=oldest)
    Database(tmp_path / "database").add()
    made = read(only(SOURCE.find(user(tmp_path / "files"))))
    log = only(database.SOURCE.find(user(tmp_path / "database")))
    assert made == feed(database.SOURCE, log, document(database.SOURCE, log, SESSION))


def test_what_a_database_has_is_not_read_from_files(tmp_path: Path) -> None:
    make_tree(tmp_path)
    other = copy.deepcopy(EXPORT)
    other["info"]["id"] = "ses_0b"
    make_tree(tmp_path, other)
    Database(tmp_path, "opencode-nightly.db").add()
    assert [log.session_id for log in SOURCE.find(user(tmp_path))] == ["ses_0b"]


def test_a_broken_database_hides_nothing(tmp_path: Path) -> None:
    make_tree(tmp_path)
    (data_folder(tmp_path) / "opencode.db").write_bytes(b"no database" * 1000)
    assert [log.session_id for log in SOURCE.find(user(tmp_path))] == [SESSION]


def test_while_the_database_is_locked_nothing_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign, "_PATIENCE_MS", 1)
    make_tree(tmp_path)
    holder = sqlite3.connect(Database(tmp_path).path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    try:
        assert list(SOURCE.find(user(tmp_path))) == []
    finally:
        holder.close()


def change(path: Path, content: dict[str, Any]) -> None:
    """Write a file in place, at another time than before."""
    before = path.stat().st_mtime_ns
    path.write_text(json.dumps(content))
    os.utime(path, ns=(before + 10**9, before + 10**9))


@pytest.mark.parametrize(
    "file",
    [
        f"session/prj1/{SESSION}.json",
        f"message/{SESSION}/msg_01.json",
        "part/msg_04/prt_31.json",
    ],
)
def test_a_file_written_in_place_shows(tmp_path: Path, file: str) -> None:
    make_tree(tmp_path)
    before = only(SOURCE.find(user(tmp_path)))
    mark = list(SOURCE.items(before))
    change(data_folder(tmp_path) / "storage" / file, {"id": SESSION})
    after = only(SOURCE.find(user(tmp_path)))
    assert before.stamp != after.stamp
    assert mark != list(SOURCE.items(after))


def test_the_fingerprint_sees_every_part_and_no_other_session(tmp_path: Path) -> None:
    make_tree(tmp_path)
    log = only(SOURCE.find(user(tmp_path)))
    mark = list(SOURCE.items(log))
    other = copy.deepcopy(EXPORT)
    other["info"]["id"], other["messages"] = "ses_0b", []
    make_tree(tmp_path, other)
    assert list(SOURCE.items(log)) == mark
    change(data_folder(tmp_path) / "storage" / "part" / "msg_01" / "prt_01.json", {})
    assert list(SOURCE.items(log)) != mark


def test_parts_may_lie_inside_their_message(tmp_path: Path) -> None:
    make_tree(tmp_path, EXPORT | {"messages": []}, oldest=True)
    parts = [{"type": "text", "text": "hi"}, {"id": "p2", "type": "text", "text": "there"}]
    folder = data_folder(tmp_path) / "project/home-ann-shop/storage/session/message" / SESSION
    folder.mkdir(parents=True)
    (folder / "msg_01.json").write_text(json.dumps({"role": "user", "parts": parts}))
    result = read(only(SOURCE.find(user(tmp_path))))
    assert [(entry.key, entry.text) for entry in result.entries] == [
        ("msg_01:0", "hi"),
        ("p2", "there"),
    ]


def test_broken_and_missing_files_lose_only_themselves(tmp_path: Path) -> None:
    session = make_tree(tmp_path)
    storage = data_folder(tmp_path) / "storage"
    (storage / "part" / "msg_01" / "prt_01.json").write_text('{"type": "text",')
    (storage / "message" / SESSION / "msg_02.json").unlink()
    session.write_text("")
    result = read(only(SOURCE.find(user(tmp_path))))
    assert result.of("prompt") == ["Look at the prices"]
    assert result.of("summary") == ["We sorted the basket by price."]
    assert result.facts.keys() == {SESSION}


def test_nothing_is_found_where_nothing_is(tmp_path: Path) -> None:
    assert list(SOURCE.find(user(tmp_path))) == []
    assert SOURCE.roots(user(tmp_path)) == [
        data_folder(tmp_path) / "storage",
        data_folder(tmp_path) / "project",
    ]


def exports(shared_data: Path) -> list[Path]:
    return sorted((shared_data / "data" / "harness" / "opencode").rglob("export/*.json"))


def test_real_exports_are_read_whole(shared_data: Path, tmp_path: Path) -> None:
    found = exports(shared_data)
    assert len(found) == 10
    for number, path in enumerate(found):
        export = json.loads(path.read_text())
        for position, message in enumerate(export["messages"]):
            message["info"].setdefault("id", f"msg_{position:06}")
            for place, part in enumerate(message["parts"]):
                part.setdefault("id", f"prt_{position:06}_{place:06}")
        home = tmp_path / str(number)
        make_tree(home, export)
        result = read(only(SOURCE.find(user(home))))
        assert result.unknown == {}
        assert result.of("prompt")
        (segment,) = result.segments.values()
        assert segment.messages == len(export["messages"])
        assert (segment.cwd, segment.title) == (
            export["info"]["directory"],
            export["info"]["title"],
        )


def test_without_a_tree_no_database_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Database(tmp_path).add()
    opened: list[Path] = []
    monkeypatch.setattr(database, "open_foreign", opened.append)
    assert list(SOURCE.find(user(tmp_path))) == []
    assert opened == []
