"""What stays out: excluded projects, our own work, forgotten sessions."""

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tests.support.toy_sources import conversation, line, said
from tests.support.worlds import World
from threadkeep.base.tx import Sql
from threadkeep.capture.records import OWN_MARK, Exclusion
from threadkeep.sources.records import Log, Stamp
from threadkeep.testing import KnowledgeFactory

STAMP = Stamp(0, 0, 0, 0)


@pytest.fixture
def world(tmp_path: Path, knowledge_factory: KnowledgeFactory) -> World:
    return World(tmp_path, knowledge_factory)


def captured(world: World) -> list[str]:
    return [row[0] for row in world.ask("SELECT session_id FROM tk_sessions ORDER BY 1")]


@pytest.mark.parametrize(
    "pattern, place, covered",
    [
        ("/u/app", "/u/app", 1),
        ("/u/app/", "/u/app/src", 1),
        ("/u/app", "/u/application", 0),
        ("app", "/u/app", 1),
        ("app", "/u/app/src", 0),
        ("app", "C:\\work\\app", 1),
        ("client-*", "/u/client-x", 1),
        ("client-*", "/u/my-client-x", 0),
        ("/u/*/secret", "/u/a/secret", 1),
        ("*.tmp", "/u/x.tmp", 1),
        ("App", "/u/app", 0),
    ],
)
def test_patterns(pattern: str, place: str, covered: int) -> None:
    assert Exclusion((pattern,)).of_place(place) == bool(covered)


@given(st.lists(st.text()), st.text())
def test_no_pattern_crashes_and_none_covers_nothing(patterns: list[str], place: str) -> None:
    Exclusion(tuple(patterns)).of_place(place)
    assert not Exclusion(tuple(patterns)).of_place("")
    assert not Exclusion().of_place(place)


@given(st.lists(st.text(alphabet="ab/", max_size=3), max_size=3))
def test_rules_have_a_name_of_their_own(patterns: list[str]) -> None:
    assert Exclusion(tuple(patterns)).name() != Exclusion((*patterns, "more")).name()


def test_a_log_is_excluded_by_where_it_lies() -> None:
    assert Exclusion(("-u-app",)).of_log(Log("/h/-u-app/s.jsonl", STAMP, project_dir="-u-app"))
    assert Exclusion(("/h",)).of_log(Log("/h/x/s.jsonl", STAMP))
    assert not Exclusion(("/u",)).of_log(Log("/h/x/s.jsonl", STAMP))


@pytest.mark.parametrize("pattern", ["/u/secret", "secret", "sec*", "/u/*"])
def test_a_log_is_excluded_by_the_folder_it_works_in(world: World, pattern: str) -> None:
    world.exclude = (pattern,)
    world.write(conversation(2, cwd="/u/secret"), "a")
    world.write(conversation(2, cwd="/other/app"), "b")
    report = world.capture()
    assert (world.lines_report(report).excluded, captured(world)) == (1, ["b"])
    assert world.log_row("a")["lines"] == 0
    assert world.lines_report(world.capture()).changed == 0


def test_removing_the_rule_captures_the_log_at_the_next_run(world: World) -> None:
    world.exclude = ("/u/secret",)
    world.write(conversation(2, cwd="/u/secret"), "a")
    world.capture()
    world.exclude = ()
    world.capture()
    assert world.texts("a") == ["word0", "word1"]
    assert world.lines_report(world.capture()).changed == 0


def test_a_new_rule_stops_a_log_that_grows_and_keeps_what_is_there(world: World) -> None:
    world.write(conversation(2, cwd="/u/secret"), "a")
    world.capture()
    world.exclude = ("/u/secret",)
    world.append(conversation(2, start=2, cwd="/u/secret"), "a")
    world.capture()
    assert world.texts("a") == ["word0", "word1"]
    world.exclude = ()
    world.capture()
    assert world.texts("a") == ["word0", "word1", "word2", "word3"]


def test_a_log_whose_first_line_names_no_folder_is_judged_when_it_does(world: World) -> None:
    world.exclude = ("/u/secret",)
    world.write(line(title="early"), "a")
    world.capture()
    world.append(conversation(2, cwd="/u/secret"), "a")
    world.capture()
    assert world.ask("SELECT 1 FROM tk_entries") == []


def test_a_long_first_line_does_not_hide_the_folder(world: World) -> None:
    world.exclude = ("/u/secret",)
    world.write(line(picture="x" * 300_000, cwd="/u/secret") + said(0), "a")
    world.capture()
    assert captured(world) == []


def test_our_own_enrichment_is_not_captured_but_talk_about_it_is(world: World) -> None:
    world.write(line(id="a", kind="prompt", text=f"{OWN_MARK} sum this up"), "own")
    world.write(line(id="a", kind="prompt", text=f"what is {OWN_MARK}?"), "talk")
    world.write(line(title="first") + line(id="b", kind="prompt", text=f" {OWN_MARK}"), "later")
    world.capture()
    assert captured(world) == ["talk"]


def test_our_own_enrichment_is_known_even_if_its_prompt_comes_late(world: World) -> None:
    world.write(line(title="first"), "own")
    world.capture()
    world.append(line(id="a", kind="prompt", text=f"{OWN_MARK} sum this up"), "own")
    world.capture()
    assert world.ask("SELECT 1 FROM tk_entries") == []


def test_a_forgotten_session_is_not_captured_again(world: World) -> None:
    world.write(conversation(2), "a")
    world.write(conversation(2), "b")
    with world.history() as history, history.store.context.db.write() as tx:
        tx.run(Sql("INSERT INTO tk_forgotten VALUES ('pi', 'a', 1)"))
    world.capture()
    world.append(conversation(2, start=2), "a")
    world.capture()
    assert captured(world) == ["b"]


def test_broken_lines_at_the_beginning_stop_no_judgement(world: World) -> None:
    world.exclude = ("/u/secret",)
    world.write(b"\xff\n[[[\n" + line(boom=1) + conversation(1, cwd="/u/secret"), "a")
    world.capture()
    assert captured(world) == []
