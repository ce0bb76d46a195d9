"""Sessions out and in: four formats, and an import that takes all of a session or nothing."""

import csv
import io
import json
from typing import Any

import pytest
from hypothesis import example, given, settings, strategies as st
from markdown_it import MarkdownIt

from tests.lengths import examples
from tests.support.chats import (
    Factory,
    new_session,
    record,
    reply,
    text_chunks,
    tool_chunks,
    turn,
)
from threadkeep.base.text import from_sql, to_sql
from threadkeep.chat.export_formats import code, fenced, inline, quoted
from threadkeep.chat.records import Session
from threadkeep.chat.store import ChatStore
from threadkeep.errors import Conflict, Damaged, Invalid, NotFound, TooLarge
from threadkeep.testing import FACTORIES, ManualClock

Json = dict[str, Any]

TRICKY = 'x"; DROP TABLE chat_parts; --'
HALF = "\ud83d"


@pytest.fixture
def other(factory: Factory) -> ChatStore:
    return factory.open(clock=ManualClock(1))


def full_session(store: ChatStore) -> Session:
    """Make a session with everything in it: tools, a rewind, a queue, a compaction, usage."""
    session = new_session(store, title='a "title"', workspace_root="/w", metadata={"k": [1]})
    turn(store, session, "first", "answer", usage={"input": 7, "output": 2})
    record(store, session, [*tool_chunks("c1"), *text_chunks("after the tool")[1:]])
    asked, _ = turn(store, session, "third", "gone")
    store.rewind(session, asked)
    store.compact(session, "what was said", tail_turns=1)
    store.enqueue(session, "waits")
    store.put_message(session, {"id": "foreign-1", "role": "assistant", "parts": [UNKNOWN]})
    return store.session(session)


UNKNOWN = {"type": "from-the-future", "n": 2**80, "s": HALF + "\x00"}


def jsonl(store: ChatStore, session: Session | str) -> list[str]:
    return list(store.export(session))


def whole(store: ChatStore) -> bool:
    """Tell whether every row has a hash, and the right one."""
    report = store.verify(adopt=False)
    return report.ok and report.checked > 0 and report.unhashed == 0


def records(lines: list[str]) -> list[Json]:
    return [json.loads(line) for line in lines]


def edited(lines: list[str], line: int, **columns: Any) -> list[str]:
    """Change columns of one row; `...` removes one."""
    record_ = json.loads(lines[line])
    for name, value in columns.items():
        record_["data"].pop(name, None)
        if value is not ...:
            record_["data"][name] = value
    return [*lines[:line], json.dumps(record_), *lines[line + 1 :]]


def add_columns(factory: Factory, store: ChatStore, *names: str) -> None:
    with factory.raw(store) as connection:
        for table in ("chat_sessions", "chat_messages", "chat_parts"):
            for name in names:
                quoted_name = '"' + name.replace('"', '""') + '"'
                connection.execute(f"ALTER TABLE {table} ADD COLUMN {quoted_name}")


# ---------------------------------------------------------------------- JSONL and JSON


def test_jsonl_is_the_raw_rows_session_then_messages_each_with_its_parts(
    store: ChatStore, factory: Factory
) -> None:
    session = full_session(store)
    found = records(jsonl(store, session))
    expected: list[Json] = []
    sql = "SELECT * FROM chat_messages WHERE session_id = ? ORDER BY created_at, id"
    (row,) = factory.rows(store, "SELECT * FROM chat_sessions WHERE id = ?", session.id)
    expected.append({"type": "session", "data": row})
    for message in factory.rows(store, sql, session.id):
        expected.append({"type": "message", "data": message})
        parts = 'SELECT * FROM chat_parts WHERE message_id = ? ORDER BY "index"'
        expected += [{"type": "part", "data": p} for p in factory.rows(store, parts, message["id"])]
    assert found == expected
    assert {"message", "part"} <= {entry["type"] for entry in found}
    assert all(isinstance(v, str) for e in found for n, v in e["data"].items() if "_json" in n)


def test_every_piece_of_jsonl_is_one_line(store: ChatStore) -> None:
    session = full_session(store)
    store.say(session, "two\nlines\u2028and\x85more")
    lines = jsonl(store, session)
    assert all(line.count("\n") == 1 and line.endswith("\n") for line in lines)
    "".join(lines).encode()  # always valid UTF-8


def test_json_nests_the_same_rows(store: ChatStore) -> None:
    session = full_session(store)
    document = json.loads("".join(store.export(session, "json")))
    flat = [{"type": "session", "data": document["session"]}]
    for entry in document["messages"]:
        flat.append({"type": "message", "data": entry["message"]})
        flat += [{"type": "part", "data": part} for part in entry["parts"]]
    assert flat == records(jsonl(store, session))


def test_a_growing_part_is_exported_as_far_as_its_chunks_came(
    store: ChatStore, factory: Factory
) -> None:
    session = new_session(store)
    with store.record(session) as recorder:
        recorder._monotonic = lambda: 0.0  # time stands still: only size decides when to fold
        recorder.feed({"type": "start", "messageId": "m"})
        recorder.feed({"type": "text-start", "id": "t"})
        recorder.feed({"type": "text-delta", "id": "t", "delta": "x" * 1000})
        recorder.feed({"type": "text-delta", "id": "t", "delta": "tail"})
        (row,) = factory.rows(store, "SELECT * FROM chat_parts")
        assert "tail" not in row["data_json"], "the row itself is behind, or this proves nothing"
        part = records(jsonl(store, session))[-1]["data"]
        assert json.loads(part["data_json"])["text"] == "x" * 1000 + "tail"
        assert part["updated_at"] > row["updated_at"]
        assert {**part, "data_json": "", "updated_at": 0} == {
            **row,
            "data_json": "",
            "updated_at": 0,
        }
        exact = "".join(store.export(session, "markdown"))
        assert "xtail" in exact
    assert json.loads(factory.rows(store, "SELECT * FROM chat_parts")[0]["data_json"])[
        "text"
    ].endswith("tail")


def test_an_export_is_one_snapshot_taken_when_it_is_asked_for(store: ChatStore) -> None:
    session = new_session(store)
    store.say(session, "before")
    pieces = store.export(session)
    store.say(session, "after")
    assert "after" not in "".join(pieces)
    assert "after" in "".join(store.export(session))


def test_a_wrong_format_or_session_is_refused_before_the_first_piece(store: ChatStore) -> None:
    session = new_session(store)
    with pytest.raises(Invalid, match=r"no export format 'xml'.*jsonl, json, csv, markdown"):
        store.export(session, "xml")
    with pytest.raises(Invalid, match="no export format"):
        store.export_all("xml")
    with pytest.raises(NotFound, match="ses_none"):
        store.export("ses_none")
    with pytest.raises(NotFound, match="ses_none"):
        store.export_all(sessions=[session, "ses_none"])


def test_export_all_is_one_stream_oldest_first_by_agent_and_archive(store: ChatStore) -> None:
    first, second, third = (new_session(store, agent=agent) for agent in ("a", "b", "a"))
    store.say(first, "touched last, yet the oldest")
    store.archive(third)

    def ids(**options: Any) -> list[str]:
        found = records(list(store.export_all(**options)))
        return [entry["data"]["id"] for entry in found if entry["type"] == "session"]

    assert ids() == [first.id, second.id, third.id]
    assert ids(agent="a") == [first.id, third.id]
    assert ids(archived=True) == [third.id]
    assert ids(archived=False) == [first.id, second.id]
    assert ids(sessions=[third, first.id]) == [third.id, first.id]
    assert list(store.export_all()) == [
        *jsonl(store, first),
        *jsonl(store, second),
        *jsonl(store, third),
    ]


def test_export_all_leaves_out_a_session_deleted_meanwhile(store: ChatStore) -> None:
    first, second = new_session(store), new_session(store)
    pieces = store.export_all()
    next(pieces)
    store.delete(second)
    assert list(pieces) == jsonl(store, first)[1:]


@pytest.mark.parametrize("format_", ["jsonl", "json"])
def test_all_sessions_can_be_moved_to_another_store(
    store: ChatStore, other: ChatStore, format_: str
) -> None:
    sessions = [full_session_with_ids(store, f"s{n}") for n in range(3)]
    report = other.import_sessions(store.export_all(format_))
    assert report.imported == [session.id for session in sessions]
    assert list(other.export_all(format_)) == list(store.export_all(format_))
    assert "".join(other.export_all(format_, agent="nobody")) == (
        "" if format_ == "jsonl" else "[]\n"
    )


def full_session_with_ids(store: ChatStore, session_id: str) -> Session:
    session = new_session(store, session_id=session_id)
    turn(store, session, "q", "a")
    return session


# ---------------------------------------------------------------------- CSV


def table(store: ChatStore, session: Session | str) -> list[dict[str, str]]:
    text = "".join(store.export(session, "csv"))
    return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))


def test_csv_has_a_line_per_part_with_its_message_and_session(store: ChatStore) -> None:
    session = full_session(store)
    found = table(store, session)
    parts = [r["data"] for r in records(jsonl(store, session)) if r["type"] == "part"]
    assert [line["id"] for line in found] == [part["id"] for part in parts]
    assert [line["data_json"] for line in found] == [part["data_json"] for part in parts]
    assert [line["index"] for line in found] == [str(part["index"]) for part in parts]
    assert {line["session.title"] for line in found} == {'a "title"'}
    assert found[0]["message.role"] == "user"
    assert found[0]["message.hidden_at"] == ""


def test_csv_keeps_messages_without_parts_and_sessions_without_messages(store: ChatStore) -> None:
    session = new_session(store)
    assert [(line["session.id"], line["message.id"]) for line in table(store, session)] == [
        (session.id, "")
    ]
    store.put_message(session, {"id": "empty", "role": "assistant", "parts": []})
    assert [(line["message.id"], line["id"]) for line in table(store, session)] == [("empty", "")]


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", "'", "＝", "＠"])
def test_csv_never_begins_a_cell_like_a_formula(store: ChatStore, start: str) -> None:
    title = f'{start}HYPERLINK("http://x")'
    found = table(store, new_session(store, title=title))
    assert found[0]["session.title"] == "'" + title


def test_csv_leaves_numbers_and_harmless_text_alone(store: ChatStore, factory: Factory) -> None:
    session = new_session(store, title="a = b")
    with factory.raw(store) as connection:
        connection.execute("UPDATE chat_sessions SET created_at = -5")
    (line,) = table(store, session)
    assert (line["session.title"], line["session.created_at"]) == ("a = b", "-5")


def test_csv_puts_columns_it_does_not_know_into_one_cell(
    store: ChatStore, factory: Factory
) -> None:
    session = new_session(store)
    add_columns(factory, store, TRICKY)
    with factory.raw(store) as connection:
        connection.execute(f'UPDATE chat_sessions SET "{TRICKY.replace(chr(34), chr(34) * 2)}" = 5')
    (line,) = table(store, session)
    assert json.loads(line["session.other_columns"]) == {TRICKY: 5}


def test_csv_of_half_a_character_is_still_text(store: ChatStore) -> None:
    session = new_session(store, title=f"a{HALF}b")
    text = "".join(store.export(session, "csv"))
    assert r"a\ud83db" in text.encode().decode()


# ---------------------------------------------------------------------- Markdown


def test_markdown_is_a_transcript_by_turn(store: ChatStore) -> None:
    session = new_session(store, title="# Plan *one*")
    store.say(session, "do it", model="acme/large")
    chunks = [
        {"type": "start-step"},
        {"type": "reasoning-start", "id": "r"},
        {"type": "reasoning-delta", "id": "r", "delta": "thinking </details>"},
        {"type": "reasoning-end", "id": "r"},
        *tool_chunks("c"),
        {"type": "tool-output-available", "toolCallId": "c", "output": "a\n````\nb"},
        *text_chunks("done")[2:],
    ]
    message_id = record(store, session, chunks, model="acme/large")
    store.record_usage(session, {"input": 3, "output": 4}, message=message_id)
    asked, _ = turn(store, session, "secret question", "secret answer")
    store.rewind(session, asked, inclusive=True)
    text = "".join(store.export(session, "markdown"))
    assert text.startswith("# \\# Plan \\*one\\*\n")
    assert "- model: `acme/large`\n" in text
    assert "- not shown: 2 hidden or queued messages\n" in text
    assert "secret" not in text
    order = [
        "## Turn 1",
        "### User · `acme/large`",
        "> do it",
        "### Assistant · `acme/large` · input 3",
    ]
    order += ["<summary>Reasoning</summary>", "**Tool** `search` · output\\-available", "> done"]
    places = [text.index(words) for words in order]
    assert places == sorted(places)
    assert "`````text\na\n````\nb\n`````" in text
    assert '"q": 1' in text
    html = [token for token in MarkdownIt("commonmark").parse(text) if token.type == "html_block"]
    assert [token.content.count("details") for token in html] == [1, 1], "one fold, one end of it"


def test_markdown_shows_parts_of_every_kind(store: ChatStore) -> None:
    session = new_session(store)
    parts = [
        {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64," + "A" * 5000},
        {"type": "source-url", "sourceId": "s", "url": "https://example.org/", "title": "<b>"},
        UNKNOWN,
        {"type": "dynamic-tool", "toolName": "t`k", "toolCallId": "c", "state": "output-error"},
        {"type": "data-compaction", "data": {"summary": "short"}},
        {"type": "text", "text": ["no text"]},
    ]
    store.put_message(session, {"id": "m", "role": "assistant", "parts": parts})
    text = "".join(store.export(session, "markdown"))
    assert "`file` · image/png · 5,022 characters" in text
    assert "`source-url` · \\<b\\> · `https://example.org/`" in text
    assert "from-the-future" in text
    assert str(2**80) in text
    assert "**Tool** ``t`k`` · output\\-error" in text
    assert "```text\nshort\n```" in text
    assert '"no text"' in text
    text.encode()


MARKDOWN = MarkdownIt("commonmark")
PIECES = [
    *("`", "``", "```", "````", "~~~", "```js\n", "<b>", "</b>", "<!--", "<?x", "<script>", "\\"),
    *("\n", "\n\n", "- ", "* ", "> ", "1. ", "1) ", "   ", "    ", "\t", "# ", "===", "---", "a"),
    *(" ", "[a]: /x", "<http://a.b>", "&lt;", "\x0c", "\r", "\u2028", "\x1b[31m", HALF),
]
hostile_markdown = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)


def tokens(text: str) -> list[Any]:
    parsed = MARKDOWN.parse(text)
    return [*parsed, *(child for token in parsed for child in token.children or [])]


@given(hostile_markdown)
@settings(max_examples=examples(500))
@example("a code span `\nover two lines ` <b> `")
@example("an escape \\` <b> `")
@example("1. a\n   ```\nends here\n```\nagain\n```\n<b>")
@example(" ```\n\n```\n<b>")
@example("```\nleft open\n<b>")
@example("~~~ `\n<b>\n~~~\n<b>")
def test_no_text_reaches_beyond_its_quote_or_becomes_html(text: str) -> None:
    document = f"## Before\n\n{quoted(text)}\n\n## After\n"
    found = tokens(document)
    outside = [token.type for token in MARKDOWN.parse(document) if token.level == 0]
    heading = ["heading_open", "inline", "heading_close"]
    kept = [kind for kind in outside if kind != "inline"]
    assert kept == [*heading[::2], "blockquote_open", "blockquote_close", *heading[::2]]
    assert [t.type for t in found if t.type in ("html_block", "html_inline")] == []
    document.encode()


@given(hostile_markdown)
def test_a_fence_holds_whatever_is_in_it(text: str) -> None:
    found = [token for token in MARKDOWN.parse(fenced(text, "text")) if token.level == 0]
    assert [token.type for token in found] == ["fence"]


@given(hostile_markdown)
def test_a_name_in_a_line_stays_in_its_line(text: str) -> None:
    for shown in (f"### {inline(text)} end", f"- x: {code(text)} end"):
        found = tokens(shown)
        assert "html_inline" not in [token.type for token in found]
        assert [t.content for t in found if t.type == "text"][-1].endswith("end")
        assert "\n" not in shown


def test_code_in_what_was_said_stays_code() -> None:
    said = "Use `<b>` so:\n```html\n<b># not a heading</b>\n```\nnot <b>this</b>"
    expected = "> Use `<b>` so:\n> ```html\n> <b># not a heading</b>\n> ```\n> not \\<b>this\\</b>"
    assert quoted(said) == expected


# ---------------------------------------------------------------------- import


def test_import_gives_the_same_session_and_the_same_export(
    store: ChatStore, other: ChatStore
) -> None:
    session = full_session(store)
    lines = jsonl(store, session)
    report = other.import_sessions(lines)
    assert (report.imported, report.ok) == ([session.id], True)
    kinds = [entry["type"] for entry in records(lines)]
    assert (report.messages, report.parts) == (kinds.count("message"), kinds.count("part"))
    assert jsonl(other, session.id) == lines
    for view in ("transcript", "model", "all"):
        assert other.ui_messages(session.id, view) == store.ui_messages(session.id, view)
    assert other.session(session.id) == session
    assert [m.id for m in other.queued(session.id)] == [m.id for m in store.queued(session.id)]
    assert whole(other)
    assert other.search("answer")


@pytest.mark.parametrize("given_as", ["lines", "text", "bytes", "byte lines", "json", "one line"])
def test_import_takes_text_in_any_form(store: ChatStore, other: ChatStore, given_as: str) -> None:
    session = full_session(store)
    lines = jsonl(store, session)
    text, document = "".join(lines), "".join(store.export(session, "json"))
    forms: dict[str, Any] = {
        "lines": io.StringIO("\n\n" + text.replace("\n", "\r\n"), newline=""),
        "text": "\ufeff" + text,
        "bytes": text.encode(),
        "byte lines": text.encode().split(b"\n"),
        "json": document.splitlines(keepends=True),
        "one line": json.dumps(json.loads(document)),
    }
    assert other.import_sessions(forms[given_as]).imported == [session.id]
    assert jsonl(other, session.id) == lines


def test_importing_again_changes_nothing(
    store: ChatStore, other: ChatStore, factory: Factory
) -> None:
    session = full_session(store)
    lines = jsonl(store, session)
    other.import_sessions(lines)
    before = factory.contents(other)
    report = other.import_sessions(lines)
    assert (report.imported, report.unchanged, report.messages) == ([], [session.id], 0)
    assert factory.contents(other) == before
    assert store.import_sessions(lines).unchanged == [session.id], "also where it came from"


def test_other_content_is_a_conflict_that_names_the_difference(
    store: ChatStore, other: ChatStore, factory: Factory
) -> None:
    session = full_session(store)
    lines = jsonl(store, session)
    other.import_sessions(lines)
    other.set_title(session.id, "renamed")
    other.say(session.id, "one more", message_id="only-here")
    before = factory.contents(other)
    report = other.import_sessions(lines)
    (conflict,) = report.conflicts
    assert not report.ok
    assert (conflict.session_id, conflict.place) == (session.id, "line 1")
    assert f"session {session.id!r}: " in conflict.reason
    assert "title" in conflict.reason
    assert "message 'only-here' is only here" in conflict.reason
    assert "replace" in conflict.hint
    with pytest.raises(Conflict, match=r"line 1: .* exists with other content"):
        report.raise_for_conflicts()
    assert factory.contents(other) == before


def test_a_conflict_does_not_keep_the_other_sessions_out(
    store: ChatStore, other: ChatStore
) -> None:
    ids = [full_session_with_ids(store, f"s{n}").id for n in range(3)]
    lines = list(store.export_all())
    other.create_session(agent="x", model="p/m", session_id=ids[1])
    report = other.import_sessions(lines)
    assert report.imported == [ids[0], ids[2]]
    assert [conflict.session_id for conflict in report.conflicts] == [ids[1]]


def test_replace_puts_the_whole_session_in_place_of_the_old_one(
    store: ChatStore, other: ChatStore
) -> None:
    session = full_session(store)
    lines = jsonl(store, session)
    other.import_sessions(lines)
    reply(other, session.id, "only in the other")
    report = other.import_sessions(lines, replace=True)
    assert (report.replaced, report.imported) == ([session.id], [])
    assert jsonl(other, session.id) == lines
    assert other.runs(session.id) == []
    assert other.import_sessions(lines, replace=True).unchanged == [session.id]
    assert whole(other)


def test_ids_that_live_in_another_session_are_left_alone(
    store: ChatStore, other: ChatStore, factory: Factory
) -> None:
    session = full_session_with_ids(store, "s")
    lines = jsonl(store, session)
    other.import_sessions(lines)
    moved = [line.replace('"s"', '"t"') for line in lines]
    before = factory.contents(other)
    for replace in (False, True):
        (conflict,) = other.import_sessions(moved, replace=replace).conflicts
        assert "belongs to session 's'" in conflict.reason
        renamed = [line.replace('"msg_', '"msg-') for line in moved]
        (conflict,) = other.import_sessions(renamed, replace=replace).conflicts
        assert "part 'prt_" in conflict.reason
    assert factory.contents(other) == before


def test_replacing_does_not_delete_what_cannot_be_replaced(
    store: ChatStore, other: ChatStore, factory: Factory
) -> None:
    lines = jsonl(store, full_session_with_ids(store, "s"))
    other.import_sessions(lines)
    mine = new_session(other, session_id="t")
    other.say(mine, "keep me")
    before = factory.contents(other)
    moved = [line.replace('"s"', '"t"') for line in lines]
    assert not other.import_sessions(moved, replace=True).ok
    assert factory.contents(other) == before


def test_a_session_that_is_being_recorded_is_not_imported(store: ChatStore) -> None:
    session = full_session_with_ids(store, "s")
    lines = jsonl(store, session)
    with store.record(session) as recorder:
        recorder.feed({"type": "text-start", "id": "t"})
        (conflict,) = store.import_sessions(lines, replace=True).conflicts
        assert "is running" in conflict.reason
        recorder.feed({"type": "text-delta", "id": "t", "delta": "still here"})
    assert store.import_sessions(lines, replace=True).replaced == ["s"]


def test_a_file_that_changes_what_it_is_given_is_refused(
    store: ChatStore, other: ChatStore, factory: Factory
) -> None:
    lines = jsonl(store, full_session_with_ids(store, "s"))
    with factory.raw(other) as connection:
        connection.execute(
            "CREATE TRIGGER theirs AFTER INSERT ON chat_parts BEGIN"
            " UPDATE chat_parts SET type = upper(type) WHERE id = new.id; END"
        )
    before = factory.contents(other)
    with pytest.raises(Damaged, match=r"was not stored as given: part 'prt_.*': type"):
        other.import_sessions(lines)
    assert factory.contents(other) == before


def test_usage_in_the_metadata_counts_and_the_sums_stay(store: ChatStore, other: ChatStore) -> None:
    session = new_session(store)
    _, answer = turn(store, session, "q", "a", usage={"input": 5, "output": 3})
    lines = edited(jsonl(store, session), 0, cost_usd=0.25)
    other.import_sessions(lines)
    assert other.session(session.id).usage == store.session(session).usage
    assert other.spend(session.id) == (store.spend(session)[0], 0.25)
    total = other.record_usage(session.id, {"output": 1}, message=answer)
    assert (total["input"], total["output"]) == (5, 4)
    assert other.session(session.id).total_tokens == 9


def test_absurd_usage_in_the_metadata_does_not_stand_in_the_way(
    store: ChatStore, other: ChatStore
) -> None:
    session = new_session(store)
    store.put_message(session, {"id": "m", "role": "assistant", "parts": []})
    usage = {"input": 2**70, "output": "many", "reasoning": -1, "cache_read": 2.0}
    lines = edited_text(jsonl(store, session), 1, metadata_json=json.dumps({"usage": usage}))
    assert other.import_sessions(lines).imported == [session.id]
    assert jsonl(other, session.id) == lines
    assert other.spend(session.id)[0]["cache_read"] == 2
    other.unrewind(session.id)  # rebuilds the sums
    assert other.session(session.id).total_tokens == 2


def test_an_import_is_in_the_event_log(store: ChatStore, factory: Factory) -> None:
    session = full_session(store)
    lines = jsonl(store, session)
    with factory.open(event_log=True) as logged:
        logged.import_sessions(lines)
        kinds = {row["kind"] for row in factory.rows(logged, "SELECT kind FROM chat_events")}
        assert kinds == {"import"}
        logged.rebuild()
        assert jsonl(logged, session.id) == lines


def test_import_never_restamps_and_order_is_by_time(
    store: ChatStore, other: ChatStore, factory: Factory
) -> None:
    session = new_session(store, session_id="s")
    for name in ("b", "a", "c"):
        store.put_message(session, {"id": name, "role": "user", "parts": []})
    with factory.raw(store) as connection:
        connection.execute("UPDATE chat_messages SET created_at = 5 WHERE id IN ('a', 'b')")
    lines = jsonl(store, session)
    shuffled = [lines[0], lines[3], lines[2], lines[1]]
    other.import_sessions(shuffled)
    assert jsonl(other, "s") == lines
    assert [m["id"] for m in other.ui_messages("s")] == ["a", "b", "c"]


def test_progress_hears_every_thousand_records_and_the_end(store: ChatStore) -> None:
    session = new_session(store)
    store.say(session, [{"type": "text", "text": str(n)} for n in range(2500)])
    lines = jsonl(store, session)
    heard: list[int] = []
    store.import_sessions(lines, progress=heard.append)
    assert heard == [1000, 2000, 2502]


def test_a_redaction_hook_sees_every_text_of_an_import(store: ChatStore, factory: Factory) -> None:
    session = new_session(store, title="hunter2", metadata={"hunter2": "hunter2"})
    store.say(session, [{"type": "text", "text": "my hunter2"}, {"type": "text", "text": "plain"}])
    lines = edited(jsonl(store, session), 0, note={"deep": ["hunter2"]})

    def redact(text: str) -> str:
        return text.replace("hunter2", "***")

    with factory.open(redact=redact) as redacted:
        redacted.import_sessions(lines)
        found = jsonl(redacted, session.id)
        assert records(found)[0]["data"]["title"] == "***"
        assert records(found)[0]["data"]["note"] == {"deep": ["***"]}
        assert "my ***" in found[2]
        assert found[3] == lines[3], "what has nothing to hide stays as it was, byte for byte"
        assert "hunter2" not in "".join(found).replace('\\"hunter2\\":', "")
        assert redacted.import_sessions(lines).unchanged == [session.id]


# ---------------------------------------------------------------------- other programs' columns


def test_columns_the_file_lacks_come_back_from_an_import(
    store: ChatStore, other: ChatStore, factory: Factory
) -> None:
    session = full_session(store)
    add_columns(factory, store, TRICKY, "color")
    with factory.raw(store) as connection:
        connection.execute("UPDATE chat_parts SET color = 'red' WHERE rowid % 2")
        connection.execute("UPDATE chat_sessions SET color = x'00ff'")
        connection.execute("UPDATE chat_messages SET color = 9e999")
    lines = jsonl(store, session)
    assert '"color":{"$base64":"AP8="}' in lines[0]
    assert other.import_sessions(lines).imported == [session.id]
    assert jsonl(other, session.id) == lines
    assert other.import_sessions(lines).unchanged == [session.id]
    other.delete(session.id)
    assert factory.rows(other, "SELECT * FROM tk_extra") == []


def test_columns_the_file_has_are_filled_again(store: ChatStore, factory: Factory) -> None:
    session = full_session(store)
    add_columns(factory, store, "color", TRICKY)
    with factory.raw(store) as connection:
        connection.execute("UPDATE chat_parts SET color = 'red' WHERE \"index\" = 0")
        connection.execute("UPDATE chat_sessions SET color = x'00ff'")
        connection.execute("UPDATE chat_messages SET color = 9e999")
    lines, before = jsonl(store, session), factory.contents(store)
    store.delete(session)
    store.import_sessions(lines)
    for name in ("chat_sessions", "chat_messages", "chat_parts"):
        assert factory.contents(store)[name] == before[name]
    assert factory.rows(store, "SELECT * FROM tk_extra") == []
    assert whole(store)


def test_a_value_that_a_column_would_change_is_kept_beside_it(
    store: ChatStore, other: ChatStore, factory: Factory
) -> None:
    session = full_session_with_ids(store, "s")
    with factory.raw(other) as connection:
        connection.execute("ALTER TABLE chat_parts ADD COLUMN n INTEGER DEFAULT 3")
    base = jsonl(store, session)
    for number, value in enumerate(("5", True, 2**70, HALF, [1], None, 7)):
        lines = edited(base, 2, n=value)
        other.import_sessions(lines, replace=True)
        assert records(jsonl(other, "s"))[2]["data"]["n"] == value, number
        assert other.import_sessions(lines).unchanged == ["s"]
    assert other.import_sessions(base).unchanged == ["s"], "the input says nothing about n"


def test_what_is_written_into_a_column_later_counts_more(
    store: ChatStore, other: ChatStore, factory: Factory
) -> None:
    session = full_session_with_ids(store, "s")
    other.import_sessions(edited(jsonl(store, session), 0, color="old"))
    add_columns(factory, other, "color")
    assert records(jsonl(other, "s"))[0]["data"]["color"] == "old"
    with factory.raw(other) as connection:
        connection.execute("UPDATE chat_sessions SET color = 'new'")
    assert records(jsonl(other, "s"))[0]["data"]["color"] == "new"


def test_rows_with_the_seeds_columns_alone_are_completed(
    store: ChatStore, other: ChatStore
) -> None:
    session = new_session(store, session_id="s")
    store.put_message(session, {"id": "m", "role": "assistant", "parts": [TOOL]})
    store.put_message(session, {"id": "u", "role": "user", "parts": [], "metadata": HIDDEN})
    lines = jsonl(store, session)
    bare = edited(lines, 0, title=..., workspace_id=..., mode=..., cost_usd=..., model_json=...)
    bare = edited(bare, 1, hidden_at=...)
    bare = edited(bare, 2, continuation_run_id=..., tool_call_id=..., tool_state=...)
    bare = edited(bare, 3, hidden_at=...)
    other.import_sessions(bare)
    assert jsonl(other, "s") == edited_text(lines, 0, model_json="{}")
    assert other.import_sessions(bare).unchanged == ["s"]


TOOL = {"type": "tool-x", "toolCallId": "c", "state": "input-available", "input": {}}
HIDDEN = {"hidden_at": 12}


@pytest.mark.parametrize("at", [2**63 - 1, 2**70, -1, 1e308, True, [1]])
def test_a_time_in_the_metadata_that_is_none_is_no_hidden_at(
    store: ChatStore, other: ChatStore, at: Any, factory: Factory
) -> None:
    session = new_session(store, session_id="s")
    store.put_message(session, {"id": "u", "role": "user", "parts": []})
    lines = edited(jsonl(store, session), 1, metadata_json=json.dumps({"hidden_at": at}))
    other.import_sessions(edited(lines, 1, hidden_at=...))
    assert factory.rows(other, "SELECT hidden_at FROM chat_messages") == [{"hidden_at": None}]
    assert other.ui_messages("s") == [], "it is hidden, only since when is unknown"
    assert other.unrewind("s") == ["u"]


def test_the_latest_time_that_is_taken_leaves_room_for_what_is_said_next(
    store: ChatStore, other: ChatStore
) -> None:
    session = new_session(store, session_id="s")
    store.say(session, "in the far future")
    last = 2**53 - 1
    lines = edited(jsonl(store, session), 0, updated_at=last, archived_at=last)
    other.import_sessions(edited(lines, 1, created_at=last, updated_at=last, hidden_at=last))
    assert other.say("s", "now").created_at == last + 1
    assert other.unrewind("s") != []


def edited_text(lines: list[str], line: int, **columns: Any) -> list[str]:
    record_ = json.loads(lines[line])
    record_["data"].update(columns)
    text = json.dumps(record_, separators=(",", ":"), ensure_ascii=False) + "\n"
    return [*lines[:line], text, *lines[line + 1 :]]


def test_a_model_that_was_null_stays_null_until_there_is_one(
    store: ChatStore, other: ChatStore
) -> None:
    lines = edited_text(jsonl(store, new_session(store, session_id="s")), 0, model_json=None)
    other.import_sessions(lines)
    assert jsonl(other, "s") == lines
    assert other.session("s").model == {}
    other.say("s", "now", model="acme/large")
    assert "acme" in records(jsonl(other, "s"))[0]["data"]["model_json"]


# ---------------------------------------------------------------------- exactness for any session

any_text = st.text(st.characters(exclude_categories=()), max_size=8)
ids = st.text(st.characters(exclude_categories=()), min_size=1, max_size=6)
times = st.integers(0, 3) | st.integers(0, 2**53 - 1)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.just(2**200) | any_text,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(any_text, inner, max_size=2),
    max_leaves=4,
)  # fmt: skip
objects = st.dictionaries(any_text, json_values, max_size=3)


def raw_json(value: st.SearchStrategy[Any]) -> st.SearchStrategy[str]:
    """JSON as other programs write it: with and without spaces, escaped and not."""
    written = st.sampled_from([None, 1]), st.booleans()
    return st.builds(lambda v, indent, pure: dumped(v, indent, pure=pure), value, *written)


def dumped(value: Any, indent: int | None, *, pure: bool) -> str:
    return json.dumps(value, indent=indent, ensure_ascii=pure)


columns = st.none() | any_text | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.binary()
OTHERS = (TRICKY, "color", "Title", "ключ", "a b")
others = st.fixed_dictionaries(dict.fromkeys(OTHERS, columns))
metadata = st.fixed_dictionaries(
    {},
    optional={
        "hidden_at": st.integers(0, 9),
        "queued_at": st.integers(0, 9),
        "usage": st.fixed_dictionaries({"input": st.integers()}),
        "x": json_values,
    },
)
parts = st.fixed_dictionaries(
    {
        "id": ids,
        "index": st.integers(0, 9),
        "type": any_text,
        "data_json": raw_json(objects),
        "tool_call_id": st.none() | any_text,
        "tool_state": st.none() | any_text,
        "created_at": times,
        "updated_at": times,
        "continuation_run_id": st.none() | any_text,
        "others": others,
    }
)
messages = st.fixed_dictionaries(
    {
        "id": ids,
        "role": st.sampled_from(["user", "assistant", "system", "tool"]),
        "metadata_json": raw_json(metadata),
        "created_at": times,
        "updated_at": times,
        "hidden_at": st.none() | times,
        "others": others,
        "parts": st.lists(parts, max_size=3, unique_by=lambda part: part["index"]),
    }
)
sessions = st.fixed_dictionaries(
    {
        "id": ids,
        "agent": any_text,
        "workspace_root": st.none() | any_text,
        "model_json": raw_json(objects),
        "permissions_json": raw_json(st.lists(json_values, max_size=2)),
        "metadata_json": raw_json(objects),
        "total_tokens": st.integers(-(2**63), 2**63 - 1),
        "cost_usd": st.floats(allow_nan=False, allow_infinity=False),
        "created_at": times,
        "updated_at": times,
        "archived_at": st.none() | times,
        "title": st.none() | any_text,
        "others": others,
        "messages": st.lists(messages, max_size=3, unique_by=lambda message: message["id"]),
    }
)


def put(connection: Any, name: str, row: Json, **more: str) -> None:
    """Write a row as a program that knows nothing of us would."""
    given_ = {**row, **more, **row["others"]}
    kept = {k: v for k, v in given_.items() if k not in ("others", "messages", "parts")}
    names = ", ".join('"' + key.replace('"', '""') + '"' for key in kept)
    values = [to_sql(value) if isinstance(value, str) else value for value in kept.values()]
    marks = ", ".join("?" for _ in values)
    connection.execute(f"INSERT INTO {name}({names}) VALUES ({marks})", values)


def fill(factory: Factory, store: ChatStore, session: Json) -> None:
    add_columns(
        factory,
        store,
        "color",
        "Title2",
        *[name for name in OTHERS if name not in ("color", "Title")],
    )
    taken: set[str] = set()
    with factory.raw(store) as connection:
        connection.execute("BEGIN")
        put(connection, "chat_sessions", session)
        for message in session["messages"]:
            put(connection, "chat_messages", message, session_id=session["id"])
            for part in message["parts"]:
                if part["id"] not in taken:
                    more = {"session_id": session["id"], "message_id": message["id"]}
                    put(connection, "chat_parts", part, **more)
                taken.add(part["id"])
        connection.execute("COMMIT")


@given(sessions)
@settings(max_examples=examples(25))
def test_any_session_comes_back_byte_for_byte(store_engine: str, session: Json) -> None:
    for row in (
        session,
        *session["messages"],
        *(p for m in session["messages"] for p in m["parts"]),
    ):
        row["others"].pop("Title", None)  # SQLite takes it for our own column
    with FACTORIES[store_engine]["chat"]() as factory:
        empty = factory.open()
        fill(factory, empty, session)
        empty.close()
        with factory.reopen(empty) as source, factory.open() as target:
            lines = list(source.export_all())
            "".join(lines).encode()
            report = target.import_sessions(lines)
            assert report.imported == [normal(session["id"])]
            assert list(target.export_all()) == lines
            assert target.import_sessions(source.export_all("json")).unchanged == report.imported
            assert whole(target)
            (stored,) = target.sessions(archived=None, ephemeral=True).items
            assert target.ui_messages(stored, "all") == source.ui_messages(stored, "all")


def normal(text: str) -> str:
    """A pair of halves in one text is one character once it was written down."""
    return from_sql(text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass"))


# ---------------------------------------------------------------------- refused input


def refused(
    factory: Factory, store: ChatStore, lines: Any, match: str, kind: type[Invalid] = Invalid
) -> Invalid:
    """Import something wrong: it must be refused whole, with a hint."""
    before = factory.contents(store)
    with pytest.raises(kind, match=match) as caught:
        store.import_sessions(lines)
    assert caught.value.hint
    assert factory.contents(store) == before
    return caught.value


@pytest.fixture
def lines(store: ChatStore) -> list[str]:
    """Line 1 is the session, 2 its message, 3 and 4 the parts of it, 5 the next message."""
    session = new_session(store, session_id="s")
    store.put_message(session, {"id": "m", "role": "assistant", "parts": [UNKNOWN, TOOL]})
    store.put_message(session, {"id": "n", "role": "assistant", "parts": [UNKNOWN]})
    return jsonl(store, session)


@pytest.mark.parametrize(
    "line, columns, match",
    [
        (0, {"id": 5}, "line 1: id must be text, not a number 5"),
        (0, {"id": ""}, "line 1: the id of the session is empty"),
        (0, {"agent": ...}, "line 1: the session has no agent"),
        (0, {"agent": None}, "line 1: agent must be text, not null"),
        (0, {"created_at": "now"}, "line 1: created_at must be a whole number"),
        (0, {"created_at": 2**63 - 1}, r"line 1: created_at must be .* 0 to 2\^53 - 1, not"),
        (0, {"prompt_tokens": 2**63}, "line 1: prompt_tokens must be .* of at most 64 bits"),
        (0, {"updated_at": -1}, "line 1: updated_at must be a whole number of epoch milli"),
        (0, {"archived_at": 2**53}, "line 1: archived_at must be a whole number of epoch milli"),
        (1, {"created_at": 2**53}, "line 2: created_at must be a whole number of epoch milli"),
        (1, {"updated_at": 2**53}, "line 2: updated_at must be a whole number of epoch milli"),
        (1, {"hidden_at": 2**53}, "line 2: hidden_at must be a whole number of epoch milli"),
        (2, {"created_at": -1}, "line 3: created_at must be a whole number of epoch milli"),
        (0, {"created_at": True}, "line 1: created_at must be .*, not a boolean True"),
        (0, {"prompt_tokens": 1.5}, "line 1: prompt_tokens must be a whole number"),
        (0, {"cost_usd": "free"}, "line 1: cost_usd must be a number"),
        (0, {"cost_usd": 10**400}, "line 1: cost_usd must be a number"),
        (0, {"model_json": {"a": 1}}, "line 1: model_json must be text that holds a JSON object"),
        (0, {"metadata_json": "{"}, "line 1: metadata_json: this is not JSON"),
        (0, {"metadata_json": "[]"}, "line 1: metadata_json must be .* object, not a list"),
        (0, {"permissions_json": "{}"}, "line 1: permissions_json must be .* array"),
        (0, {"title": ["x"]}, "line 1: title must be text, not a list"),
        (1, {"session_id": "t"}, "line 2: session_id is 't', but the session above is 's'"),
        (1, {"role": None}, "line 2: role must be text"),
        (1, {"hidden_at": "x"}, "line 2: hidden_at must be a whole number"),
        (2, {"session_id": "t"}, "line 3: session_id is 't'"),
        (2, {"message_id": "n"}, "line 3: message_id is 'n', but the message above is 'm'"),
        (2, {"index": -1}, "line 3: index must be a whole number from 0 on"),
        (2, {"index": 1}, "line 4: the index of this message 1 appears twice"),
        (2, {"data_json": "NaN"}, "line 3: data_json: this is not JSON"),
        (2, {"data_json": '"{}"'}, "line 3: data_json must be .* object, not the text '{}'"),
        (2, {"data_json": "[" * 5000}, "line 3: data_json"),
        (2, {"data_json": '{"a":' * 300 + "1" + "}" * 300}, "line 3: data_json.*256 levels"),
        (2, {"more": [[[]]] * 2, "deep": 1}, ""),
    ],
)
def test_a_wrong_column_is_refused_with_its_line(
    other: ChatStore, lines: list[str], line: int, columns: Json, match: str, factory: Factory
) -> None:
    changed = edited(lines, line, **columns)
    if match:
        refused(factory, other, changed, match)
    else:
        assert other.import_sessions(changed).ok, "what we do not know may be anything"


@pytest.mark.parametrize(
    "change, match",
    [
        (lambda x: x[1:], "line 1: a message before any session"),
        (lambda x: [x[0], x[2]], "line 2: a part before any message"),
        (lambda x: [*x[:2], x[1]], "line 3: the message id 'm' appears twice"),
        (lambda x: [*x[:4], x[2]], "line 5: the part id 'prt_.*' appears twice"),
        (lambda x: [*x[:3], x[3][:40]], "line 4: this is not JSON"),
        (lambda x: [x[0][:40]], "line 1: this is not JSON"),
        (lambda x: [*x[:2], "\n", "5\n"], "line 4: this is neither a record nor a session"),
        (lambda x: [x[0], '{"type":"usage","data":{}}'], "line 2: there is no record of type 'us"),
        (lambda x: [x[0], '{"type":["part"],"data":{}}'], "line 2: there is no record of type"),
        (lambda x: [x[0], '{"type":"part"}'], "line 2: this is neither a record"),
        (lambda x: [x[0].replace("{", '{"v":1,', 1)], "line 1: this is neither a record"),
        (lambda x: [x[0], '{"type":"part","data":[]}'], "line 2: `data` must be an object"),
        (lambda x: [x[0].replace('"id":', '"id":"x","id":')], "line 1: the key 'id' appears twice"),
        (lambda x: [x[0].replace('"data":', '"data":{},"data":')], "the key 'data' appears twice"),
        (lambda x: [x[0].encode(), b'{"type":"\xff"}'], "line 2: not UTF-8 at byte 9"),
        (lambda x: [x[0], 5], "line 2: this is a int, not text"),
        (lambda x: ["[" * 1_000_000], "nested"),
        (lambda x: ['{"type":' * 100_000], "line 1: "),
        (lambda x: ['"' + "x" * 1_000_000], "line 1: this is not JSON"),
        (lambda x: ["hello"], "line 1: this is not JSON"),
        (lambda x: ["{\n", '"session": 1\n'], "the document: this is not JSON"),
        (lambda x: ['{"session":{}}'], "line 1: this must be an object with messages and session"),
        (lambda x: ['{"session":{},"messages":{}}'], "line 1, session: the session has no id"),
        (lambda x: ['[{"session":{},"messages":[],"v":1}]'], r"line 1, \[0\]: this must be"),
    ],
)
def test_a_wrong_shape_is_refused_with_its_line(
    other: ChatStore, lines: list[str], change: Any, match: str, factory: Factory
) -> None:
    refused(factory, other, change(lines), match)


def test_a_wrong_document_is_refused_with_its_place(
    store: ChatStore, lines: list[str], factory: Factory
) -> None:
    document = json.loads("".join(store.export("s", "json")))
    store.delete("s")
    document["messages"][1]["parts"][0]["message_id"] = "m"
    refused(
        factory, store, json.dumps(document), r"line 1, messages\[1\].parts\[0\]: message_id is 'm'"
    )
    refused(
        factory, store, json.dumps(document, indent=1), r"the document, messages\[1\].parts\[0\]"
    )
    document["messages"][1]["parts"] = None
    refused(
        factory,
        store,
        [json.dumps([document])],
        r"messages\[1\].parts: this must be a list, not null",
    )


def test_sessions_before_a_wrong_one_stay_and_it_is_left_out_whole(
    store: ChatStore, other: ChatStore
) -> None:
    first, second = (full_session_with_ids(store, name) for name in ("s1", "s2"))
    good, fine = jsonl(store, first), jsonl(store, second)
    bad = edited(fine, len(fine) - 1, data_json="")
    with pytest.raises(Invalid, match=f"line {len(good) + len(bad)}: data_json"):
        other.import_sessions([*good, *bad])
    assert [session.id for session in other.sessions().items] == ["s1"]
    assert other.import_sessions([*good, *fine]).unchanged == ["s1"]


def test_what_is_too_large_is_refused_before_it_is_read(lines: list[str], factory: Factory) -> None:
    with factory.open(part_limit=1000) as small:
        assert small.import_sessions(lines).imported == ["s"]
        small.delete("s")
        long = json.dumps({"type": "text", "text": "x" * 1000})
        refused(
            factory, small, edited(lines, 2, data_json=long), "line 3: data_json has 1,", TooLarge
        )
        refused(factory, small, edited(lines, 0, title="x" * 1001), "line 1: title has", TooLarge)
        refused(
            factory,
            small,
            edited(lines, 0, more="x" * 1001),
            "line 1: the unknown columns have",
            TooLarge,
        )
        refused(factory, small, [*lines, "x" * 100_000], "line 7: 100,000 characters", TooLarge)


def test_names_of_columns_are_never_taken_for_sql(other: ChatStore, lines: list[str]) -> None:
    names = ["rowid", "oid", "ID", "", "id)--", TRICKY, '"', "\x00", HALF, "a" * 5000, "tk_extra"]
    hostile = edited(lines, 2, **{name: f"value of {name[:9]}" for name in names})
    assert other.import_sessions(hostile).imported == ["s"]
    found = records(jsonl(other, "s"))
    assert found[2]["data"] == json.loads(hostile[2])["data"]
    assert len(found) == len(lines)


def test_nothing_to_import_is_nothing(other: ChatStore) -> None:
    for nothing in ([], "", b"\n\n", ["  \n"], "[]"):
        assert other.import_sessions(nothing).imported == []


def test_a_session_of_many_lines_is_taken_in_one_go(other: ChatStore) -> None:
    session = {"id": "s", "agent": "a", "created_at": 1, "updated_at": 1}
    message = {"id": "m", "session_id": "s", "role": "user", "created_at": 1, "updated_at": 1}
    part = {"message_id": "m", "session_id": "s", "type": "text", "data_json": "{}"}
    made = [{"type": "session", "data": session}, {"type": "message", "data": message}]
    made += [
        {
            "type": "part",
            "data": {**part, "id": f"p{n}", "index": n, "created_at": 1, "updated_at": 1},
        }
        for n in range(5000)
    ]
    assert other.import_sessions(map(json.dumps, made)).parts == 5000
