"""Search against an oracle: whatever the words, whoever wrote them, what contains them is found."""

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from hypothesis import given, settings, strategies as st

from tests.lengths import examples
from tests.support.states import Factory
from threadkeep.state.search import index_fill as drain_
from threadkeep.state.session_db import SessionDB
from threadkeep.testing import FACTORIES

TOKEN = re.compile("[a-z0-9]+|[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7a3\u0e00-\u0e7f]")
LATIN = ("alpha", "beta", "gamma", "delta", "run", "py", "error", "timeout", "x1")
UNSPACED = ("天气", "今天天气很好", "部署", "データ", "東京", "배포", "오류", "ระบบ")
JOINTS = (" ", " ", " ", "", "/", ".", "-", "_", ": ", "@", "\n", "，", "'", "\\")
TOOLS = ("terminal", "read_file", "web_search", "部署工具")


class Said(NamedTuple):
    """A message as it is written: by us, or by SQL as Hermes writes."""

    content: str | None
    role: str = "user"
    tool: str | None = None
    call: str | None = None
    by_us: bool = True

    @property
    def fields(self) -> list[str]:
        return [text.lower() for text in (self.content, self.tool, self.call) if text]


pieces = st.lists(
    st.tuples(st.sampled_from((*LATIN, *UNSPACED)), st.sampled_from(JOINTS)), min_size=1, max_size=6
)
texts = pieces.map(lambda found: "".join(word + joint for word, joint in found))
plain = st.builds(lambda text, by_us: Said(text, by_us=by_us), texts, st.booleans())
results = st.builds(
    lambda text, tool, by_us: Said(text, "tool", tool, by_us=by_us),
    texts,
    st.sampled_from(TOOLS),
    st.booleans(),
)
calls = st.builds(
    lambda text, call, by_us: Said(text, "assistant", call=call, by_us=by_us),
    st.none() | texts,
    texts,
    st.booleans(),
)
long = texts.map(lambda text: Said(f"{text} {'q ' * 17_000}"))
pictures = texts.map(lambda text: Said(f"{text} data:image/png;base64,{'QUJD' * 400}"))
messages = st.one_of(plain, plain, results, calls, long, pictures)


@pytest.fixture(scope="module")
def factory(store_engine: str) -> Iterator[Factory]:
    """Make stores for all examples of all tests here."""
    with FACTORIES[store_engine]["state"]() as factory:
        yield factory


@pytest.fixture(scope="module")
def store(factory: Factory) -> SessionDB:
    db: SessionDB = factory.open()
    db.create_session("s", "cli")
    return db


def write(factory: Factory, db: SessionDB, said: Said) -> int:
    arguments = None if said.call is None else json.dumps({"note": said.call})
    calls = arguments and [{"id": "c", "function": {"name": "0", "arguments": arguments}}]
    if said.by_us:
        return db.append_message("s", said.role, said.content, said.tool, calls)
    with factory.raw(db) as other:
        cursor = other.execute(
            "INSERT INTO messages(session_id, role, content, tool_name, tool_calls, timestamp)"
            " VALUES ('s', ?, ?, ?, ?, 1)",
            (said.role, said.content, said.tool, calls and json.dumps(calls)),
        )
        return int(cursor.lastrowid or 0)


def tokens(text: str) -> list[str]:
    return TOKEN.findall(text.lower())


def has(said: Said, term: str) -> bool:
    """The oracle: some field has the words of the term side by side."""
    words = tokens(term)
    return any(
        words == found[at : at + len(words)]
        for found in map(tokens, said.fields)
        for at in range(len(found) - len(words) + 1)
    )


def may_have(said: Said, term: str) -> bool:
    return set(tokens(term)) <= {word for field in said.fields for word in tokens(field)}


def slices(said: Said) -> st.SearchStrategy[str]:
    """What a person might copy out of a message: from the start of a word to the end of one."""
    field = st.sampled_from(said.fields)
    return field.flatmap(_slice)


def _slice(field: str) -> st.SearchStrategy[str]:
    spans = [match.span() for match in TOKEN.finditer(field)]
    places = st.tuples(st.integers(0, len(spans) - 1), st.integers(0, 3))
    return places.map(
        lambda at: field[spans[at[0]][0] : spans[min(at[0] + at[1], len(spans) - 1)][1]]
    )


def quoted(term: str) -> str:
    return f'"{term}"'


def refill(factory: Factory, db: SessionDB, corpus: list[Said], drained: int) -> dict[int, Said]:
    """Write a corpus over the remains of the last one; our index has seen the first few."""
    with factory.raw(db) as other:
        other.execute("DELETE FROM messages")
    stored = {}
    for number, said in enumerate(corpus):
        stored[write(factory, db, said)] = said
        if number + 1 == drained:
            drain_.drain(db.context)
    return stored


def found(db: SessionDB, query: str) -> set[int]:
    return {hit["id"] for hit in db.search_messages(query, limit=-1)}


def finds(db: SessionDB, query: str, wanted: set[int]) -> bool:
    """Tell whether exactly these are found; instead of nothing, words that begin so may be."""
    return not wanted or found(db, query) == wanted


@settings(max_examples=examples(40))
@given(st.data())
def test_whatever_is_copied_out_of_a_message_finds_it(
    factory: Factory, store: SessionDB, data: st.DataObject
) -> None:
    corpus = data.draw(st.lists(messages, min_size=1, max_size=8))
    stored = refill(factory, store, corpus, data.draw(st.integers(0, len(corpus))))
    wanted = data.draw(st.lists(slices(data.draw(st.sampled_from(corpus))), min_size=1, max_size=3))
    hits = found(store, " ".join(map(quoted, wanted)))
    assert {at for at, said in stored.items() if all(has(said, term) for term in wanted)} <= hits
    assert hits <= {at for at, said in stored.items() if all(may_have(said, t) for t in wanted)}


@settings(max_examples=examples(30))
@given(st.data())
def test_or_and_not_hold_over_both_indexes(
    factory: Factory, store: SessionDB, data: st.DataObject
) -> None:
    corpus = data.draw(st.lists(messages, min_size=1, max_size=8))
    stored = refill(factory, store, corpus, data.draw(st.integers(0, len(corpus))))
    word = st.sampled_from((*LATIN, "天", "部署", "배", "terminal", "file"))
    one, other, unwanted = data.draw(word), data.draw(word), data.draw(word)

    def truth(wanted: str, not_wanted: str = "") -> set[int]:
        return {
            at
            for at, said in stored.items()
            if has(said, wanted) and not (not_wanted and has(said, not_wanted))
        }

    assert finds(store, f"{one} OR {other}", truth(one) | truth(other))
    assert finds(store, f"{one} NOT {unwanted}", truth(one, unwanted))
    both = f"{one} OR {other} NOT {unwanted}"
    assert finds(store, both, truth(one) | truth(other, unwanted))


@settings(max_examples=examples(20))
@given(st.data())
def test_prefixes_find_every_word_that_begins_so(
    factory: Factory, store: SessionDB, data: st.DataObject
) -> None:
    corpus = data.draw(st.lists(messages, min_size=1, max_size=6))
    stored = refill(factory, store, corpus, data.draw(st.integers(0, len(corpus))))
    prefix = data.draw(st.sampled_from(LATIN)).encode()[: data.draw(st.integers(1, 4))].decode()
    wanted = {
        at
        for at, said in stored.items()
        if any(word.startswith(prefix) for field in said.fields for word in tokens(field))
    }
    assert found(store, f"{prefix}*") == wanted


@settings(max_examples=examples(20))
@given(st.data())
def test_changes_of_other_programs_count_at_once(
    factory: Factory, store: SessionDB, data: st.DataObject
) -> None:
    corpus = data.draw(st.lists(messages, min_size=2, max_size=6))
    stored = refill(factory, store, corpus, len(corpus))
    changed, gone = data.draw(st.permutations(sorted(stored)))[:2]
    new = data.draw(texts)
    with factory.raw(store) as other:
        other.execute("UPDATE messages SET content = ? WHERE id = ?", (new, changed))
        other.execute("DELETE FROM messages WHERE id = ?", (gone,))
    stored[changed] = stored[changed]._replace(content=new)
    del stored[gone]
    word = data.draw(st.sampled_from((*LATIN, *"天部デ배")))
    assert finds(store, word, {at for at, said in stored.items() if has(said, word)})
    unwanted = data.draw(st.sampled_from(("beta", *"天部デ배")))
    left = {at for at, said in stored.items() if has(said, word) and not has(said, unwanted)}
    assert finds(store, f"{word} NOT {unwanted}", left)


@settings(max_examples=examples(60))
@given(st.text(st.characters(exclude_categories=()), max_size=40))
def test_no_text_makes_a_search_fail(store: SessionDB, query: str) -> None:
    assert isinstance(store.search_messages(query), list)
