"""Search: pages and tiers, tools, stores that cannot be written, text of other programs."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.support.states import Clock, Factory
from threadkeep.errors import Invalid
from threadkeep.state.search import candidates, search
from threadkeep.state.search.index_fill import drain
from threadkeep.state.session_db import SessionDB

Make = Callable[..., list[int]]


def ids(db: SessionDB, query: str, **options: Any) -> list[int]:
    return [hit["id"] for hit in db.search_messages(query, **options)]


@pytest.fixture
def small_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let bounds of thousands be reached with dozens."""
    monkeypatch.setattr(candidates, "ROUNDS", (10, 40, -1))
    monkeypatch.setattr(search, "_ENOUGH", 5)
    monkeypatch.setattr(search, "_LARGEST_TIER", 30)


# ---------------------------------------------------------------------- pages, tiers


@pytest.mark.usefixtures("small_rounds")
@pytest.mark.parametrize("sort", ["rank", "newest", "oldest"])
@pytest.mark.parametrize("roles", [None, ["assistant"]])
def test_pages_neither_overlap_nor_skip(
    db: SessionDB, make: Make, sort: str, roles: list[str] | None
) -> None:
    texts = [f"walrus {'walrus ' * (number % 5)}{'一只' * (number % 3)}" for number in range(120)]
    make("s", *texts)
    pages: list[int] = []
    while page := ids(db, "walrus", sort=sort, role_filter=roles, limit=7, offset=len(pages)):
        pages += page
    assert pages == ids(db, "walrus", sort=sort, role_filter=roles, limit=-1)
    assert len(pages) == len(set(pages)) == (120 if roles is None else 60)


@pytest.mark.usefixtures("small_rounds")
def test_older_matches_come_after_the_ranked_ones(db: SessionDB, make: Make) -> None:
    """The documented price of speed: the best of the newest candidates come first."""
    make("s", "walrus walrus walrus", *["a walrus among other words"] * 50)
    db.reindex()
    found = ids(db, "walrus", limit=-1)
    assert len(found) == 51
    assert found[0] != 1
    assert ids(db, "walrus", limit=-1, session_id="s") == found


@pytest.mark.usefixtures("small_rounds")
def test_a_flood_of_demoted_hits_does_not_fill_the_first_tier(db: SessionDB, make: Make) -> None:
    make("mine", "the walrus of people")
    make("job", *["the walrus of cron"] * 25, source="cron")
    assert ids(db, "walrus", limit=1) == [1]
    assert ids(db, "walrus", limit=1, source_weights={}) != [1]


def test_a_rank_prefers_what_was_typed_and_short_texts(db: SessionDB, make: Make) -> None:
    make("s", "run py in the gateway", "see gateway/run.py", f"gateway/run.py {'and more ' * 60}")
    assert ids(db, "gateway/run.py") == [2, 3]
    make("t", "one alpha", "alpha alpha alpha")
    assert ids(db, "alpha") == [5, 4]


def test_times_decide_newest_and_oldest(db: SessionDB, make: Make, clock: Clock) -> None:
    make("s", "walrus")
    clock.pass_days(-3)  # an import, or a clock that stepped
    make("s", "walrus")
    assert ids(db, "walrus", sort="newest") == [1, 2]
    assert ids(db, "walrus", sort="oldest") == [2, 1]


@pytest.mark.parametrize(
    "options", [{"sort": "best"}, {"limit": "5"}, {"offset": -1}, {"query": 5}]
)
def test_nonsense_is_refused(db: SessionDB, options: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        db.search_messages(**{"query": "walrus", **options})


def test_filters_of_nothing(db: SessionDB, make: Make) -> None:
    make("s", "walrus")
    assert ids(db, "walrus", limit=0) == []
    assert ids(db, "walrus", source_filter=[]) == []
    assert ids(db, "walrus", exclude_sources=[], role_filter=[], exclude_sessions=[]) == [1]
    assert ids(db, "walrus", session_id="nobody") == []
    assert ids(db, "walrus", limit=-1) == [1]


# ---------------------------------------------------------------------- tools


@pytest.fixture
def results(db: SessionDB) -> SessionDB:
    db.create_session("s", "cli")
    db.append_message("s", "tool", "the disk is full", tool_name="run_terminal")
    db.append_message("s", "tool", "the disk is empty", tool_name="read_file")
    db.append_message("s", "user", "what does the terminal say about the disk?")
    db.append_message("s", "tool", "部署 failed on a full disk", tool_name="run_terminal")
    return db


@pytest.mark.parametrize(
    "query, wanted",
    [
        ("terminal", {1, 3, 4}),
        ("run_terminal", {1, 4}),
        ("term*", {1, 3, 4}),
        ("terminal disk", {1, 3, 4}),
        ("disk terminal full", {1, 4}),
        ("file disk", {2}),
        ("run_terminal 部署", {4}),
        ("terminal NOT full", {3}),
        ("disk NOT terminal", {2}),
        ("file OR 部署", {2, 4}),
        ("read terminal", set()),
    ],
)
def test_names_of_tools_and_their_results_are_one(
    results: SessionDB, query: str, wanted: set[int]
) -> None:
    assert set(ids(results, query)) == wanted
    results.reindex()
    assert set(ids(results, query)) == wanted


def test_a_hit_in_a_name_shows_the_name(results: SessionDB) -> None:
    [hit] = results.search_messages("read_file")
    assert hit["snippet"] == ">>>read_file<<<"
    assert hit["tool_name"] == "read_file"


def test_an_offloaded_output_is_still_found(db: SessionDB) -> None:
    db.create_session("s", "cli")
    db.append_message("s", "tool", f"the walrus {'lorem ipsum ' * 2_000}", tool_name="cat")
    db.end_session("s", "done")
    assert ids(db, "walrus") == [1]
    db.offload_blobs()
    [hit] = db.search_messages("walrus")
    assert ">>>walrus<<<" in hit["snippet"]
    db.reindex()
    assert ids(db, "walrus") == [1]


def test_rewound_messages_are_found_again_after_an_undo(db: SessionDB, make: Make) -> None:
    make("s", "海象 one", "海象 two")
    db.reindex()
    db.rewind_to_message("s", 2, any_role=True)
    assert ids(db, "海象") == [1]
    db.undo_rewind("s")
    assert sorted(ids(db, "海象")) == [1, 2]


# ---------------------------------------------------------------------- symbols


def test_symbols_are_found_by_reading(db: SessionDB, make: Make) -> None:
    make("s", "fine 👍", "plain", "->> arrow", "👍👍 twice")
    db.append_message("s", "assistant", tool_calls=[{"function": {"name": "x", "arguments": "👍"}}])
    assert ids(db, "👍", sort="newest") == [5, 4, 1]
    assert ids(db, "->>") == [3]
    assert set(ids(db, "👍 OR plain")) == {1, 2, 4, 5}
    assert ids(db, "¿¡") == []


# ---------------------------------------------------------------------- only reading


def test_a_store_open_for_reading_finds_what_no_index_has_seen(
    db: SessionDB, make: Make, factory: Factory
) -> None:
    make("s", "部署 one", *["words"] * 100, "部署 two")
    reader = factory.reopen(db, read_only=True)
    assert set(ids(reader, "部署")) == {1, 102}
    assert set(ids(reader, "部署 NOT two")) == {1}


def test_content_of_any_kind_is_readable_in_a_hit(db: SessionDB) -> None:
    db.create_session("s", "cli")
    db.append_message("s", "user", "half \ud83d walrus")
    db.append_message("s", "user", [{"type": "text", "text": "a walrus"}, {"type": "image_url"}])
    hits = db.search_messages("walrus", sort="oldest")
    assert [hit["id"] for hit in hits] == [1, 2]
    assert hits[0]["context"][0]["content"] == "half \ud83d walrus"
    assert hits[1]["context"][1]["content"] == "a walrus\n[image]"


def test_not_sees_a_change_at_once(db: SessionDB, make: Make, factory: Factory) -> None:
    make("s", "walrus")
    drain(db.context)
    with factory.raw(db) as other:
        other.execute("UPDATE messages SET content = 'walrus 今天天气'")
    assert ids(db, "walrus NOT 天气") == []
    assert ids(db, "walrus 天气") == [1]


@pytest.mark.parametrize("time", ["2026-01-01", datetime(2026, 1, 1, tzinfo=UTC)])
@pytest.mark.parametrize("name", ["since", "until"])
def test_times_are_numbers(db: SessionDB, make: Make, name: str, time: Any) -> None:
    make("s", "the walrus")
    with pytest.raises(Invalid, match="a time is not") as refused:
        db.search_messages("walrus", **{name: time})
    assert "Unix seconds" in str(refused.value.hint)


# ---------------------------------------------------------------------- what is shown


def test_symbols_are_marked_where_they_are(db: SessionDB, make: Make) -> None:
    make("s", f"{'before ' * 60}👍 after", "a::b")
    [hit] = db.search_messages("👍")
    assert ">>>👍<<< after" in hit["snippet"]
    [hit] = db.search_messages("::")
    assert hit["snippet"] == "a>>>::<<<b"


def test_marks_that_were_in_the_text_are_no_match(db: SessionDB) -> None:
    db.create_session("s", "cli")
    calls = [{"function": {"name": "open_walrus", "arguments": "{}"}}]
    db.append_message("s", "assistant", ">>> import os", None, calls)
    [hit] = db.search_messages("walrus")
    assert hit["snippet"] == "open_>>>walrus<<<"


def test_neighbours_far_away_are_found(db: SessionDB, make: Make) -> None:
    make("s", "first", "walrus")
    make("other", *["between"] * 100)
    make("s", "walrus", "last")
    shown = [
        [each["content"] for each in hit["context"]]
        for hit in db.search_messages("walrus", sort="oldest")
    ]
    assert shown == [["first", "walrus", "walrus"], ["walrus", "walrus", "last"]]
