"""Our own tools: paging, opening a hit at its place, writing only where that is allowed."""

from pathlib import Path
from typing import Any

import pytest

from tests.mcp.asking import ask, data, refused
from threadkeep.errors import Invalid
from threadkeep.home.home import Home
from threadkeep.home.stores import Stores
from threadkeep.knowledge.query import Query
from threadkeep.mcp import contract_tools, memory_tools
from threadkeep.mcp.server import described, make_room, offered
from threadkeep.mcp.tools import ToolContext
from threadkeep.verbs import each_verb


def paged(room: ToolContext, name: str, key: str, **given: Any) -> list[dict[str, Any]]:
    """Follow the cursors of a tool to the end."""
    rows: list[dict[str, Any]] = []
    cursor: str | None = ""
    while cursor is not None:
        page = data(room, name, **given, cursor=cursor)
        assert page[key] or page["next"] is None
        rows += page[key]
        cursor = page["next"]
    return rows


# What a tool of ours takes beyond its verb: how an answer is shown, and where it begins.
BEYOND_THE_VERB = {"usage": {"by"}, "get_messages": {"around", "chars", "cursor"}}


def test_every_tool_of_ours_takes_what_its_verb_takes() -> None:
    contract = {tool.name for tool in (*contract_tools.TOOLS, *memory_tools.TOOLS)}
    ours = {tool.name: tool for tool in offered(write=True) if tool.name not in contract}
    lines = {one.tool: one for one in each_verb() if one.tool}
    assert ours.keys() == lines.keys()
    for name, tool in ours.items():
        parts = (lines[name].asked, lines[name].body)
        taken = {field for one in parts if one for field in one.__struct_fields__}
        told = set(tool.arguments.__struct_fields__)
        assert told - taken == BEYOND_THE_VERB.get(name, set())


def test_a_hit_opens_at_its_message(room: ToolContext) -> None:
    hits = data(room, "recall", q="tide feed retry", kind="message")["hits"]
    ref = hits[0]["ref"]
    shown = data(room, "get_messages", around=ref, limit=5)
    assert ref in [row["ref"] for row in shown["messages"]]
    assert shown["session"] == hits[0]["session"]


def test_pages_of_hits_are_disjoint_and_the_same_as_one_page(room: ToolContext) -> None:
    whole = [row["ref"] for row in data(room, "recall", q="tide", limit=9)["hits"]]
    first = data(room, "recall", q="tide", limit=4)
    second = data(room, "recall", q="tide", limit=5, cursor=first["next"])
    assert [row["ref"] for row in (*first["hits"], *second["hits"])] == whole


def test_every_session_and_every_entry_is_reached_once(room: ToolContext) -> None:
    sessions = paged(room, "list_sessions", "sessions", limit=3)
    refs = [row["session"] for row in sessions]
    assert len(refs) == len(set(refs)) == 8
    for row in sessions[:3]:
        entries = paged(room, "get_messages", "messages", session=row["session"], limit=2)
        assert [one["position"] for one in entries] == list(range(row["messages"]))


def test_a_session_is_told_with_its_prompts(room: ToolContext) -> None:
    (found,) = data(room, "list_sessions", agent="codex")["sessions"]
    view = data(room, "get_session", session=found["session"])
    assert view["session"] == found
    assert len(view["turns"]) == found["prompts"]
    assert "codex resume" in view["resume"]
    assert view["resume"] in ask(room, "get_session", session=found["session"]).text
    first = view["turns"][0]
    page = data(
        room, "get_messages", session=found["session"], cursor=str(first["position"]), limit=1
    )
    assert page["messages"][0]["text"].startswith(first["prompt"][:20])


@pytest.mark.parametrize("tool", ["get_session", "get_messages"])
def test_a_session_that_is_not_there_leads_to_the_tools_that_name_one(
    room: ToolContext, tool: str
) -> None:
    assert "list_sessions" in refused(room, tool, session="nope")


def test_the_query_language_and_the_arguments_say_the_same(room: ToolContext) -> None:
    typed = data(room, "list_sessions", q="agent:pi")["sessions"]
    assert typed == data(room, "list_sessions", agent="pi")["sessions"]
    assert data(room, "list_sessions", until="2001-01-01")["sessions"] == []


def test_a_timeline_goes_back_page_by_page(room: ToolContext) -> None:
    last = data(room, "timeline", limit=3)
    before = data(room, "timeline", limit=3, cursor=last["next"])
    times = [row["at"] for row in (*before["moments"], *last["moments"])]
    assert times == sorted(times)
    assert not {row["ref"] for row in before["moments"]} & {row["ref"] for row in last["moments"]}
    assert {row["kind"] for row in data(room, "timeline", day="today")["moments"]} >= {"visit"}


@pytest.mark.parametrize("by", ["day", "model", "project", "agent"])
def test_sums_are_the_same_however_they_are_cut(room: ToolContext, by: str) -> None:
    report = data(room, "usage", by=by, since="")
    for name in ("answers", "input", "output", "cost_microdollars"):
        assert sum(row[name] for row in report["rows"]) == report["total"][name]


def test_what_cannot_be_meant_is_refused_with_the_next_step(room: ToolContext) -> None:
    assert "list_sessions" in refused(room, "get_messages")
    assert "What to do" in refused(room, "get_messages", session="codex:nothing")
    assert "the query is empty" in refused(room, "recall", q="")
    assert "not a cursor" in refused(room, "recall", q="x", cursor="-1")
    assert "cannot read" in refused(room, "recall", q="x", since="soon")
    assert "kind[0]: 'mesage' is not one of 'message', 'command'" in refused(
        room, "recall", q="x", kind=["mesage"]
    )
    assert "did you mean 'project'?" in refused(room, "usage", by="progect")
    assert len(refused(room, "usage", by="x" * 100_000)) < 1_000
    assert "cannot be combined" in refused(room, "timeline", day="today", since="1d")
    assert "not a message of a session" in refused(room, "get_messages", around="command:1")


@pytest.mark.parametrize("limit", [0, 201, "many"])
@pytest.mark.parametrize("tool", ["recall", "timeline", "list_sessions"])
def test_a_tool_refuses_what_its_verb_refuses_in_the_same_words(
    room: ToolContext, tool: str, limit: Any
) -> None:
    (line,) = (one for one in each_verb() if one.tool == tool)
    needed = {"q": "x"} if tool == "recall" else {}
    said = refused(room, tool, **needed, limit=limit)
    python = {"text": "x"} if tool == "recall" else {}
    with pytest.raises(Invalid) as caught:
        line.function(None, **python, limit=limit)
    assert said.startswith(caught.value.message)


def test_one_of_several_may_stand_alone(room: ToolContext) -> None:
    both = data(room, "list_sessions", agent=["pi", "codex"])["sessions"]
    alone = [data(room, "list_sessions", agent=one)["sessions"] for one in ("pi", "codex")]
    assert {row["session"] for row in both} == {row["session"] for (row,) in alone}


def test_without_a_store_the_answer_says_what_to_do(tmp_path: Path) -> None:
    home = Home(tmp_path / "nothing")
    said = refused(make_room(Stores(home)), "recall", q="x")
    assert "there is no knowledge store" in said
    assert "threadkeep capture" in said
    assert not (tmp_path / "nothing").exists()


def test_only_what_writes_is_kept_back() -> None:
    hints = {tool.name: described(tool).annotations for tool in offered(write=True)}
    writing = {"label", "remember"}
    assert set(hints) - {tool.name for tool in offered(write=False)} == writing
    for name, hint in hints.items():
        assert hint is not None
        assert hint.read_only_hint is (name not in writing)
        assert hint.idempotent_hint is (name not in writing)
        assert (hint.destructive_hint, hint.open_world_hint) == (False, False)


def test_a_session_and_a_message_are_labelled(room: ToolContext) -> None:
    session = data(room, "list_sessions", limit=1)["sessions"][0]["session"]
    put = data(room, "label", ref=session, star=True, add=["Flaky", "#ci"], note="look again")
    assert (put["starred"], put["tags"], put["note"]) == (True, ["ci", "flaky"], "look again")
    (found,) = data(room, "list_sessions", q="tag:flaky is:starred")["sessions"]
    assert (found["session"], found["note"]) == (session, "look again")
    message = data(room, "get_messages", session=session)["messages"][0]["ref"]
    assert data(room, "label", ref=message, add=["here"])["tags"] == ["here"]
    put = data(room, "label", ref=session, star=False, remove=["ci", "flaky"])
    assert (put["starred"], put["tags"], put["note"]) == (False, [], "look again")
    assert "can't be a tag" in refused(room, "label", ref=session, add=["a b"])


def test_a_note_is_recalled_as_an_agents_word_and_can_be_forgotten(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path / "noted")
    home.knowledge().close()
    stores = Stores(home)
    room = make_room(stores)._replace(client="probe-agent")
    secret = "ghp_" + "k7Qw2Zx9Lm" * 3 + "aB4cD5"
    note = f"The quay gauge reports feet, not metres. The token is {secret}."
    stored = data(room, "remember", note=note, project="/home/demo/code/quay", tags=["units"])
    (hit,) = data(room, "recall", q="gauge feet", kind="node", project="quay")["hits"]
    assert hit["ref"] == stored["ref"]
    assert "Noted by an agent (probe-agent), not verified" in hit["snippet"]
    (row,) = data(room, "search_hybrid", query="gauge feet")["result"]
    assert row["uuid"] == stored["uuid"]
    assert "from-agent" in row["tags"]
    assert secret[4:12] not in ask(room, "recall", q="gauge").text
    assert "is empty" in refused(room, "remember", note="  ")
    assert "at most 8000 characters" in refused(room, "remember", note="x" * 8001)
    with home.history() as history:
        history.forget(Query(pattern="quay gauge"))
    assert data(room, "recall", q="gauge feet")["hits"] == []
    stores.close()
