"""Lists of sessions: what a query means, pages that leave nothing out, and how they are read."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.many_sessions import DAY, NOW, Many
from tests.support.tickets import add_segment
from threadkeep.base.sqlite.upkeep import sqlite_file
from threadkeep.base.tx import Sql
from threadkeep.errors import Invalid
from threadkeep.knowledge import session_sql
from threadkeep.knowledge.library import Browse
from threadkeep.knowledge.query import Query, parse_query
from threadkeep.knowledge.results import SessionSummary
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.testing import KnowledgeFactory

SEVERAL = 23


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory, lasting_factory: KnowledgeFactory) -> Many:
    many = Many(tmp_path_factory.mktemp("many"), lasting_factory)
    for number in range(SEVERAL):
        many.add(f"plain-{number:02}", project="bulk", ended_at=NOW - (40 + number % 5) * DAY)
    many.add("undated-1", started_at=None, ended_at=None)
    many.add("undated-2", started_at=None, ended_at=None)
    claude = many.add(
        "rich",
        harness="claude-code",
        project="web-shop",
        cwd="/u/code/web-shop/api",
        model="claude-opus-4-5",
        git_branch="fix/login",
        title="Repair the 100% login",
        errors=2,
        tool_calls=9,
        started_at=NOW - 2 * DAY,
        ended_at=NOW - 2 * DAY + 30 * 60_000,
    )
    many.answer(claude, NOW - DAY, model="claude-opus-4-5", input=1_000_000, output=1_000_000)
    many.say(claude, "the docker image does not start")
    many.say(claude, "it failed", kind="tool_result", error=1)
    many.add("live", ended_at=NOW - 60_000)
    many.add("child", harness="claude-code", is_subagent=1, parent_session_id="rich", ended_at=NOW)
    many.add("thread", hidden=1, ended_at=NOW)
    many.add("empty", entries=0, ended_at=NOW)
    mixed = many.add("mixed", errors=1)
    many.say(mixed, "it failed too", kind="tool_result", error=1)
    many.say(mixed, "then it went well", kind="tool_result", error=0)
    many.answer(mixed, NOW - DAY, model="nobody-knows", input=5)
    many.add("probe", harness="codex", ended_at=NOW)
    with many.write() as tx:
        add_segment(tx, session_id="probe", probe_tag="p")
    return many


@pytest.fixture(scope="module")
def browse(many: Many) -> Iterator[Browse]:
    with many.browse() as opened:
        yield opened


def found(browse: Browse, text: str) -> set[str]:
    page = browse.sessions(parse_query(text, NOW), limit=100)
    assert page.next is None
    return {one.session.session_id for one in page.items if "plain" not in one.session.session_id}


def test_subagents_hidden_threads_probes_and_empty_ones_are_not_listed(browse: Browse) -> None:
    assert found(browse, "") == {"undated-1", "undated-2", "rich", "live", "mixed"}


@pytest.mark.parametrize(
    "text, expected",
    [
        ("agent:claude", {"rich"}),  # a part of the name is enough where none is the same
        ("agent:CODEX since:3d", {"live", "mixed"}),
        ("project:web-shop", {"rich"}),
        ("project:/u/code", {"rich"}),
        ("project:/u/cod", set()),
        ("project:somebody/web-shop", {"rich"}),
        ("project:nowhere", set()),
        ("model:opus", {"rich"}),
        ("branch:login", {"rich"}),
        ("agent:codex agent:claude-code since:3d", {"rich", "live", "mixed"}),
        ("-agent:codex", {"rich"}),
        ("-agent:nobody since:3d", {"rich", "live", "mixed"}),
        ("until:2020-01-01", set()),
        ("is:live", {"live"}),
        ("is:subagent", {"child"}),
        ("is:hidden", {"thread"}),
        ("is:failed", {"rich"}),
        ("errors:>1", {"rich"}),
        ("tools:>=9 minutes:>10", {"rich"}),
        ("cost:>1", {"rich"}),
        ("tokens:5", {"mixed"}),
        ("docker", {"rich"}),
        ('"docker image" start', {"rich"}),
        ("100%", {"rich"}),  # in the title alone
        ("repair", {"rich"}),
        ("\U0001f600", set()),
        ('agent:codex "docker"', set()),
    ],
)
def test_a_query_means(browse: Browse, text: str, expected: set[str]) -> None:
    assert found(browse, text) == expected
    counted = browse.count(parse_query(text, NOW))
    assert counted is None or counted >= len(expected)


def test_what_a_list_says_of_a_session(browse: Browse) -> None:
    (one,) = browse.sessions(parse_query("docker", NOW)).items
    assert one.ref == "claude-code:rich"
    assert (one.tokens, one.children, one.live) == (2_000_000, 1, False)
    assert one.cost is not None
    assert one.cost > 0
    (mixed,) = browse.sessions(parse_query("well", NOW)).items
    assert (mixed.tokens, mixed.cost) == (5, None)
    (titled,) = browse.sessions(parse_query("login", NOW)).items
    assert titled.snippet == "Repair the 100% >>>login<<<"


@pytest.mark.parametrize("text", ["", "project:bulk", "cost:<=0", "-project:elsewhere"])
@pytest.mark.parametrize("limit", [1, 4, 23])
def test_pages_together_are_the_whole_list(browse: Browse, text: str, limit: int) -> None:
    query = parse_query(text, NOW)
    whole = [one.ref for one in browse.sessions(query, limit=100).items]
    paged: list[str] = []
    after: str | None = None
    while True:
        page = browse.sessions(query, cursor=after, limit=limit)
        assert len(page.items) <= limit
        paged += [one.ref for one in page.items]
        after = page.next
        if after is None:
            break
    assert paged == whole
    assert len(whole) >= SEVERAL


def test_the_latest_stands_first_and_what_has_no_time_last(browse: Browse) -> None:
    times = [one.session.ended_at for one in browse.sessions(limit=100).items]
    assert times == sorted(times, key=lambda at: -1 if at is None else at, reverse=True)
    assert times[-1] is None


@pytest.mark.parametrize("cursor", ["", "x", "1", "1.2.3", "1.-2", "9" * 19 + ".1", ".", "1.٣"])
def test_a_bad_cursor_is_refused(browse: Browse, cursor: str) -> None:
    with pytest.raises(Invalid):
        browse.sessions(cursor=cursor)


def test_facets_count_what_is_meant_by_the_other_keys(browse: Browse) -> None:
    facets = browse.facets()
    assert facets["project"][0] == ("bulk", SEVERAL)
    assert ("claude-code", 1) in facets["agent"]
    chosen = browse.facets(parse_query("agent:claude-code", NOW))
    assert chosen["project"] == [("web-shop", 1)]
    assert dict(chosen["agent"])["codex"] > 1  # another agent can still be chosen


def test_counts_are_not_made_where_they_would_take_long(browse: Browse) -> None:
    assert browse.count(Query(marks=("failed",))) is None
    assert browse.count(parse_query("project:bulk", NOW)) == SEVERAL


def test_work_is_bounded_and_goes_on_where_it_stopped(
    browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadkeep.knowledge.session_list._CHUNK", 5)
    monkeypatch.setattr("threadkeep.knowledge.session_list._MOST_LOOKED_AT", 10)
    query = parse_query("cost:>1000", NOW)
    pages = 0
    after: str | None = None
    while True:
        page = browse.sessions(query, cursor=after)
        pages += 1
        assert page.items == ()
        after = page.next
        if after is None:
            break
    assert pages > 1


def test_a_word_that_very_many_have_is_searched_on_with_the_next_page(
    browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadkeep.knowledge.session_list._MATCHES", 1)
    first = browse.sessions(Query("failed"))
    assert [one.ref for one in first.items] == ["codex:mixed"]
    second = browse.sessions(Query("failed"), cursor=first.next)
    assert [one.ref for one in second.items] == ["claude-code:rich"]
    assert second.next is None


@pytest.mark.parametrize(
    "text, index",
    [
        ("", "tk_sessions_shown"),
        ("since:7d", "tk_sessions_shown"),
        ("until:2026-01-01", "tk_sessions_shown"),
        ("agent:codex", "tk_sessions_of_agent"),
        ("project:bulk", "tk_sessions_of_project"),
        ("model:gpt-5", "tk_sessions_of_model"),
        ("branch:main", "tk_sessions_of_branch"),
        ("is:subagent", "tk_sessions_recent"),
    ],
)
def test_a_page_is_read_from_an_index_in_its_order(many: Many, text: str, index: str) -> None:
    with KnowledgeStore.open(many.path, read_only=True) as store, store.context.db.read() as tx:
        chosen = session_sql.where(tx, parse_query(text, NOW), NOW)
        for after in (None, session_sql.SessionCursor(NOW, 5), session_sql.SessionCursor(None, 5)):
            for sql, values in session_sql.page_sql(chosen, after):
                rows = tx.all(Sql(f"EXPLAIN QUERY PLAN {sql}"), {**values, "limit": 50})
                plan = [row[3] for row in rows]
                assert index in plan[0]
                assert not any("TEMP B-TREE" in step for step in plan)


def test_what_sessions_took_is_read_from_the_index_alone(many: Many) -> None:
    with KnowledgeStore.open(many.path, read_only=True) as store, store.context.db.read() as tx:
        sql = sqlite_file(store.context.db).queries["browse_sums"]
        plan = [row[3] for row in tx.all(Sql(f"EXPLAIN QUERY PLAN {sql}"), {"ids": "[1]"})]
    assert any("COVERING INDEX tk_usage_quarters" in step for step in plan)


def test_more_words_than_a_query_can_have_are_refused(knowledge_factory: KnowledgeFactory) -> None:
    with knowledge_factory.open() as store:
        assert store.evidence.runs(Query(text="tide " * 5_000)) == []
        with pytest.raises(Invalid, match="101 words"):
            store.evidence.runs(Query(text=" ".join(map(str, range(101)))))


def test_what_is_new_is_told_from_a_mark(
    tmp_path: Path, knowledge_factory: KnowledgeFactory
) -> None:
    many = Many(tmp_path, knowledge_factory)
    first = many.add("one")
    many.say(first, "before")
    with many.browse() as browse:
        mark = browse.mark()
        assert browse.changed_since(mark) == (mark, ())
        many.say(first, "after")
        many.say(many.add("two", harness="pi"), "another")
        newer, changed = browse.changed_since(mark)
        assert newer == browse.mark() > mark
        assert set(changed) == {"codex:one", "pi:two"}
        assert browse.facets()["agent"] == [("codex", 1), ("pi", 1)]
        seen = browse.database.changes()
        many.add("three", harness="pi")
        browse.database.changed(seen, timeout=60)
        assert browse.facets()["agent"] == [("pi", 2), ("codex", 1)]


def test_words_of_one_session_need_not_stand_in_one_message(
    tmp_path: Path, knowledge_factory: KnowledgeFactory
) -> None:
    many = Many(tmp_path, knowledge_factory)
    for name, texts in {
        "both": ("the quagga ran", "parrots fly"),
        "one": ("a quagga alone",),
        "together": ("heron and egret", "nothing else"),
    }.items():
        number = many.add(name, title="Zebras" if name == "one" else "")
        for text in texts:
            many.say(number, text)
    with many.browse() as browse:

        def asked(text: str) -> tuple[set[str], tuple[str, ...]]:
            page = browse.sessions(parse_query(text, NOW))
            return {one.session.session_id for one in page.items}, page.missing

        assert asked("quagga parrots") == ({"both"}, ())
        assert asked("zebras quagga") == ({"one"}, ())  # one in the title, one said
        assert asked("quagga parrots agent:codex")[0] == {"both"}
        assert asked("quagga unicorn") == ({"both", "one"}, ("unicorn",))
        assert asked("parrots heron") in [({"both"}, ("heron",)), ({"together"}, ("parrots",))]
        for never_wider in ('"quagga parrots"', 'quagga "blue unicorn"', "quagga NOT quagga"):
            assert asked(never_wider) == (set(), ()), never_wider
        assert asked("quagga OR egret")[0] == {"both", "one", "together"}


@pytest.mark.parametrize("field", ["cost", "tokens", "messages", "tools", "errors", "minutes"])
def test_a_sorted_list_has_the_same_sessions_page_by_page(browse: Browse, field: str) -> None:
    query = parse_query(f"sort:{field} is:all", NOW)
    items: list[SessionSummary] = []
    after = None
    while True:
        page = browse.sessions(query, cursor=after, limit=4)
        items += page.items
        after = page.next
        if after is None:
            break
    plain = browse.sessions(parse_query("is:all", NOW), limit=200).items
    assert len(items) == len(plain)
    assert {one.ref for one in items} == {one.ref for one in plain}
    measures: dict[str, Callable[[SessionSummary], int]] = {
        "cost": lambda one: one.cost or 0,
        "tokens": lambda one: one.tokens,
        "messages": lambda one: one.session.entries,
        "tools": lambda one: one.session.tool_calls,
        "errors": lambda one: one.session.errors,
        "minutes": lambda one: (one.session.ended_at or -(10**15)) - (one.session.started_at or 0),
    }
    values = [measures[field](one) for one in items]
    assert values == sorted(values, reverse=True)
    assert field == "messages" or values[0] > values[-1]  # all have as many


def test_a_sorted_list_keeps_bounds_that_are_summed_up(browse: Browse) -> None:
    found = browse.sessions(parse_query("sort:tokens tokens:>0", NOW)).items
    assert [one.session.session_id for one in found] == ["rich", "mixed"]
