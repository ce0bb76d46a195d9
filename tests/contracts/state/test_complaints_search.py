"""What users of Hermes complain about: search that silently finds nothing, or the wrong things.

Issue numbers are those of NousResearch/hermes-agent.
"""

import random
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.states import Clock, Factory
from threadkeep.state.hermes_state import SessionDB

Make = Callable[..., list[int]]
Settle = Callable[[], SessionDB]


def found(db: SessionDB, query: str, **options: Any) -> set[int]:
    return {hit["id"] for hit in db.search_messages(query, limit=-1, **options)}


def behind_index(factory: Factory, db: SessionDB) -> int:
    """Count the messages that our index has not taken in yet."""
    waiting = "SELECT id FROM messages WHERE id > (SELECT CAST(value AS INTEGER) FROM tk_meta"
    return len(factory.rows(db, f"{waiting} WHERE key = 'indexed')"))


@pytest.fixture(params=["scanned", "indexed"])
def settle(request: pytest.FixtureRequest, db: SessionDB, factory: Factory) -> Settle:
    """Leave a few new messages to the scan for them, or see to it that the index has them all."""

    def settled() -> SessionDB:
        if request.param == "indexed":
            db.reindex()
        assert (behind_index(factory, db) == 0) == (request.param == "indexed")
        return db

    return settled


# ---------------------------------------------------------------------- punctuation

# What a message says, and what its reader types to find it again.
PUNCTUATION = [
    ("the fix is in gateway/run.py today", "gateway/run.py"),
    ("it failed with error: timeout after 30s", "error: timeout"),
    ("it's not working", "it's"),
    ("mail user@host about it", "user@host"),
    ("mail jane.doe@example.com about it", "jane.doe@example.com"),
    ("the disk is 50% full", "50%"),
    (r"look in C:\path\file.txt", r"C:\path"),
    ("filed under #tag", "#tag"),
    ("thumbs up 👍 for this", "👍"),
    ("what now? nothing", "what now?"),
    ("first, second, third", "first, second"),
    ("set MAX_RETRIES=15 there", "MAX_RETRIES=15"),
    ("set MAX_RETRIES=15 there", "MAX_RETRIES"),
    ("call foo(bar, baz) twice", "foo(bar, baz)"),
    ("a list [1, 2, 3] here", "[1, 2, 3]"),
    ("json {'key': 'value'} here", "{'key': 'value'}"),
    ("run ls -la | grep txt; done", "ls -la | grep txt;"),
    ("see https://example.com/a?b=c&d=e#f", "https://example.com/a?b=c&d=e#f"),
    ("version v1.2.3-rc.4+build5", "v1.2.3-rc.4+build5"),
    ("C++ and C# and F#", "C++"),
    ("price: $19.99!", "$19.99"),
    ("~/.hermes/state.db is the file", "~/.hermes/state.db"),
    ("std::vector<int> x", "std::vector<int>"),
    ("a <b>tag</b> in html", "<b>tag</b>"),
    ('key="quoted value"', 'key="quoted value"'),
    ("he said “hello there”", "“hello there”"),
    ("issue #13861 is open", "#13861"),
    ("at 12:30:45 it broke", "12:30:45"),
    ("2026-04-01T10:00:00Z start", "2026-04-01T10:00:00Z"),
    ("regex ^[a-z]+$ there", "^[a-z]+$"),
    ("snake_case_name is used", "snake_case_name"),
    ("the --dry-run flag", "--dry-run"),
    ("NullPointerException: at Foo.java:42", "NullPointerException: at Foo.java:42"),
    ("a & b && c", "a & b && c"),
    ("50% of `code` here", "`code`"),
    ("naïve café", "naive cafe"),
    ("ends with dots...", "dots..."),
    ("and/or", "and/or"),
    ("3 * 4 = 12", "3 * 4 = 12"),
    ("semi;colon", "semi;colon"),
    ("Größe und Maß", "Größe"),
    ("Привет мир", "привет"),
    ("🎉 party 🎉", "🎉 party"),
]


@pytest.fixture
def punctuated(db: SessionDB, settle: Settle, factory: Factory) -> SessionDB:
    db.create_session("s", "cli")
    db.append_messages("s", [{"role": "user", "content": text} for text, _ in PUNCTUATION])
    return settle()


def test_punctuation_is_never_silently_empty(punctuated: SessionDB) -> None:
    """#40653, #79285, #82152, #16915, #19952: 373 of 651 realistic queries did not parse."""
    missed = [
        query
        for place, (_, query) in enumerate(PUNCTUATION)
        if place + 1 not in found(punctuated, query)
    ]
    assert missed == []


@pytest.mark.parametrize("joint", [*"!#$%&'()*+,-./:;<=>?@[\\]^_`{|}~\"", "::", "->", "→", "…"])
def test_punctuation_between_two_words(db: SessionDB, make: Make, joint: str) -> None:
    """#40653, #79285."""
    make("s", f"see alpha{joint}omega now", "alpha here, and far away from it the other: nothing")
    assert 1 in found(db, f"alpha{joint}omega")
    assert 1 in found(db, f"alpha{joint} omega")
    assert 1 in found(db, f"{joint}alpha")
    assert 1 in found(db, f"omega{joint}")


@pytest.mark.parametrize(
    "query",
    [
        '"',
        '""',
        "*",
        "()",
        "AND",
        "AND OR NOT",
        "NOT NOT walrus",
        "walrus AND AND swims",
        "NEAR(walrus swims)",
        "content: walrus",
        "content : walrus",
        "- content : walrus",
        "{content} : walrus",
        "walrus^2",
        "^walrus",
        'walrus"',
        "walrus) " * 50,
        "\0walrus\0",
        "walrus \ud800",
        "x" * 20_000,
        "walrus " * 3_000,
        "' OR 1=1 --",
        "'; DROP TABLE messages; --",
        "%",
        "_",
        "\\",
        "😀😀",
        "\u202ewalrus",
    ],
)
def test_punctuation_hostile_queries_never_raise(db: SessionDB, make: Make, query: str) -> None:
    """#16915, #19952."""
    make("s", "the walrus swims")
    hits = db.search_messages(query)
    assert isinstance(hits, list)
    if "walrus" in query and not re.search("NOT|NEAR|content|\\^2", query):
        assert [hit["id"] for hit in hits] == [1]
    assert db.message_count() == 1


def test_punctuation_percent_and_underscore_are_no_wildcards(db: SessionDB, make: Make) -> None:
    """#19952: `%` and `_` found everything, or nothing."""
    make("s", "plain words only", "50% off", "中文")
    assert found(db, "%") == {2}
    assert found(db, "中_") <= {3}


# ---------------------------------------------------------------------- unspaced scripts

SENTENCES = [
    "部署网关时出现超时错误",
    "今天天气很好，我们去公园散步",
    "数据库被锁定了怎么办",
    "データベースがロックされています",
    "東京タワーの近くで会いましょう",
    "コンテナのデプロイに失敗しました",
    "배포하는 동안 오류가 발생했습니다",
    "데이터베이스가 잠겨 있습니다",
    "请用Docker部署gateway服务",
    "エラーcode500が出た",
    "ระบบฐานข้อมูลล้มเหลว",
    "plain english about the database",
    "docker only",
]


@pytest.fixture
def scripts(db: SessionDB, settle: Settle, factory: Factory) -> SessionDB:
    db.create_session("s", "cli")
    db.append_messages("s", [{"role": "user", "content": text} for text in SENTENCES])
    return settle()


def containing(*parts: str) -> set[int]:
    """The oracle: ids of the sentences that contain all parts."""
    return {at + 1 for at, text in enumerate(SENTENCES) if all(part in text for part in parts)}


UNSPACED = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7a3]+")


@pytest.mark.parametrize("length", [1, 2, 3, 4, 7])
def test_cjk_every_part_of_a_sentence_is_found(scripts: SessionDB, length: int) -> None:
    """#11511, #14829, #15500, #20494: 0 to 17 % recall."""
    runs = [run for text in SENTENCES for run in UNSPACED.findall(text)]
    parts = sorted({run[at : at + length] for run in runs for at in range(len(run) - length + 1)})
    chosen = random.Random(7).sample(parts, min(len(parts), 40))
    assert {part: found(scripts, part) for part in chosen} == {
        part: containing(part) for part in chosen
    }


@pytest.mark.parametrize(
    "query, wanted",
    [
        ("超时 OR 天气", containing("超时") | containing("天气")),
        ("部署 OR デプロイ OR 배포", {1, 6, 7, 9}),
        ("天气 OR docker", {2, 9, 13}),
        ("部署 NOT 超时", {9}),
        ("部署 超时", {1}),
        ("部署 gateway", {9}),
        ("docker 部署", {9}),
        ("Docker部署gateway", {9}),
        ("code500", {10}),
        ("エラーcode500", {10}),
        ('"部署网关"', {1}),
        ("锁定 公园", set()),
        ("部署*", {1, 9}),
        ("天气很好，我们", {2}),
        ("数据库 OR database", {3, 12}),
    ],
)
def test_cjk_in_every_form_of_query(scripts: SessionDB, query: str, wanted: set[int]) -> None:
    """#33069, #54242: OR of two-character words, Latin inside CJK."""
    assert found(scripts, query) == wanted


def test_cjk_hits_have_marked_snippets(scripts: SessionDB) -> None:
    """#14829: the fallback showed the first 120 characters without marks."""
    [hit] = scripts.search_messages("超时")
    assert ">>>超时<<<" in hit["snippet"]


def test_cjk_filters_apply(scripts: SessionDB) -> None:
    """#20494."""
    assert found(scripts, "部署", source_filter=["telegram"]) == set()
    assert found(scripts, "部署", role_filter=["user"]) == {1, 9}


def test_cjk_of_other_programs_is_found_at_once(scripts: SessionDB, factory: Factory) -> None:
    """#15500: whoever wrote it."""
    insert = "INSERT INTO messages(session_id, role, content, timestamp) VALUES ('s', 'user', ?, 1)"
    with factory.raw(scripts) as other:
        new = other.execute(insert, ("新的部署方案",)).lastrowid
        assert found(scripts, "部署") == {1, 9, new}
        other.execute("UPDATE messages SET content = '完全不同' WHERE id = 1")
        other.execute("DELETE FROM messages WHERE id = 9")
    assert found(scripts, "部署") == {new}
    assert found(scripts, "完全") == {1}


# ---------------------------------------------------------------------- tools


@pytest.fixture
def tools(db: SessionDB, settle: Settle, factory: Factory) -> SessionDB:
    db.create_session("s", "cli")
    arguments = '{"command": "systemctl restart nginx", "note": "重启服务"}'
    db.append_message(
        "s",
        "assistant",
        tool_calls=[{"id": "c1", "function": {"name": "run_terminal", "arguments": arguments}}],
    )
    db.append_message("s", "tool", "unit restarted", tool_name="run_terminal", tool_call_id="c1")
    db.append_message("s", "assistant", "Done with it.")
    return settle()


@pytest.mark.parametrize(
    "query, wanted",
    [
        ("systemctl", {1}),
        ("restart nginx", {1}),
        ("重启", {1}),
        ("run_terminal", {1, 2}),
        ("terminal systemctl", {1}),
        ("restarted", {2}),
        ("systemctl OR done", {1, 3}),
    ],
)
def test_tool_calls_are_searchable(tools: SessionDB, query: str, wanted: set[int]) -> None:
    """#16751: tool activity could not be found."""
    assert found(tools, query) == wanted


def test_tool_call_snippet_shows_the_hit(tools: SessionDB) -> None:
    """#16751."""
    [hit] = tools.search_messages("nginx")
    assert ">>>nginx<<<" in hit["snippet"]


# ---------------------------------------------------------------------- whose, and when


def test_cron_does_not_flood_the_results(db: SessionDB, make: Make) -> None:
    """#16253: scheduled jobs say the same words every hour."""
    for number in range(30):
        make(f"cron{number}", "backup of the walrus done", source="cron")
    make("mine", "did the backup of the walrus work?")
    for number in range(30, 60):
        make(f"cron{number}", "backup of the walrus done", source="cron")
    hits = db.search_messages("backup walrus", limit=5)
    assert hits[0]["session_id"] == "mine"
    assert len(found(db, "backup walrus")) == 61


def test_cron_weights_can_be_chosen(db: SessionDB, make: Make) -> None:
    """#16253, #86021."""
    make("a", "the walrus", source="cli")
    make("b", "the walrus", source="telegram")
    for low, high in (("telegram", "cli"), ("cli", "telegram")):
        first = db.search_messages("walrus", source_weights={low: 0.1})[0]
        assert first["source"] == high


def test_dates_limit_the_results(db: SessionDB, make: Make, clock: Clock) -> None:
    """#19434, #53597: no date filters."""
    times = []
    for number in range(4):
        make("s", f"walrus {number}")
        times.append(clock.now)
        clock.pass_days(1)
    assert found(db, "walrus", since=times[1] + 60) == {3, 4}
    assert found(db, "walrus", until=times[1] + 60) == {1, 2}
    assert found(db, "walrus", since=times[0] + 60, until=times[2] + 60) == {2, 3}
    assert found(db, "walrus", since=times[3] + 60) == set()


def test_dates_decide_the_order_if_asked(db: SessionDB, make: Make, clock: Clock) -> None:
    """#53597."""
    for text in ("walrus walrus walrus", "a walrus among very many other words", "walrus"):
        make("s", text)
        clock.pass_days(1)
    assert [hit["id"] for hit in db.search_messages("walrus", sort="newest")] == [3, 2, 1]
    assert [hit["id"] for hit in db.search_messages("walrus", sort="oldest")] == [1, 2, 3]


def test_own_session_can_be_left_out(db: SessionDB, make: Make) -> None:
    """#86021, #51101: an agent searching its past finds the question it just asked."""
    make("old", "the walrus swims")
    make("now", "what did I say about the walrus?")
    make("helper", "the walrus again")
    assert found(db, "walrus", exclude_sessions=["now", "helper"]) == {1}
    assert found(db, "walrus", session_id="now") == {2}


def test_messages_of_sub_agents_are_found(db: SessionDB, make: Make) -> None:
    """#51101: sessions that lists hide are searched all the same."""
    make("root", "hello")
    db.create_session("helper", "cli", parent_session_id="root", relation="delegate")
    make("helper", "the walrus")
    assert [hit["session_id"] for hit in db.search_messages("walrus")] == ["helper"]


def test_filters_never_lose_rows_behind_newer_ones(db: SessionDB, make: Make) -> None:
    """#86021: only a bounded set of candidates is ranked; filters look behind it."""
    make("wanted", "the walrus of long ago", source="telegram")
    make("noise")
    db.append_messages("noise", [{"role": "user", "content": "walrus"}] * 2_500)
    assert found(db, "walrus", source_filter=["telegram"]) == {1}
    assert found(db, "walrus", exclude_sessions=["noise"]) == {1}
    assert found(db, "walrus long ago") == {1}
    pages = [db.search_messages("walrus", limit=20, offset=at) for at in (0, 1_990, 2_490)]
    assert [len(page) for page in pages] == [20, 20, 11]
