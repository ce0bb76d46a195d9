"""Offloading: what is moved out of a message comes back exactly, whoever looks or writes."""

import base64
import json
import logging
import random
import re
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tests.support.states import Clock, Factory
from threadkeep.base.tx import Sql
from threadkeep.errors import Invalid, NotFound, ReadOnly
from threadkeep.state import blob_migration, retention
from threadkeep.state.blob_migration import inline_blobs, offload_blobs, sweep_blobs
from threadkeep.state.check import check
from threadkeep.state.session_db import SessionDB
from threadkeep.state.side_values import (
    FIELDS,
    content_spans,
    cut,
    json_spans,
    marker,
    pack,
    read_pieces,
    rebuild,
    unpack,
)


class Stopped(Exception):
    """A crash in the middle of moving."""


NOISE = random.Random(3)


def image(size: int = 9_000) -> str:
    """Base64 of bytes that do not compress."""
    return base64.b64encode(NOISE.randbytes(size)).decode()


# ---------------------------------------------------------------------- packing and cutting

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
BASE64 = st.binary(max_size=120).map(lambda data: base64.b64encode(data).decode())
WORDS = st.lists(
    st.one_of(TEXTS, BASE64, st.sampled_from(["\\", '"', "\n", " ", "😀"])), max_size=8
)
LONG_TEXTS = st.tuples(WORDS, st.integers(1, 400)).map(lambda both: "".join(both[0]) * both[1])


def put_together(field: str, role: str, text: str, min_chars: int) -> str:
    """Cut a text and make it whole again, from nothing but what would be stored."""
    found = cut(field, role, text, min_chars)
    if found is None:
        return text
    pieces = read_pieces(json.dumps(found.pieces))
    return rebuild(found.column, pieces, {b.hash: unpack(b.codec, b.data) for b in found.blobs})


@given(st.one_of(TEXTS, BASE64, LONG_TEXTS))
def test_packed_text_is_the_text(text: str) -> None:
    blob = pack(text)
    assert unpack(blob.codec, blob.data) == text
    assert blob.size == len(text)
    assert len(blob.data) <= len(text.encode())


@given(LONG_TEXTS, st.sampled_from(["user", "tool"]), st.integers(1, 300))
def test_cut_content_comes_together_again(text: str, role: str, min_chars: int) -> None:
    assert put_together("content", role, text, min_chars) == text


VALUES = st.recursive(
    st.one_of(st.none(), st.integers(), TEXTS, LONG_TEXTS, st.text(max_size=40)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(deadline=None)
@given(VALUES, st.booleans(), st.booleans(), st.integers(1, 100))
def test_json_stays_json_on_both_levels(
    value: Any, nested: object, plain: object, min_chars: int
) -> None:
    arguments = json.dumps(value, ensure_ascii=bool(plain)) if nested else value
    calls = [{"id": "c", "function": {"name": "f", "arguments": arguments}}]
    text = json.dumps(calls, ensure_ascii=not plain)
    spans = json_spans(text, min_chars)
    assert all(end - start >= min_chars for start, end in spans)
    shortened, done = "", 0
    for start, end in spans:
        shortened += text[done:start] + marker("b2:" + "0" * 32, end - start)
        done = end
    read = json.loads(shortened + text[done:])
    if nested and isinstance(value, (list, dict)):
        left = json.loads(read[0]["function"]["arguments"])
        assert type(left) is type(value)
        assert not isinstance(value, list) or len(left) == len(value)


@pytest.mark.parametrize("field", ["tool_calls", "reasoning", "reasoning_details"])
@given(value=VALUES)
def test_cut_columns_come_together_again(field: str, value: Any) -> None:
    text = json.dumps(value)
    assert put_together(field, "assistant", text, 10) == text


def test_only_base64_leaves_the_words_of_people() -> None:
    run = image()
    text = f"see data:image/png;base64,{run} there {'word ' * 9_000}"
    found = cut("content", "user", text, 4096)
    assert found is not None
    assert found.column == text.replace(run, marker(found.blobs[0].hash, len(run)))
    assert found.blobs[0].codec == "base64"
    assert len(found.blobs[0].data) == 9_000
    assert cut("content", "user", "word " * 9_000, 4096) is None
    assert cut("content", "assistant", "short" + "a" * 4000, 4096) is None


def test_long_tool_output_keeps_its_head() -> None:
    text = "".join(f"line {number}\n" for number in range(2_000))
    found = cut("content", "tool", text, 4096)
    assert found is not None
    assert found.column is not None
    assert found.column.startswith(text[:1024] + "[blob b2:")
    assert len(found.column) < 1200
    assert cut("content", "tool", text[:8192], 4096) is None
    assert cut("content", "user", text, 4096) is None
    assert content_spans(f"{image()} {text}", "tool", 4096)[0][0] == 0


def test_arguments_stay_arguments() -> None:
    body = 'say "hi" \\ \n ü 😀 ' * 2_000
    arguments = {"path": "a.py", "content": body, "list": ["x", "y" * 9_000]}
    calls = [{"id": "c", "function": {"name": "write", "arguments": json.dumps(arguments)}}]
    found = cut("tool_calls", "assistant", json.dumps(calls), 4096)
    assert found is not None
    assert found.column is not None
    left = json.loads(json.loads(found.column)[0]["function"]["arguments"])
    assert left["path"] == "a.py"
    assert left["content"].startswith("[blob b2:")
    assert left["list"][0] == "x"
    assert left["list"][1].startswith("[blob b2:")


@pytest.mark.parametrize("text", ['["', "[" * 100_000, "{}" + " " * 9_000, '"' + "a" * 9_000])
def test_what_is_no_json_is_left_alone(text: str) -> None:
    assert cut("tool_calls", "assistant", text, 256) is None


# ---------------------------------------------------------------------- in a store


@pytest.fixture
def full(db: SessionDB) -> SessionDB:
    """An ended session with everything that is moved, an exact value too, and a running one."""
    run = image()
    big = {"content": "fn main() {}\n" * 3_000}
    calls = [{"id": "c", "function": {"name": "write", "arguments": json.dumps(big)}}]
    for name in ("done", "running"):
        db.create_session(name, "cli")
        db.append_message(name, "user", f"look: data:image/png;base64,{run} ok?")
        db.append_message(
            name,
            "assistant",
            "yes",
            tool_calls=calls,
            reasoning="thinking " * 1_000,
            reasoning_details=[{"text": "deep " * 2_000}],
            codex_reasoning_items=[{"encrypted": image()}],
            finish_reason="stop\ud800",
        )
        db.append_message(name, "tool", "output\n" * 5_000, tool_name="write", tool_call_id="c")
        db.append_message(name, "user", ["a list", {"type": "text", "text": f"with {run}"}])
        db.append_message(name, "user", "short")
    db.end_session("done", "user")
    return db


def shown(db: SessionDB) -> list[Any]:
    """Everything a caller may get to see."""
    return [
        db.get_messages("done"),
        db.get_messages("running"),
        db.get_messages_as_conversation("done"),
        db.export_all(),
    ]


def ask(factory: Factory, db: SessionDB, sql: str) -> list[tuple[Any, ...]]:
    """Ask, or change, the rows as another program does."""
    with factory.raw(db) as other:
        cursor = other.execute(sql)
        return [tuple(row) for row in cursor] if cursor.description else []


def offload(db: SessionDB, **options: Any) -> dict[str, Any]:
    return offload_blobs(db.context, **options)


def test_readers_get_everything_back_exactly(full: SessionDB) -> None:
    before = shown(full)
    done = offload(full)
    assert done["messages"] == 4
    assert done["blobs"] == 6  # the image is in two messages
    assert done["characters"] > 130_000
    assert 0 < done["bytes"] < 30_000
    assert shown(full) == before
    assert check(full.context) == []


def test_other_programs_see_markers_and_valid_json(full: SessionDB, factory: Factory) -> None:
    offload(full)
    columns = ", ".join(FIELDS)
    rows = ask(
        factory, full, f"SELECT {columns} FROM messages WHERE session_id = 'done' ORDER BY id"
    )
    assert sum(len(value or "") for row in rows for value in row) < 3_000
    content, calls = [row[0] for row in rows], json.loads(rows[1][1])
    assert content[0].startswith("look: data:image/png;base64,[blob b2:")
    assert content[0].endswith(" characters, kept by threadkeep] ok?")
    assert json.loads(calls[0]["function"]["arguments"])["content"].startswith("[blob b2:")
    assert rows[1][2:] == (None, None, None)
    assert content[4] == "short"


def test_running_sessions_are_left_alone(full: SessionDB, factory: Factory) -> None:
    before = ask(factory, full, "SELECT * FROM messages WHERE session_id = 'running'")
    offload(full)
    assert ask(factory, full, "SELECT * FROM messages WHERE session_id = 'running'") == before


def test_age_is_counted_from_the_last_message(full: SessionDB, clock: Clock) -> None:
    clock.pass_days(5)
    assert offload(full, older_than_days=6)["messages"] == 0
    assert offload(full, older_than_days=4)["messages"] == 4


def test_second_time_moves_nothing(full: SessionDB) -> None:
    before = shown(full)
    offload(full)
    assert offload(full)["messages"] == 0
    assert shown(full) == before


def test_smaller_limit_moves_more_later(full: SessionDB) -> None:
    before = shown(full)
    assert offload(full, min_chars=20_000)["messages"] == 2
    assert offload(full, min_chars=4_096)["messages"] == 3
    assert shown(full) == before
    assert check(full.context) == []


def test_limit_below_a_markers_length_is_refused(full: SessionDB) -> None:
    with pytest.raises(Invalid, match="too small"):
        offload(full, min_chars=50)


def test_blobs_come_back_for_good(full: SessionDB, factory: Factory) -> None:
    before, columns = shown(full), ask(factory, full, "SELECT * FROM messages ORDER BY id")
    blobs = ask(factory, full, "SELECT hash FROM tk_blobs")  # of exact values, which stay there
    offload(full)
    assert inline_blobs(full.context, "running") == 0
    assert inline_blobs(full.context, "done") == 4
    assert ask(factory, full, "SELECT * FROM messages ORDER BY id") == columns
    assert ask(factory, full, "SELECT count(*) FROM tk_offloaded") == [(0,)]
    assert ask(factory, full, "SELECT hash FROM tk_blobs") == blobs
    assert shown(full) == before
    assert inline_blobs(full.context) == 0
    assert check(full.context) == []


def test_blobs_of_an_unknown_session_are_not_found(full: SessionDB) -> None:
    with pytest.raises(NotFound, match="nobody"):
        inline_blobs(full.context, "nobody")


def test_small_transactions_do_the_same(full: SessionDB, monkeypatch: pytest.MonkeyPatch) -> None:
    before = shown(full)
    monkeypatch.setattr(blob_migration, "_AT_ONCE", 1)
    monkeypatch.setattr(blob_migration, "_PAGE", 1)
    assert offload(full)["messages"] == 4
    assert shown(full) == before
    assert inline_blobs(full.context) == 4
    assert shown(full) == before


def test_failure_half_way_leaves_every_message_whole(
    full: SessionDB, monkeypatch: pytest.MonkeyPatch, factory: Factory
) -> None:
    before, columns = shown(full), ask(factory, full, "SELECT * FROM messages ORDER BY id")
    rewrite, seen = blob_migration._rewrite, []

    def failing(tx: Any, message: Any, changes: Any) -> None:
        rewrite(tx, message, changes)
        seen.append(message["id"])
        if len(seen) == 3:
            raise Stopped

    monkeypatch.setattr(blob_migration, "_rewrite", failing)
    with pytest.raises(Stopped):
        offload(full)
    assert ask(factory, full, "SELECT * FROM messages ORDER BY id") == columns
    monkeypatch.setattr(blob_migration, "_AT_ONCE", 1)  # now each message is a transaction
    seen.clear()
    with pytest.raises(Stopped):
        offload(full)
    assert ask(factory, full, "SELECT count(DISTINCT message_id) FROM tk_offloaded") == [(2,)]
    assert shown(full) == before
    assert check(full.context) == []


def test_message_changed_while_it_was_packed_is_passed_by(
    full: SessionDB, monkeypatch: pytest.MonkeyPatch, factory: Factory
) -> None:
    plan = blob_migration._plan

    def slow(tx: Any, message_id: int, min_chars: int) -> Any:
        found = plan(tx, message_id, min_chars)
        if message_id == 1:
            ask(factory, full, "UPDATE messages SET content = content || '!' WHERE id = 1")
        if message_id == 4:
            ask(factory, full, "UPDATE sessions SET ended_at = NULL WHERE id = 'done'")
        return found

    monkeypatch.setattr(blob_migration, "_plan", slow)
    monkeypatch.setattr(blob_migration, "_AT_ONCE", 1)
    assert offload(full)["messages"] == 2
    assert full.get_messages("done")[0]["content"].endswith("ok?!")
    assert check(full.context) == []


def test_what_hermes_writes_over_a_marker_counts(full: SessionDB, factory: Factory) -> None:
    offload(full)
    reasoning = full.get_messages("done")[1]["reasoning"]
    ask(factory, full, "UPDATE messages SET content = 'mine' WHERE id IN (1, 2)")
    messages = full.get_messages("done")
    assert [message["content"] for message in messages[:2]] == ["mine", "mine"]
    assert messages[1]["reasoning"] == reasoning
    assert check(full.context) == []


def test_row_of_another_program_is_moved_too(full: SessionDB, factory: Factory) -> None:
    text = f"data:image/png;base64,{image()}"
    ask(
        factory,
        full,
        "INSERT INTO messages(session_id, role, content, timestamp)"
        f" VALUES ('done', 'user', '{text}', 5.0)",
    )
    assert offload(full)["messages"] == 5
    assert full.get_messages("done")[-1]["content"] == text


def test_rewound_messages_keep_their_blobs(full: SessionDB) -> None:
    offload(full)
    before = shown(full)
    full.rewind_to_message("done", 1, any_role=True)
    sweep_blobs(full.context)
    full.undo_rewind("done")
    assert shown(full) == before


def test_blobs_go_with_the_last_session_that_used_them(
    full: SessionDB, clock: Clock, factory: Factory
) -> None:
    full.end_session("running", "user")
    before = full.get_messages("running")
    offload(full)
    assert retention.delete_sessions(full.context, ["done"]) == 1
    assert full.get_messages("running") == before
    assert ask(factory, full, "SELECT count(*) FROM tk_blobs")[0][0] > 0
    clock.pass_days(100)
    assert retention.prune_sessions(full.context) == 1
    assert ask(factory, full, "SELECT count(*) FROM tk_blobs") == [(0,)]


def test_branch_of_an_offloaded_session_is_whole(full: SessionDB) -> None:
    offload(full)
    full.branch_session("done", "copy")
    ours = [(m["role"], m["content"], m["tool_calls"]) for m in full.get_messages("done")]
    assert [(m["role"], m["content"], m["tool_calls"]) for m in full.get_messages("copy")] == ours
    retention.delete_sessions(full.context, ["done"])
    assert [(m["role"], m["content"], m["tool_calls"]) for m in full.get_messages("copy")] == ours


def test_compact_makes_the_file_smaller_and_loses_nothing(db: SessionDB) -> None:
    same, done = image(150_000), [image(20_000) for _ in range(10)]
    for number, once in enumerate(done):
        db.create_session(f"s{number}", "cli")
        db.append_message(f"s{number}", "user", f"data:image/png;base64,{same}")
        db.append_message(f"s{number}", "user", f"data:image/png;base64,{once}")
        db.end_session(f"s{number}", "done")
    before = db.export_all()
    report = retention.compact(db.context, offload=True)
    assert report["moved"]["blobs"] == 11
    assert report["bytes_after"] < report["bytes_before"] / 3
    assert db.export_all() == before
    report = retention.compact(db.context)
    assert report["moved"] is None


def test_read_only_store_gives_whole_messages(full: SessionDB, factory: Factory) -> None:
    before = shown(full)
    offload(full)
    with factory.reopen(full, read_only=True) as looking:
        assert shown(looking) == before
        with pytest.raises(ReadOnly):
            inline_blobs(looking.context)


@pytest.mark.parametrize(
    "damage, said",
    [
        ("UPDATE tk_blobs SET data = x'00'", "cannot be unpacked|not as it was written"),
        ("DELETE FROM tk_blobs", "is missing"),
        ("UPDATE tk_offloaded SET pieces = '['", "note is damaged"),
        ("UPDATE tk_offloaded SET pieces = '7'", "note is damaged"),
        ("UPDATE tk_offloaded SET pieces = '[[5000,1,\"b2:0\"]]'", "does not fit"),
    ],
)
def test_lost_blob_costs_no_more_than_itself(
    full: SessionDB, caplog: pytest.LogCaptureFixture, damage: str, said: str, factory: Factory
) -> None:
    offload(full)
    ask(factory, full, damage)
    with caplog.at_level(logging.WARNING):
        messages = full.get_messages("done")
    assert "[blob b2:" in messages[0]["content"]
    assert messages[4]["content"] == "short"
    assert "message 1: content is kept apart" in caplog.text
    problems = check(full.context)
    assert any(re.search(said, problem) for problem in problems)
    assert inline_blobs(full.context) == 0


def test_a_picture_in_a_list_of_parts_is_kept_once_and_comes_back(db: SessionDB) -> None:
    picture = "data:image/png;base64," + base64.b64encode(bytes(range(256)) * 200).decode()
    parts = [
        {"type": "text", "text": "look at this"},
        {"type": "image_url", "image_url": {"url": picture}},
    ]
    db.create_session("s", "cli")
    for _ in range(5):
        db.append_message("s", "user", parts)
    assert [message["content"] for message in db.get_messages("s")] == [parts] * 5
    with db.context.db.read() as tx:
        ((blobs, size),) = tx.all(Sql("SELECT count(*), sum(length(data)) FROM tk_blobs"))
        beside = tx.value(Sql("SELECT sum(length(value)) FROM tk_exact"))
    assert blobs == 1
    assert size + beside < len(picture)
    assert db.check() == []
    db.rewind_to_message("s", db.get_messages("s")[1]["id"], any_role=True)
    db.compact()
    db.undo_rewind("s")
    assert [message["content"] for message in db.get_messages("s")] == [parts] * 5
    db.delete_session("s")
    db.compact()
    with db.context.db.read() as tx:
        assert tx.value(Sql("SELECT count(*) FROM tk_blobs")) == 0


def test_a_lost_picture_leaves_the_text(db: SessionDB, caplog: pytest.LogCaptureFixture) -> None:
    db.create_session("s", "cli")
    db.append_message(
        "s", "user", [{"type": "text", "text": "see"}, {"type": "image", "d": "A" * 9999}]
    )
    db.append_message("s", "user", "next")
    with db.context.db.write() as tx:
        tx.run(Sql("DELETE FROM tk_blobs"))
    assert [message["content"] for message in db.get_messages("s")] == ["see\n[image]", "next"]
    assert "text only" in caplog.text
    assert any("missing" in problem for problem in db.check())
