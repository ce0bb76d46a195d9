"""Each newer program tells the same short story: it comes out the same from every one of them."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.lengths import examples
from tests.sources.made_homes import (
    AGENT_OF,
    ASKED,
    CAME,
    COMMAND,
    CWD,
    END,
    MADE,
    SAID,
    THOUGHT,
)
from tests.sources.sample_support import Seen, look
from tests.sources.source_support import broken
from tests.support.user_homes import assert_sound, content, open_history, settle
from threadkeep.base.json import decode_line
from threadkeep.base.sqlite import foreign
from threadkeep.knowledge.session_detail import resume_command
from threadkeep.sources.files import LogFile
from threadkeep.sources.records import Log, Source, UserHome
from threadkeep.sources.registry import foreign_sources

# What is not kept by a program: tokens (or only some of them), a folder, whether a call failed.
NO_TOKENS = {"crush", "kiro-lines", "auggie"}
NO_CACHE = {"vibe-logs"}
ONLY_OUTPUT = {"vscode-copilot"}
NO_FOLDER = {"llm", "crush"}  # Crush: the folder that its database lies in
NO_TITLE = {"openhands", "iflow"}
NO_ERRORS = {"gptme", "grok-build", "roo-code", "vscode-copilot", "vibe-logs"}
NO_MODEL = {"goose-logs", "kimi-cli", "kiro-lines"}
STORY = [
    ("prompt", ASKED),
    ("reasoning", THOUGHT),
    ("text", SAID),
    ("tool_call", COMMAND),
    ("tool_result", CAME),
    ("text", END),
]


def made(agent: str, user: Path) -> Path:
    user.mkdir(parents=True, exist_ok=True)
    MADE[agent](user)
    settle(user)
    return user


def only(found: dict[str, Seen]) -> Seen:
    (seen,) = found.values()
    return seen


@pytest.mark.parametrize("agent", MADE)
def test_the_story_is_told(tmp_path: Path, agent: str) -> None:
    seen = only(look(made(agent, tmp_path / "user"), tmp_path / "home"))
    assert [one for one in seen.said if one[0] != "note"] == STORY
    assert seen.session.agent == AGENT_OF.get(agent, agent)
    assert seen.unknown == {}
    assert seen.answered == [own for own, _ in seen.calls]
    assert {tool for _, tool in seen.calls} <= {"shell", "execute_command"}
    assert seen.failed == ([] if agent in NO_ERRORS else [CAME])
    if agent not in NO_FOLDER:
        assert seen.session.cwd == CWD
    if agent not in NO_TITLE:
        assert seen.session.title == "A title"
    assert seen.session.model == ("" if agent in NO_MODEL else "m-1")


@pytest.mark.parametrize("agent", sorted(MADE.keys() - NO_TOKENS))
def test_what_it_took_is_counted_without_the_cache(tmp_path: Path, agent: str) -> None:
    seen = only(look(made(agent, tmp_path / "user"), tmp_path / "home"))
    whole = {"input": 60, "output": 20, "cache_read": 40, "cache_write": 0}
    known = {"output": 20} if agent in ONLY_OUTPUT else whole
    known = {"input": 60, "output": 20} if agent in NO_CACHE else known
    assert {name: value for name, value in seen.tokens.items() if value} == {
        name: value for name, value in known.items() if value
    }


def test_all_of_them_on_one_machine(tmp_path: Path) -> None:
    user = tmp_path / "user"
    for agent in MADE:
        made(agent, user)
    agents = {AGENT_OF.get(agent, agent) for agent in MADE}
    assert {seen.session.agent for seen in look(user, tmp_path / "home").values()} == agents
    with open_history(tmp_path / "home", user) as history:
        again = history.capture()
        assert [part.changed for part in again.agents.values() if part.changed] == []
        assert {one.percent for one in history.coverage().sources} == {100.0}
    assert_sound(tmp_path / "home" / "knowledge.db")


@pytest.mark.parametrize("agent", MADE)
def test_a_file_that_is_cut_off_is_told_or_read_as_far_as_it_goes(
    tmp_path: Path, agent: str
) -> None:
    user = made(agent, tmp_path / "user")
    for path in [path for path in user.rglob("*") if path.is_file()]:
        path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
    with open_history(tmp_path / "home", user) as history:
        history.capture()  # whatever is wrong is told; nothing is raised
    shutil.rmtree(user)
    made(agent, user)
    seen = only(look(user, tmp_path / "home"))
    assert [one for one in seen.said if one[0] != "note"] == STORY


@pytest.mark.parametrize("agent", MADE)
def test_what_its_program_takes_away_stays(tmp_path: Path, agent: str) -> None:
    user = made(agent, tmp_path / "user")
    before = only(look(user, tmp_path / "home"))
    for path in [path for path in user.rglob("*") if path.is_file()]:
        path.write_bytes(b"")
    with open_history(tmp_path / "home", user) as history:
        history.capture()  # an empty document is told
    shutil.rmtree(user)
    user.mkdir()
    after = only(look(user, tmp_path / "home"))
    assert (after.said, after.tokens) == (before.said, before.tokens)
    assert set(before.lines) <= set(after.lines)


# ---------------------------------------------------------------------- growth


def cut_to(path: Path, whole: bytes, part: float) -> None:
    """Write a file as it was when a part of what is in it had been said."""
    if path.suffix == ".jsonl":
        lines = whole.splitlines(keepends=True)
        path.write_bytes(b"".join(lines[: round(len(lines) * part)]))
    elif path.suffix == ".json":
        path.write_text(json.dumps(shortened(json.loads(whole), part)))
    elif path.suffix in {".db", ".sqlite"}:
        path.write_bytes(whole)
        with closing(sqlite3.connect(path)) as owner, owner:
            for table in ("messages", "transcript_events", "usage_ledger", "turns"):
                if owner.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (table,)).fetchone():
                    (rows,) = owner.execute(f"SELECT max(rowid) FROM {table}").fetchone()
                    owner.execute(f"DELETE FROM {table} WHERE rowid > ?", (rows * part,))


def shortened(value: Any, part: float) -> Any:
    """Cut the lists of messages that stand at the top of a document, or right below it."""
    if isinstance(value, list):
        return value[: max(1, round(len(value) * part))]
    lists = {name: one for name, one in value.items() if isinstance(one, list) and len(one) > 1}
    return {**value, **{name: shortened(one, part) for name, one in lists.items()}}


def said_in(home: Path) -> dict[str, Any]:
    """Return what a store says, without the places at which it is archived."""
    told = content(home / "knowledge.db")
    entries = sorted(((*row[:5], *row[7:]) for row in told["entries"]), key=repr)
    return {"entries": entries, "usage": told["usage"], "segments": told["segments"]}


# Its thread is walked from the last message, which is not there while one is cut.
GROWN_OTHERWISE = {"zed", "llm"}


@pytest.mark.parametrize("agent", sorted(MADE.keys() - GROWN_OTHERWISE))
def test_what_grows_step_by_step_is_what_is_read_at_once(tmp_path: Path, agent: str) -> None:
    user = made(agent, tmp_path / "user")
    whole = {path: path.read_bytes() for path in user.rglob("*") if path.is_file()}
    with open_history(tmp_path / "one", user) as history:
        for part in (0.5, 1.0):
            for path, data in whole.items():
                if part < 1:
                    cut_to(path, data, part)
                else:
                    path.write_bytes(data)
            settle(user)
            assert history.capture().errors == 0
        assert list(history.raw(history.sessions(everything=True)[0]))
    with open_history(tmp_path / "two", user) as history:
        history.capture()
    assert said_in(tmp_path / "one") == said_in(tmp_path / "two")


DATABASES = ("goose", "llm", "crush", "zed", "openclaw")


@pytest.mark.parametrize("agent", DATABASES)
def test_a_database_that_its_program_locks_is_read_later(
    tmp_path: Path, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign, "_PATIENCE_MS", 1)
    user = made(agent, tmp_path / "user")
    (path,) = [path for path in user.rglob("*") if path.suffix in {".db", ".sqlite"}]
    with closing(sqlite3.connect(path, isolation_level=None)) as owner:
        owner.execute("BEGIN EXCLUSIVE")
        with open_history(tmp_path / "home", user) as history:
            assert "locked" in str(history.capture().of(AGENT_OF.get(agent, agent)).errors)
            assert history.sessions(everything=True) == []
        owner.execute("COMMIT")
    seen = only(look(user, tmp_path / "home"))
    assert [one for one in seen.said if one[0] != "note"] == STORY


@pytest.mark.parametrize("agent", DATABASES)
def test_a_view_in_the_place_of_a_table_is_not_read(tmp_path: Path, agent: str) -> None:
    user = made(agent, tmp_path / "user")
    (path,) = [path for path in user.rglob("*") if path.suffix in {".db", ".sqlite"}]
    with closing(sqlite3.connect(path, isolation_level=None)) as owner:
        tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        for (name,) in list(owner.execute(tables)):
            owner.execute(f"ALTER TABLE {name} RENAME TO other_{name}")
            owner.execute(f"CREATE VIEW {name} AS SELECT * FROM other_{name}")
    with open_history(tmp_path / "home", user) as history:
        history.capture()
        assert history.sessions(everything=True) == []
    assert_sound(tmp_path / "home" / "knowledge.db")


@pytest.mark.parametrize("agent", MADE)
def test_links_are_not_followed(tmp_path: Path, agent: str) -> None:
    user = made(agent, tmp_path / "elsewhere")
    linked = tmp_path / "user"
    for path in [path for path in user.rglob("*") if path.is_file()]:
        target = linked / path.relative_to(user)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(path)
    with open_history(tmp_path / "home", linked) as history:
        history.capture()
        assert history.sessions(everything=True) == []


# ---------------------------------------------------------------------- records of any kind


def records_of(source: Source, log: Log) -> list[Any]:
    if source.kind == "lines":
        with LogFile(log.path, log.root) as file:
            lines = file.whole().split(b"\n")
        return [value for line in lines for value in decode_line(line)]
    items = [item.item for item in source.items(log)]
    lines = [line for item in items for _, line in source.records(log, item)]
    return [value for line in lines for value in decode_line(line)]


AllRecords = dict[str, tuple[Source, Log, list[Any]]]


@pytest.fixture(scope="module")
def all_records(
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, tuple[Source, Log, list[Any]]]:
    user = tmp_path_factory.mktemp("all")
    for agent in MADE:
        made(agent, user)
    found = {}
    for name, source in foreign_sources().items():
        for log in source.find(UserHome(user)):
            found[name] = (source, log, records_of(source, log))
    return found


@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_record_stops_a_reader(all_records: AllRecords, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(all_records)))
    source, log, records = all_records[name]
    bad = data.draw(broken(records))
    parser = source.parser(log, None)
    fed = parser.feed(json.loads(json.dumps(bad)), b"", 7)
    alone = source.entries(bad, b"", 7)
    assert [(one.key, one.kind, one.text) for one in fed] == [
        (one.key, one.kind, one.text) for one in alone
    ]
    parser.harvest()
    source.parser(log, parser.state() or None).harvest()


def test_a_session_is_gone_on_with_by_the_name_that_its_program_knows(tmp_path: Path) -> None:
    seen = only(look(made("goose", tmp_path / "user"), tmp_path / "home"))
    assert seen.session.session_id.startswith("20260921_1@")
    command = resume_command("goose", seen.session.session_id, CWD)
    assert command == "goose session --resume --session-id 20260921_1"
