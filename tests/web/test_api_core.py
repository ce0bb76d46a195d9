"""The parts of the API that need no server: requests read strictly, pages, the description."""

import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from threadkeep.base.page import Page, page_before, page_of, read_cursor, write_cursor
from threadkeep.base.verb_table import Given
from threadkeep.errors import Invalid
from threadkeep.verbs import TABLES
from threadkeep.web.api import DESCRIBED
from threadkeep.web.api.endpoints import Unfit, read_address, read_body
from threadkeep.web.api.openapi import document

KEYS = st.tuples(st.integers(0, 5), st.text(max_size=3))


class Sample(Given, frozen=True):
    name: str
    count: int | None = None
    share: float = 0.0
    plain: bool = False
    tags: tuple[str, ...] = ()


NEW_CHAT: Any = TABLES["chat"]["create_session"].body
PRUNE: Any = TABLES["chat"]["prune"].body
NEW_MESSAGES: Any = TABLES["state_sessions"]["append"].body


def all_pages(ask: Callable[[int, str], Page[Any]], limit: int) -> list[Any]:
    items, cursor = [], ""
    while True:
        page = ask(limit, cursor)
        assert len(page.items) <= limit
        items += page.items
        if page.next is None:
            return items
        assert page.items
        cursor = page.next


# ---------------------------------------------------------------------- what a request says


def test_an_address_is_read_into_the_types_that_are_wanted() -> None:
    pairs = [("count", "-3"), ("share", "1e2"), ("plain", "true"), ("tags", "a"), ("tags", "1")]
    found = read_address(Sample, pairs, {"name": "12"})
    assert found == Sample(name="12", count=-3, share=100.0, plain=True, tags=("a", "1"))


@pytest.mark.parametrize(
    "pair, told",
    [
        (("count", "1.5"), "count"),
        (("count", ""), "count"),
        (("count", "null"), "count"),
        (("count", "٣"), "count"),
        (("share", "nan"), "share"),
        (("plain", "1"), "plain"),
        (("other", "x"), "'other'"),
        (("name", "twice"), "'name' was given twice"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_name(pair: tuple[str, str], told: str) -> None:
    with pytest.raises(Invalid, match=re.escape(told)) as caught:
        read_address(Sample, [("name", "x"), pair], {})
    assert caught.value.http_status == 400


def test_what_is_missing_is_named() -> None:
    with pytest.raises(Invalid, match="name"):
        read_address(Sample, [], {})


def test_a_body_is_refused_with_the_place_of_what_is_wrong() -> None:
    with pytest.raises(Invalid, match="not JSON") as caught:
        read_body(NEW_CHAT, b"{not json")
    assert caught.value.http_status == 400
    with pytest.raises(Unfit, match=re.escape("messages[1].role: Expected `str`")):
        read_body(NEW_MESSAGES, b'{"messages":[{"role":"user"},{"role":7}]}')
    with pytest.raises(Unfit, match="unknown field `extra`"):
        read_body(NEW_CHAT, b'{"agent":"a","model":"m","extra":1}')


def test_a_whole_number_may_be_written_with_a_point_and_nothing_else_changes() -> None:
    raw = b'{"messages":[{"role":"user","token_count":8.0,"content":{"kept":8.0}}]}'
    (message,) = read_body(NEW_MESSAGES, raw).messages
    assert type(message.token_count) is int
    assert type(message.content["kept"]) is float
    assert read_body(PRUNE, b'{"before":1e3}').before == 1000
    with pytest.raises(Unfit, match="token_count"):
        read_body(NEW_MESSAGES, b'{"messages":[{"role":"user","token_count":8.5}]}')


def test_a_half_character_is_text_like_any_other() -> None:
    assert read_body(NEW_CHAT, b'{"agent":"\\ud800","model":"m"}').agent == "\ud800"


# ---------------------------------------------------------------------- pages


@given(st.sets(KEYS, max_size=12), st.integers(1, 4), st.booleans())
def test_pages_put_together_are_the_list(
    keys: set[tuple[int, str]],
    limit: int,
    newest_first: bool,  # noqa: FBT001
) -> None:
    def ask(size: int, cursor: str) -> Page[tuple[int, str]]:
        return page_of(keys, lambda key: key, size, cursor, newest_first=newest_first)

    assert all_pages(ask, limit) == sorted(keys, reverse=newest_first)


@given(st.sets(KEYS, min_size=3, max_size=12), KEYS)
def test_a_page_goes_on_behind_what_is_gone(keys: set[tuple[int, str]], new: Any) -> None:
    first = page_of(keys, lambda key: key, 2, None)
    shown = first.items
    rest = page_of((keys - {shown[-1]}) | {new}, lambda key: key, 50, first.next)
    assert list(rest.items) == sorted(key for key in (keys | {new}) if key > shown[-1])


@given(st.sets(st.tuples(st.integers(0, 3), st.integers(0, 99)), max_size=20), st.integers(1, 5))
def test_pages_of_what_is_fetched_lose_nothing_of_one_time(
    keys: set[tuple[int, int]], limit: int
) -> None:
    ordered = sorted(keys, reverse=True)

    def fetch(before: int | None, count: int) -> list[tuple[int, int]]:
        return [key for key in ordered if before is None or key[0] < before][:count]

    def ask(size: int, cursor: str) -> Page[tuple[int, int]]:
        return page_before(fetch, lambda key: key, size, cursor)

    assert all_pages(ask, limit) == ordered


@given(st.lists(st.integers(-(2**53), 2**53) | st.text(), max_size=4))
def test_a_cursor_is_read_as_it_was_written(key: list[Any]) -> None:
    assert read_cursor(write_cursor(key), *map(type, key)) == key


@given(st.text(max_size=30))
def test_what_is_no_cursor_is_refused(text: str) -> None:
    try:
        found = read_cursor(text, int, str)
    except Invalid:
        return
    assert [type(part) for part in found] == [int, str]


# ---------------------------------------------------------------------- the table, the description


def test_every_verb_has_a_name_and_an_address_of_its_own() -> None:
    assert len({one.name for one in DESCRIBED}) == len(DESCRIBED)
    assert len({(one.method, one.path) for one in DESCRIBED}) == len(DESCRIBED)
    for one in DESCRIBED:
        named = set(re.findall(r"\{(\w+)\}", one.path))
        assert named <= set(one.asked.__struct_fields__), one.path
        assert one.summary.endswith("."), one.path


def test_what_deletes_only_says_so_unless_it_is_told_otherwise() -> None:
    kinds = [one.asked for one in DESCRIBED] + [one.body for one in DESCRIBED]
    dry = [kind for kind in kinds if "dry_run" in getattr(kind, "__struct_fields__", ())]
    assert len(dry) == 8
    for kind in dry:
        defaults = {one.name: one.default for one in msgspec.structs.fields(kind)}
        assert defaults["dry_run"] is True


def test_the_description_names_every_verb_and_refers_to_nothing_that_is_missing() -> None:
    found = document(DESCRIBED, "1.2.3")
    methods = {(method.upper(), path) for path, verbs in found["paths"].items() for method in verbs}
    assert methods == {(one.method, f"/api{one.path}") for one in DESCRIBED}
    text = msgspec.json.encode(found).decode()
    for group, name in set(re.findall(r'"#/components/(\w+)/([^"]+)"', text)):
        assert name in found["components"][group], name
    assert "threadkeep." not in "".join(found["components"]["schemas"])
    assert found["security"] == [{"token": []}]
