"""From the archive back to text: transcripts, searches, raw lines."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.toy_sources import ToyLines, conversation, line, said
from tests.support.worlds import World
from threadkeep.errors import Conflict, NotFound
from threadkeep.knowledge import archive
from threadkeep.knowledge.query import Query
from threadkeep.knowledge.records import Entry
from threadkeep.testing import KnowledgeFactory


@pytest.fixture
def world(tmp_path: Path, knowledge_factory: KnowledgeFactory) -> World:
    return World(tmp_path, knowledge_factory)


def found(world: World, text: str, **options: Any) -> list[tuple[str, str]]:
    with world.history() as history:
        hits = history.search(text, **options)
    return [(hit.session.session_id, hit.shown.entry.text) for hit in hits]


def test_a_transcript_is_in_the_order_of_the_log_whatever_the_times_say(world: World) -> None:
    texts = [("late", 9), ("early", 1), ("none", None)]
    world.write(b"".join(line(id=t, kind="text", text=t, at=at) for t, at in texts))
    world.capture()
    assert world.texts() == ["late", "early", "none"]


def test_a_transcript_over_many_blocks_is_whole(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "BLOCK_BYTES", 200)
    odd = b"".join(said(n) + b"bad\n" + line(kind="odd") for n in range(40))
    world.write(odd)
    world.capture()
    assert world.texts() == [f"word{n}" for n in range(40)]
    assert b"".join(raw + b"\n" for raw in world.raw()) == odd


def test_an_entry_that_changed_is_shown_once_as_it_is_now(world: World) -> None:
    world.write(said(0) + line(id="x", kind="text", text="draft") + said(1))
    world.capture()
    world.append(line(id="x", kind="text", text="final"))
    world.capture()
    assert world.texts() == ["word0", "word1", "final"]
    assert found(world, "draft") == []
    assert found(world, "final") == [("one", "final")]
    assert world.session().entries == 3


def test_a_search_finds_words_in_any_session_and_narrows(world: World) -> None:
    world.write(conversation(3, text="shared words", cwd="/u/app"), "a")
    world.write(conversation(3, text="other words", cwd="/u/lib"), "b")
    world.capture()
    assert {hit[0] for hit in found(world, "words")} == {"a", "b"}
    assert found(world, "words", query=Query(project=("/u/lib",))) == [("b", "other words")]
    assert found(world, "words", query=Query(session=("a",))) == [("a", "shared words")]
    assert found(world, "words", query=Query(agent=("aider",))) == []
    assert found(world, "words", query=Query(role=("assistant",), session=("b",))) == [
        ("b", "other words")
    ]
    assert found(world, "absent") == found(world, "") == found(world, '"') == []


def test_words_in_colours_are_found(world: World) -> None:
    coloured = "\x1b[31malert\x1b[0m: \x1b[1;38;5;9mduck\x1b[m"
    world.write(line(id="a", kind="text", text=coloured))
    world.capture()
    for word in ("alert", "duck"):
        assert found(world, word) == [("one", coloured)]


def test_the_same_text_is_found_once(world: World) -> None:
    for name in ("a", "b", "c"):
        world.write(line(id="x", kind="text", text="said everywhere"), name)
    world.capture()
    assert len(found(world, "everywhere")) == 1


def test_the_newest_come_first_when_asked(world: World) -> None:
    world.write(b"".join(line(id=f"{n}", kind="text", text=f"tale {n}", at=n) for n in (2, 9, 5)))
    world.capture()
    assert [text for _, text in found(world, "tale", newest=True)] == ["tale 9", "tale 5", "tale 2"]
    assert len(found(world, "tale", limit=2)) == 2


def test_a_log_of_several_sessions_gives_each_its_own_lines(world: World) -> None:
    lines = [said(n, session=("s1", "s2")[n % 2]) for n in range(6)]
    world.write(b"".join(lines))
    world.capture()
    assert world.texts("s1") == ["word0", "word2", "word4"]
    assert world.texts("s2") == ["word1", "word3", "word5"]
    assert [raw + b"\n" for raw in world.raw("s2")] == lines[1::2]


def test_a_session_in_several_logs_is_shown_with_all_of_them(world: World) -> None:
    world.write(conversation(3, session="s"), "a")
    world.write(conversation(5, session="s"), "b")
    world.capture()
    assert world.texts("s") == [f"word{n}" for n in range(5)]
    assert world.session("s").entries == 5


def test_a_source_that_is_not_there_any_more_shows_nothing_and_keeps_the_lines(
    world: World,
) -> None:
    world.write(conversation(3))
    world.capture()
    world.sources = {}
    assert world.texts() == []
    assert len(world.raw()) == 3
    assert found(world, "word1") == []


def test_a_source_that_reads_otherwise_now_shows_what_it_can(world: World) -> None:
    class Newer(ToyLines):
        def entries(self, record: Any, line: bytes, number: int) -> list[Entry]:
            return [one for one in super().entries(record, line, number) if one.key != "e1"]

    world.write(conversation(3))
    world.capture()
    world.sources = {"toy": Newer()}
    assert world.texts() == ["word0", "word2"]
    assert found(world, "word1") == []


def test_a_session_is_found_by_a_beginning_that_only_it_has(world: World) -> None:
    for name in ("abc-1", "abc-2", "b%_"):
        world.write(said(0), name)
    world.capture()
    assert world.session("abc-1").session_id == "abc-1"
    assert world.session("b").session_id == "b%_"
    assert world.session("pi:abc-2").session_id == "abc-2"
    with pytest.raises(Conflict, match="abc-1"):
        world.session("abc")
    for name in ("nothing", "%", ""):
        with pytest.raises(NotFound):
            world.session(name)


def test_sessions_are_listed_latest_first_in_pages(world: World) -> None:
    for number in (1, 5, 3):
        world.write(line(id="x", kind="prompt", text="t", at=number), f"s{number}")
    world.capture()
    with world.history() as history:
        names = [one.session_id for one in history.sessions()]
        first = history.sessions(limit=2)
        rest = history.sessions(cursor=first[-1], limit=2)
    assert names == ["s5", "s3", "s1"]
    assert [one.session_id for one in (*first, *rest)] == names


def test_usage_is_counted_once_with_the_largest_output(world: World) -> None:
    answer = line(id="m1", usage=5, at=1) + line(id="m1", usage=9, at=1)
    world.write(said(0) + answer + line(id="m1", usage=2, at=1), "a")
    world.write(said(0) + answer, "b")
    world.capture()
    with world.history() as history:
        spent = history.usage()
    assert (spent.total.answers, spent.total.output) == (1, 9)
    assert list(spent.by_day) == ["1970-01-01"]
