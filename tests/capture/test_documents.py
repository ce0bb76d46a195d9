"""Documents: read again when they changed, stored record by record, one session at a time."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tests.lengths import examples
from tests.support.toy_sources import Record, ToyDocuments
from tests.support.worlds import World
from threadkeep.base.tx import Sql
from threadkeep.capture import intake
from threadkeep.sources.records import Harvest, Log, Parser
from threadkeep.testing import KnowledgeFactory

Sessions = dict[str, dict[str, Any]]


@pytest.fixture
def world(tmp_path: Path, knowledge_factory: KnowledgeFactory) -> World:
    return World(tmp_path, knowledge_factory)


def save(world: World, sessions: Sessions, name: str = "d") -> Path:
    data = json.dumps(sessions).encode()
    return world.write(data, to=world.home / "docs" / f"{name}.json")


def entry(number: int, text: str = "", **more: Any) -> Record:
    text = text or f"word{number}"
    return {"id": f"e{number}", "kind": "prompt", "text": text, "at": number, **more}


def lines(world: World, session: str) -> int:
    return int(world.ask("SELECT lines FROM tk_logs WHERE item = ?", session)[0][0])


def test_sessions_of_a_document_are_sessions(world: World) -> None:
    save(world, {"s1": {"a": entry(0), "b": entry(1)}, "s2": {"a": entry(2)}})
    part = world.capture().of("aider")
    assert (part.lines, part.entries, part.errors) == (3, 3, {})
    assert world.texts("s1") == ["word0", "word1"]
    assert world.raw("s2") == [json.dumps(entry(2)).encode()]


def test_only_new_and_changed_records_are_archived(world: World) -> None:
    sessions: Sessions = {"s1": {"a": entry(0), "b": entry(1)}, "s2": {"a": entry(2)}}
    save(world, sessions)
    world.capture()
    sessions["s1"]["b"] = entry(1, "changed")
    sessions["s1"]["c"] = entry(3)
    save(world, sessions)
    assert world.capture().of("aider").lines == 2
    assert (lines(world, "s1"), lines(world, "s2")) == (4, 1)
    assert world.texts("s1") == ["word0", "changed", "word3"]
    session = world.session("s1")
    assert (session.entries, session.prompts) == (3, 3)
    with world.history() as history:
        assert [hit.shown.entry.text for hit in history.search("changed")] == ["changed"]
        assert [hit.session.session_id for hit in history.search("word1")] == []


def test_a_document_that_was_only_touched_adds_nothing(world: World) -> None:
    save(world, {"s1": {"a": entry(0)}})
    world.capture()
    before = world.held()
    world.now += 1000
    save(world, {"s1": {"a": entry(0)}})
    assert world.capture().of("aider").lines == 0
    assert world.held()["entries"] == before["entries"]


def test_records_that_went_away_are_kept(world: World) -> None:
    save(world, {"s1": {"a": entry(0), "b": entry(1)}, "s2": {"a": entry(2)}})
    world.capture()
    save(world, {"s1": {"b": entry(1)}})
    world.capture()
    assert world.texts("s1") == ["word0", "word1"]
    assert world.texts("s2") == ["word2"]


def test_bad_records_are_counted_as_often_as_they_are_there(world: World) -> None:
    for number in range(3):
        save(world, {"s1": {"a": "no json", "b": entry(number)}})
        world.capture()
    assert world.ask("SELECT bad_lines FROM tk_logs WHERE item = 's1'") == [(1,)]


class Fragile(ToyDocuments):
    """Breaks at the sessions that are named."""

    broken = frozenset({"s2"})

    def parser(self, log: Log, state: bytes | None) -> Parser:
        found: Any = super().parser(log, state)
        feed, harvest = found.feed, found.harvest
        seen: list[Any] = []

        def watched(record: Any, line: bytes, number: int) -> Any:
            seen.append(record)
            return feed(record, line, number)

        def broken() -> Harvest:
            if any(record.get("cwd") in self.broken for record in seen):
                raise LookupError("a parser's mistake")
            result: Harvest = harvest()
            return result

        found.feed, found.harvest = watched, broken
        parser: Parser = found
        return parser


def test_a_mistake_in_one_session_does_not_cost_the_others(world: World) -> None:
    fragile = Fragile()
    world.sources = {"docs": fragile}
    save(world, {name: {"a": entry(0, cwd=name)} for name in ("s1", "s2", "s3")})
    report = world.capture()
    assert report.errors == 1
    assert "s2" in next(iter(report.of("aider").errors))
    assert world.texts("s1") == world.texts("s3") == ["word0"]
    assert world.ask("SELECT 1 FROM tk_sessions WHERE session_id = 's2'") == []
    assert world.health("agentic-session-aider")["consecutive_failures"] == 1
    fragile.broken = frozenset()
    assert world.capture().errors == 0
    assert world.texts("s2") == ["word0"]
    assert world.health("agentic-session-aider")["consecutive_failures"] == 0
    assert world.capture().of("aider").changed == 0


def test_a_document_that_is_no_document_any_more_keeps_its_sessions(world: World) -> None:
    path = save(world, {"s1": {"a": entry(0)}})
    world.capture()
    world.write(b"torn {", to=path)
    report = world.capture()
    assert list(report.of("aider").errors) == [str(path)]
    assert world.texts("s1") == ["word0"]
    save(world, {"s1": {"a": entry(0), "b": entry(1)}})
    assert world.capture().errors == 0
    assert world.texts("s1") == ["word0", "word1"]


def test_a_document_that_vanishes_before_it_is_read_is_gone(world: World) -> None:
    path = save(world, {"s1": {"a": entry(0)}})
    world.capture()
    save(world, {"s1": {"a": entry(0), "b": entry(1)}})
    report = world.capture(show=lambda _: path.unlink(missing_ok=True))
    assert report.errors == 0
    assert world.ask("SELECT gone_at FROM tk_logs WHERE item = ''") == [(world.now,)]


def test_an_excluded_session_is_captured_when_the_rule_is_gone(world: World) -> None:
    save(world, {"s1": {"a": entry(0, cwd="/u/secret")}, "s2": {"a": entry(1, cwd="/u/app")}})
    world.exclude = ("/u/secret",)
    report = world.capture()
    assert report.of("aider").excluded == 1
    assert [row[0] for row in world.ask("SELECT session_id FROM tk_sessions")] == ["s2"]
    assert world.ask("SELECT count(*) FROM tk_blocks") == [(1,)]
    assert world.capture().of("aider").changed == 0
    world.exclude = ("/u/other",)
    world.capture()
    assert world.texts("s1") == ["word0"]
    assert world.ask("SELECT sum(excluded) FROM tk_logs") == [(0,)]
    assert world.capture().of("aider").changed == 0


def test_a_forgotten_session_of_a_document_stays_out(world: World) -> None:
    save(world, {"s1": {"a": entry(0)}, "s2": {"a": entry(1)}})
    with world.history() as history, history.store.context.db.write() as tx:
        tx.run(Sql("INSERT INTO tk_forgotten VALUES ('aider', 's1', 1)"))
    world.capture()
    assert [row[0] for row in world.ask("SELECT session_id FROM tk_sessions")] == ["s2"]


keys = st.sampled_from(["a", "b", "c"])
texts = st.sampled_from(["one", "two", "three"])
steps = st.lists(st.dictionaries(keys, texts, max_size=3), min_size=1, max_size=4)


@settings(max_examples=examples(25))
@given(steps)
def test_after_any_changes_the_entries_are_those_of_the_last_texts(
    tmp_path_factory: pytest.TempPathFactory, versions: list[dict[str, str]]
) -> None:
    world = World(tmp_path_factory.mktemp("documents"))
    expected: dict[str, str] = {}
    for version in versions:
        expected.update(version)
        save(world, {"s": {k: {"id": k, "kind": "text", "text": t} for k, t in version.items()}})
        world.now += 1
        world.capture()
    if not expected:
        return
    with world.history() as history:
        shown = {one.row.key: one.entry.text for one in history.transcript(history.find("s"))}
    assert shown == expected
    assert world.session("s").entries == len(expected)


def test_where_batches_end_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sessions: Sessions = {f"s{n}": {"a": entry(n), "b": entry(n + 1)} for n in range(6)}
    worlds = [World(tmp_path / name) for name in ("big", "small")]
    for world, size in zip(worlds, (10**6, 1), strict=True):
        monkeypatch.setattr(intake, "BATCH_BYTES", size)
        save(world, sessions)
        world.capture()
    assert worlds[0].held() == worlds[1].held()
