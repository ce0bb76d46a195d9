"""The session store answers alike on both engines: what is found, its order, what is refused."""

import json
import random
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import pytest

from tests.support.postgres_stores import PostgresStateFactory, use_server
from tests.support.states import Clock
from threadkeep.errors import ThreadkeepError
from threadkeep.state.search.index_fill import drain
from threadkeep.state.session_db import SessionDB
from threadkeep.testing import StateFactory

TEXT: Final = """
    alpha beta gamma delta the run running timeout error: docker deploy gateway/run.py v1.2.3
    user@host.example naïve résumé Straße chat-send my_function x1 007 今天天气很好 部署 データ
    東京 배포 오류 ระบบ 漢字かな 😀 海象在游泳
"""
WORDS: Final = TEXT.split()
TOOLS: Final = ("terminal", "read_file", "web_search", "部署工具")
QUERIES: Final = (
    *("alpha", "the", "run", "runn*", "deploy*", "docker deploy", "alpha NOT beta", "x1"),
    *("alpha OR gamma", '"alpha beta"', "gateway/run.py", "error: timeout", "chat-send"),
    *("résumé", "RESUME", "straße", "user@host.example", "v1.2.3", "my_function", "nowhere"),
    *("天气", "今天天气", "部署", "東京", "データ", "배포", "오류", "ระบบ", "漢字", "😀", "海象"),
    *("部署 alpha", "terminal", "read_file alpha", "部署工具", "walrus", "firstword", "lastword"),
    *('"docker deploy" OR 部署', "%", "it's (broken", "NOT", "*", "alpha beta gamma delta"),
)


class Pair(NamedTuple):
    """The same store on SQLite and on PostgreSQL."""

    sqlite: SessionDB
    postgres: SessionDB

    def both(self, ask: Callable[[SessionDB], Any]) -> Any:
        """Ask both, and give the answer that they agree on."""
        here, there = told(ask, self.sqlite), told(ask, self.postgres)
        assert there == here
        return here

    def search(self, query: str, **options: Any) -> Any:
        """Search both."""
        return self.both(lambda db: db.search_messages(query, **options))


def told(ask: Callable[[SessionDB], Any], db: SessionDB) -> Any:
    """Return an answer, or the kind of the refusal."""
    try:
        return ask(db)
    except (ThreadkeepError, ValueError, TypeError) as error:
        return type(error).__name__


@pytest.fixture
def pair(server_url: str) -> Iterator[Pair]:
    use_server(server_url)
    with StateFactory() as files, PostgresStateFactory() as servers:
        yield Pair(files.open(clock=Clock()), servers.open(clock=Clock()))


def fill(db: SessionDB) -> None:
    """Write a few sessions with all that a message may have; one half of it is indexed."""
    chance = random.Random(19)

    def text() -> str:
        return " ".join(chance.choice(WORDS) for _ in range(chance.randint(1, 14)))

    for number in range(6):
        session = f"s{number}"
        db.create_session(session, "cron" if number == 5 else "cli", model=f"m{number % 2}")
        for turn in range(30):
            role = ("user", "assistant", "tool")[turn % 3]
            call = [{"id": "c", "function": {"name": "f", "arguments": json.dumps({"q": text()})}}]
            db.append_message(
                session,
                role,
                text(),
                tool_name=chance.choice(TOOLS) if role == "tool" else None,
                tool_calls=call if role == "assistant" and turn % 2 else None,
            )
        if number == 2:
            drain(db.context)
    picture = f"the walrus data:image/png;base64,{'QUJD' * 400}"
    long = " ".join(["firstword", *(f"w{n}" for n in range(4_000)), "lastword"])
    db.append_messages(
        "s0", [{"role": "user", "content": picture}, {"role": "tool", "content": long}]
    )
    db.end_session("s1", "compression")
    db.create_session("s6", "cli", parent_session_id="s1")
    db.append_message("s6", "user", "alpha goes on")
    db.set_session_title("s0", "The gateway")
    db.set_session_title("s2", "the gateway #2")
    db.update_token_counts(
        "s0", input_tokens=7, output_tokens=2, model="m1", estimated_cost_usd=0.5
    )


def test_hits_and_their_order_are_equal(pair: Pair) -> None:
    for db in pair:
        fill(db)
    found = {query: pair.search(query, limit=25) for query in QUERIES}
    assert sum(map(bool, found.values())) > len(QUERIES) * 0.7
    for db in pair:
        db.reindex()
    assert {query: pair.search(query, limit=25) for query in QUERIES} == found
    narrowed: list[dict[str, Any]] = [
        {"role_filter": ["user"]},
        {"source_filter": ["cron"]},
        {"exclude_sources": ["cron"], "sort": "oldest"},
        {"sort": "newest", "offset": 3},
        {"session_id": "s3"},
    ]
    for options in narrowed:
        pair.search("alpha", limit=-1, **options)


def test_what_changed_after_it_was_indexed_is_found_as_it_is(pair: Pair) -> None:
    for db in pair:
        fill(db)
        db.reindex()
        db.rewind_to_message("s3", 91)
        db.delete_session("s4")
        db.replace_messages("s5", [{"role": "user", "content": "alpha 部署 once more"}])
    for query in ("alpha", "部署", "timeout", "alpha NOT timeout"):
        pair.search(query, limit=-1)
    for db in pair:
        drain(db.context)
    for query in ("alpha", "部署", "timeout", "alpha NOT timeout"):
        pair.search(query, limit=-1)
    assert pair.both(lambda db: db.check()) == []


def test_lists_sums_and_exports_are_equal(pair: Pair) -> None:
    for db in pair:
        fill(db)
    pair.both(lambda db: db.list_sessions_rich(limit=50))
    pair.both(lambda db: db.list_sessions_rich(limit=2, offset=1, order_by_last_active=True))
    pair.both(lambda db: db.get_next_title_in_lineage("The gateway"))
    pair.both(lambda db: db.resolve_session_by_title("the gateway"))
    pair.both(lambda db: db.get_compression_tip("s1"))
    pair.both(lambda db: db.get_messages_as_conversation("s0"))
    pair.both(lambda db: list(map(str, db.usage())))
    pair.both(lambda db: db.session_count_by_source())
    exported = pair.both(lambda db: list(db.iter_export()))
    for db in pair:
        db.delete_sessions([f"s{number}" for number in range(7)])
        assert db.message_count() == 0
    pair.both(lambda db: db.import_sessions(exported))
    pair.both(lambda db: list(db.iter_export()))
    pair.both(lambda db: db.set_session_read("s0", read=True))  # from here on answers are today's
    pair.both(lambda db: db.get_session("s0"))
    pair.both(lambda db: db.get_messages("s0", limit=3))
    pair.both(lambda db: db.prune_sessions(0, include_active=True, dry_run=True))


HOSTILE: Final[list[Any]] = [
    "nul \0 inside",
    "half \ud83d of a pair",
    "\udcff",
    "\uf8ff0000 and \uf8ff",
    "x" * 3_000_000,
    "é😀" * 200_000,
    2**63,
    -(2**70),
    2**53 + 1,
    1e308,
    float("nan"),
    b"bytes \xff\0",
    ["a list", {"with": [1, None, "\ud800"]}],
    {"deep": [[[["x"]]]]},
    "%s %(name)s {braces} '; DROP TABLE messages; --",
    "",
]


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: repr(value)[:24])
def test_hostile_values_come_back_or_are_refused_alike(pair: Pair, value: Any) -> None:
    for db in pair:
        db.create_session("s", "cli")
    pair.both(lambda db: db.append_message("s", "user", value))
    if isinstance(value, int):  # a column for numbers takes texts in a file only
        pair.both(lambda db: db.append_message("s", "user", "x", token_count=value))
    pair.both(lambda db: db.append_message("s", "assistant", "x", reasoning_details=value))
    pair.both(lambda db: db.set_session_title("s", value) if isinstance(value, str) else None)
    pair.both(lambda db: db.update_system_prompt("s", value) if isinstance(value, str) else None)
    user = value[:500] if isinstance(value, str) else value  # an index of a server takes so much
    pair.both(lambda db: db.create_session(str(value)[:200], "cli", user_id=user))
    pair.both(lambda db: [repr(message["content"]) for message in db.get_messages("s")])
    pair.both(lambda db: repr(db.get_session("s")))
    pair.both(lambda db: db.search_messages(str(value)[:500]))
    pair.both(lambda db: list(db.iter_export()))
    assert pair.both(lambda db: db.check()) == []


# ---------------------------------------------------------------------- characters

# What a text of PostgreSQL cannot hold, what stands for it there, and what looks like one of them.
CHARACTERS: Final = (
    *("\0", "\ud83d", "\udc00x", "\ud83d\udc00", "\ud83d\ud83d\udc00\udc00", "\uf8ff0000"),
    *("\\u0000", "\\\0", "\\\\ud83d\udc00", '"\\', "\U0001f600"),
)


@pytest.mark.parametrize("odd", CHARACTERS, ids=ascii)
def test_whatever_a_session_says_of_its_model_it_is_listed_and_deleted(
    pair: Pair, odd: str
) -> None:
    for db in pair:
        for name in ("parent", "other"):
            db.create_session(name, "cli")
        marks = {"sub": "_delegate_from", "branch": "_branched_from"}
        for name, mark in marks.items():
            config = {"said": odd, odd: [odd], mark: "parent"}
            db.create_session(name, "cli", parent_session_id="parent", model_config=config)
        db.create_session("lost", "cli", model_config={"_delegate_from": f"not {odd}"})
        raw = json.dumps({"said": odd}, ensure_ascii=False)
        db.update_session_meta("other", raw)
    said = pair.both(lambda db: db.get_session_model_config_value("other", "said"))
    assert said == json.loads(json.dumps(odd))
    assert pair.both(lambda db: sorted(one["id"] for one in db.list_sessions_rich())) == [
        *("branch", "other", "parent")
    ]
    assert pair.both(lambda db: db.get_session_delete_targets("parent")) == ["parent", "sub"]
    pair.both(lambda db: db.get_session("sub"))
    assert pair.both(lambda db: db.delete_sessions(["other"])) == 1
    assert pair.both(lambda db: db.delete_sessions(["parent"])) == 1
    assert pair.both(lambda db: db.get_session("sub")) is None
    assert pair.both(lambda db: db.get_session("branch")) is not None


@pytest.mark.parametrize("odd", ["\uf8ff0000", "\\u0000", "\U0001f600"], ids=ascii)
def test_a_mark_names_a_parent_of_any_characters(pair: Pair, odd: str) -> None:
    parent = f"of {odd}"
    for db in pair:
        db.create_session(parent, "cli")
        config = {"_branched_from": parent}
        db.create_session("branch", "cli", parent_session_id=parent, model_config=config)
    family = pair.both(lambda db: db.get_lineage(parent))
    assert [one["relation"] for one in family][1:] == ["branch"]


@pytest.mark.parametrize("asked", ["id_query", "search_query"])
@pytest.mark.parametrize("text", ["\0", "B", "_%", "\ud83d", "-", "s-" * 40_000], ids=len)
def test_part_of_an_id_finds_a_session(pair: Pair, text: str, asked: str) -> None:
    names = ["s-a_%b", "s-ab"]
    for db in pair:
        for name in names:
            db.create_session(name, "cli")
            db.set_session_title(name, name)
    given: dict[str, Any] = {asked: text, "order_by_last_active": True}
    rows = pair.both(lambda db: db.list_sessions_rich(**given))
    found = {name for name in names if text.lower() in name}
    assert {row["id"] for row in rows} == found
    rows = pair.both(lambda db: db.search_sessions_by_id(text))
    assert {row["id"] for row in rows} == found
