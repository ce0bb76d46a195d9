"""Stars, tags and notes: put on sessions and messages, found by them, kept, and forgotten."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.user_homes import home_of
from tests.support.worlds import stored_in
from tests.web.transcripts import Log
from threadkeep.capture.capture import History
from threadkeep.errors import Invalid, NotFound
from threadkeep.knowledge.library import Browse
from threadkeep.knowledge.query import Query, parse_query
from threadkeep.knowledge.results import NO_LABELS, Labels
from threadkeep.testing import KnowledgeFactory

NOW = 1_790_000_000_000
SECRET = "the codeword is swordfish"


@pytest.fixture
def user(tmp_path: Path) -> Path:
    for name in ("one", "two"):
        log = Log(tmp_path / "user", name)
        log.ask(f"please look at {name}")
        log.answer(f"{SECRET} in {name}")
        log.write()
    return tmp_path / "user"


@pytest.fixture
def history(tmp_path: Path, user: Path, knowledge_factory: KnowledgeFactory) -> Iterator[History]:
    with home_of(tmp_path / "home", knowledge_factory).history(user_home=user) as history:
        history.capture()
        yield history


def found(history: History, text: str) -> list[str]:
    return [one.session_id for one in history.sessions(parse_query(text, NOW))]


def messages(history: History, ref: str) -> list[tuple[str, Labels]]:
    browse = Browse(history.store, history.readers)
    return [(one.ref, one.labels) for one in browse.window(ref).messages]


def test_what_is_put_on_a_session_is_shown_and_found(history: History) -> None:
    put = history.store.labels.put
    told = put("claude-code:one", now=NOW, star=True, add=["#Flaky", "ci"], note=" look again ")
    assert told == Labels(starred=True, tags=("ci", "flaky"), note="look again")
    assert history.store.labels.of("one") == told
    assert found(history, "tag:flaky") == found(history, "is:starred") == ["one"]
    assert found(history, "tag:Flaky look") == ["one"]
    assert found(history, "tag:nothing") == []
    told = put("one", now=NOW, star=False, add=["ci"], remove=["flaky"], note="")
    assert told == Labels(tags=("ci",))
    assert found(history, "is:starred") == []
    assert [(one.tag, one.count) for one in history.store.labels.tags()] == [("ci", 1)]


def test_a_message_is_labelled_apart_from_its_session(history: History) -> None:
    (first, _), *_ = messages(history, "two")
    history.store.labels.put(first, now=NOW, star=True, note="here")
    assert messages(history, "two")[0][1] == Labels(starred=True, note="here")
    assert history.store.labels.of("two") == NO_LABELS
    assert found(history, "is:starred") == ["two"]
    (one,) = history.store.labels.listed()
    assert (one.ref, one.session, one.labels.note) == (first, "claude-code:two", "here")


@pytest.mark.parametrize("tag", ["", "two words", 'a"b', "a,b", "x" * 41])
def test_what_is_no_tag_is_refused_whole(history: History, tag: str) -> None:
    with pytest.raises(Invalid):
        history.store.labels.put("one", now=NOW, star=True, add=["good", tag])
    assert history.store.labels.of("one") == NO_LABELS


def test_what_is_not_there_cannot_be_labelled(history: History) -> None:
    for ref in ("nobody", "message:99999999", "claude-code:three"):
        with pytest.raises(NotFound):
            history.store.labels.put(ref, now=NOW, star=True)


def test_labels_survive_a_log_that_is_read_again_and_go_with_what_they_are_on(
    history: History, user: Path, knowledge_factory: KnowledgeFactory
) -> None:
    put = history.store.labels.put
    (first, _), (second, _) = messages(history, "one")[:2]
    put(first, now=NOW, add=["prompt"])
    put(second, now=NOW, note="about the codeword")
    put("two", now=NOW, star=True)
    for path in user.rglob("one.jsonl"):  # another file under the same name: all of it is read
        path.write_bytes(path.read_bytes().replace(b"please look", b"please, look"))
    history.capture()
    shown = {labels for _, labels in messages(history, "one")} - {NO_LABELS}
    assert shown == {Labels(tags=("prompt",)), Labels(note="about the codeword")}
    history.forget(Query(pattern="codeword is", session=("one",)))
    assert [one.labels for one in history.store.labels.listed()] == [
        Labels(starred=True),
        Labels(tags=("prompt",)),
    ]
    history.forget(Query(session=("claude-code:two",)))
    history.forget(Query(session=("claude-code:one",)))
    assert history.store.labels.listed() == []
    assert b"about the codeword" not in stored_in(knowledge_factory, history.store)


def test_a_note_with_a_pattern_goes_with_it(history: History) -> None:
    history.store.labels.put("one", now=NOW, note="call 555-0100", star=True)
    history.forget(Query(pattern="555-0100"))
    assert history.store.labels.of("one") == Labels(starred=True)
