"""Our own stores as sources: what was said is read back as entries, and nothing is written."""

import json
import os
import sqlite3
import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.cli.mail_boxes import contents, make_theirs
from tests.support.chats import new_session, open_store, record, text_chunks, turn
from tests.support.mail import MailFactory, open_pair
from tests.support.states import open_state, talk
from threadkeep.base.json import decode_line
from threadkeep.errors import Damaged
from threadkeep.knowledge.records import Entry
from threadkeep.sources.chat_store import ChatSource, read_record as read_chat
from threadkeep.sources.mailboxes import MailboxSource, read_record as read_mail
from threadkeep.sources.own import SessionParser, embed, line as own_line
from threadkeep.sources.records import Harvest, Log, Source, Stamp, UserHome
from threadkeep.sources.state_store import SOURCE, StateSource, read_record as read_state
from threadkeep.testing import MailboxFactory, raw

NOBODY = UserHome(Path("/nonexistent"))
LOG = Log("x", Stamp(0, 0, 0, 0))
Seen = list[tuple[str, str, str]]


def read_all(source: Source, item: str | None = None) -> tuple[list[Entry], Harvest]:
    """Read one session of the only log as the capture does; each record alone gives the same."""
    (log,) = source.find(NOBODY)
    wanted = item or next(iter(source.items(log))).item
    parser = source.parser(log, None)
    entries: list[Entry] = []
    keys = []
    for number, (key, line) in enumerate(source.records(log, wanted)):
        assert b"\n" not in line
        (value,) = decode_line(line)
        found = parser.feed(value, line, number)
        assert source.entries(value, line, number) == found
        entries += found
        keys.append(key)
    assert len(set(keys)) == len(keys)
    assert len({entry.key for entry in entries}) == len(entries)
    assert {entry.session_id for entry in entries} <= {wanted}
    return entries, parser.harvest()


def fingerprints(source: Source) -> dict[str, str]:
    (log,) = source.find(NOBODY)
    return dict(source.items(log))


def seen(entries: list[Entry]) -> Seen:
    return [(entry.role, entry.kind, entry.text) for entry in entries]


# ---------------------------------------------------------------------- chat


def tool_turn(**output: Any) -> list[dict[str, Any]]:
    call = {"toolCallId": "c1", "toolName": "bash"}
    return [
        {"type": "start"},
        {"type": "start-step"},
        {"type": "reasoning-start", "id": "r"},
        {"type": "reasoning-delta", "id": "r", "delta": "look first"},
        {"type": "reasoning-end", "id": "r"},
        {"type": "tool-input-available", **call, "input": {"command": "ls"}},
        {"toolCallId": "c1", **output},
        {"type": "finish-step"},
        *text_chunks("two files")[1:],
    ]


@pytest.fixture
def chat_path(tmp_path: Path) -> Path:
    return tmp_path / "chat.db"


def test_chat_gives_every_kind_with_facts_and_usage(chat_path: Path) -> None:
    with open_store(chat_path) as store:
        session = new_session(store, workspace_root="/w/app", title="Files")
        store.say(session, "list them")
        reply = record(
            store, session, tool_turn(type="tool-output-available", output={"files": ["a", "b"]})
        )
        spent = {"input": 3, "output": 5, "reasoning": 2, "cache_read": 7, "cache_write": 1}
        store.record_usage(session, spent, message=reply)
    entries, harvest = read_all(ChatSource([chat_path]))
    assert seen(entries) == [
        ("user", "prompt", "list them"),
        ("assistant", "reasoning", "look first"),
        ("assistant", "tool_call", "ls"),
        ("tool", "tool_result", '{"files":["a","b"]}'),
        ("assistant", "text", "two files"),
    ]
    assert {entry.call_id for entry in entries if entry.tool == "bash"} == {"c1"}
    assert {entry.model for entry in entries if entry.role == "assistant"} == {"large"}
    facts = harvest.facts[session.id]
    assert (facts.title, facts.cwd, facts.agent, facts.model) == (
        *("Files", "/w/app", "coder"),
        "large",
    )
    (usage,) = harvest.usage
    assert (usage.key, usage.input, usage.output, usage.reasoning) == (reply, 3, 7, 2)
    assert (usage.cache_read, usage.cache_write, usage.model) == (7, 1, "large")
    (segment,) = harvest.segments
    assert segment.prompts == ["list them"]
    assert segment.tools == [("bash", "ls")]
    assert (segment.project_dir, segment.session_id) == ("app", session.id)
    assert harvest.unknown == {}


def test_what_the_user_said_in_the_middle_of_a_reply_is_the_users(chat_path: Path) -> None:
    said: list[dict[str, Any]] = [
        {"type": "text", "text": "rather in Kelvin"},
        {"type": "file", "mediaType": "image", "url": "https://example.org/t.png"},
    ]
    steering = {"type": "steering-message", "id": "u", "parts": said}
    with open_store(chat_path) as store:
        session = new_session(store)
        store.say(session, "how warm?")
        chunks = text_chunks("294 K")
        record(store, session, [*chunks[:2], steering, *chunks[2:]])
    entries, harvest = read_all(ChatSource([chat_path]))
    assert seen(entries) == [
        ("user", "prompt", "how warm?"),
        ("user", "prompt", "rather in Kelvin"),
        ("user", "note", "[image]"),
        ("assistant", "text", "294 K"),
    ]
    assert harvest.unknown == {}
    assert harvest.facts[session.id].title == ""  # what the file says of an untitled session


def test_a_failed_tool_and_a_picture_of_a_tool(chat_path: Path) -> None:
    picture = {"type": "content", "value": [{"type": "media", "data": "A" * 5000}]}
    with open_store(chat_path) as store:
        session = new_session(store)
        store.say(session, "try")
        record(store, session, tool_turn(type="tool-output-error", errorText="no such file"))
        record(store, session, tool_turn(type="tool-output-available", output=picture))
    entries, _ = read_all(ChatSource([chat_path]))
    results = [(entry.error, entry.text) for entry in entries if entry.kind == "tool_result"]
    assert results == [(True, "no such file"), (False, "[image]")]


def test_a_growing_recording_is_read_again(chat_path: Path) -> None:
    source = ChatSource([chat_path])
    with open_store(chat_path) as store:
        session = new_session(store)
        store.say(session, "tell")
        before = fingerprints(source)
        with store.record(session) as recorder:
            for chunk in text_chunks("it is done")[:4]:
                recorder.feed(chunk)
            begun = fingerprints(source)
            read_all(source)
            for chunk in text_chunks("it is done")[4:]:
                recorder.feed(chunk)
        entries, _ = read_all(source)
        assert seen(entries)[-1] == ("assistant", "text", "it is done")
        ended = fingerprints(source)
        assert len({looked[session.id] for looked in (before, begun, ended)}) == 3
        assert fingerprints(source) == ended


def test_what_was_rewound_is_a_note_and_a_branch_repeats_nothing(chat_path: Path) -> None:
    with open_store(chat_path) as store:
        session = new_session(store)
        spent = {"input": 1, "output": 1}
        asked, _ = turn(store, session, "keep this", "kept", spent)
        turn(store, session, "forget this", "forgotten", spent)
        branch = store.fork(session)
        store.say(branch, "only here")
        store.rewind(session, asked)
    source = ChatSource([chat_path])
    entries, harvest = read_all(source, session.id)
    assert [entry.kind for entry in entries] == ["prompt", "note", "note", "note"]
    assert harvest.segments[0].prompts == ["keep this"]
    copied, harvest = read_all(source, branch.id)
    assert [entry.text for entry in copied][-1] == "only here"
    assert len(copied) == 5
    assert harvest.facts[branch.id].parent_session_id == session.id
    assert harvest.segments[0].prompts == ["only here"]
    assert harvest.usage == []


def test_a_compaction_is_a_summary_and_what_it_covers_stays(chat_path: Path) -> None:
    with open_store(chat_path) as store:
        session = new_session(store)
        asked, answered = turn(store, session, "first", "one")
        store.compact(session, "they spoke of one", tail_start=None)
    with raw(chat_path) as other:  # older writers hide what a summary covers
        other.execute(
            "UPDATE chat_messages SET hidden_at = 5 WHERE id IN (?, ?)", (asked, answered)
        )
    entries, _ = read_all(ChatSource([chat_path]))
    assert seen(entries) == [
        ("user", "prompt", "first"),
        ("assistant", "text", "one"),
        ("assistant", "summary", "they spoke of one"),
    ]


def test_a_chat_file_of_the_first_contract(chat_path: Path) -> None:
    """Only the columns of the guide, JSON over several lines, snake_case inside a part."""
    with closing(sqlite3.connect(chat_path)) as file, file:
        file.executescript(
            """
            CREATE TABLE chat_sessions (id TEXT, agent TEXT, model_json TEXT, updated_at INTEGER);
            CREATE TABLE chat_messages (id TEXT, session_id TEXT, role TEXT, metadata_json TEXT,
              created_at INTEGER, updated_at INTEGER);
            CREATE TABLE chat_parts (id TEXT, message_id TEXT, session_id TEXT, "index" INTEGER,
              type TEXT, data_json TEXT, updated_at INTEGER);
            INSERT INTO chat_sessions VALUES ('s', 'a', '{"tier": "small"}', 1);
            INSERT INTO chat_messages
              VALUES ('m', 's', 'assistant', '{"usage": {"input": 4}}', 2, 2);
            INSERT INTO chat_messages VALUES ('h', 's', 'user', '{"hidden_at": 9}', 3, 3);
            INSERT INTO chat_parts VALUES ('p', 'm', 's', 0, 'tool-ls',
              '{"tool_call_id": "c",\n "state": "output-error",\n "error_text": "no"}', 2);
            INSERT INTO chat_parts VALUES ('q', 'm', 's', 1, 'text', '{"text": "\\ud800"}', 2);
            INSERT INTO chat_parts VALUES ('r', 'm', 's', 2, 'hologram', 'no JSON', 2);
            INSERT INTO chat_parts VALUES ('t', 'h', 's', 0, 'text', '{"text": "taken back"}', 3);
            """
        )
    entries, harvest = read_all(ChatSource([chat_path]))
    assert [(entry.kind, entry.call_id, entry.text) for entry in entries] == [
        ("tool_call", "c", ""),
        ("tool_result", "c", "no"),
        ("text", "", "\ufffd"),
        ("note", "", "taken back"),
    ]
    assert harvest.unknown == {"part/hologram": 1}
    assert [usage.input for usage in harvest.usage] == [4]
    assert harvest.facts["s"].model == "small"


def test_a_database_of_another_kind_has_no_sessions(chat_path: Path) -> None:
    with closing(sqlite3.connect(chat_path)) as file, file:
        file.execute("CREATE TABLE notes (text)")
    assert fingerprints(ChatSource([chat_path])) == {}
    assert fingerprints(StateSource([chat_path])) == {}
    assert list(ChatSource([chat_path.with_name("not there")]).find(NOBODY)) == []


def test_secrets_in_embedded_json_are_not_escaped_twice(chat_path: Path) -> None:
    """Who masks lines looks for `"password": "…"`, not for backslashes."""
    with open_store(chat_path) as store:
        session = new_session(store)
        store.say(session, 'he said "hello"')
    source = ChatSource([chat_path])
    (log,) = source.find(NOBODY)
    lines = [line for _, line in source.records(log, session.id)]
    assert any(b'"text":"he said \\"hello\\""' in line for line in lines)


# ---------------------------------------------------------------------- state


def test_state_gives_every_kind_with_facts_and_usage(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    call = {"id": "c1", "function": {"name": "terminal", "arguments": '{"command": "ls"}'}}
    with open_state(path) as state:
        state.create_session("parent", "cli")
        state.create_session("s", "cli", model="m1", parent_session_id="parent")
        state.set_relation("s", "parent", "delegate")
        state.set_session_title("s", "Files")
        state.append_message("s", "system", "be kind")
        state.append_message("s", "user", "list them")
        state.append_message("s", "assistant", "I look", tool_calls=[call], reasoning="hm")
        state.append_message(
            "s", "tool", '{"error": "no"}', tool_name="terminal", tool_call_id="c1"
        )
        state.append_message("s", "user", "[CONTEXT COMPACTION] so far")
        state.update_token_counts("s", 10, 5, "m1", cache_read_tokens=3, reasoning_tokens=2)
        state.update_token_counts("s", 1, 1, "m2")
    entries, harvest = read_all(StateSource([path]), "s")
    assert seen(entries) == [
        ("system", "note", "be kind"),
        ("user", "prompt", "list them"),
        ("assistant", "reasoning", "hm"),
        ("assistant", "text", "I look"),
        ("assistant", "tool_call", "ls"),
        ("tool", "tool_result", '{"error": "no"}'),
        ("user", "summary", "[CONTEXT COMPACTION] so far"),
    ]
    keys = [entry.key for entry in entries]
    assert keys[2:5] == [keys[2], f"{keys[2]}#1", f"{keys[2]}#2"]
    assert entries[5].error
    assert {entry.call_id for entry in entries if entry.tool == "terminal"} == {"c1"}
    facts = harvest.facts["s"]
    assert (facts.title, facts.model, facts.parent_session_id) == ("Files", "m1", "parent")
    assert facts.is_subagent
    used = {usage.model: usage for usage in harvest.usage}
    assert (used["m1"].input, used["m1"].output, used["m1"].cache_read) == (10, 5, 3)
    assert (used["m2"].input, used["m1"].reasoning) == (1, 2)
    assert len({usage.key for usage in harvest.usage}) == 2
    assert harvest.segments[0].tools == [("terminal", "ls")]
    assert harvest.segments[0].is_subagent


def test_state_fingerprints_change_with_what_they_stand_for(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    source = StateSource([path])
    with open_state(path) as state:
        ids = talk(state, "a", "one", "two", "three")
        talk(state, "b", "other")
        looks = [fingerprints(source)]
        for change in (
            lambda: state.append_message("a", "user", "four"),
            lambda: state.rewind_to_message("a", ids[2], any_role=True),
            lambda: state.set_session_title("a", "named"),
            lambda: state.update_token_counts("a", 1, 1, "m"),
        ):
            change()
            looks.append(fingerprints(source))
    assert len({look["a"] for look in looks}) == len(looks)
    assert len({look["b"] for look in looks}) == 1


def test_what_state_moved_away_is_read_whole_and_what_it_took_back_as_a_note(
    tmp_path: Path,
) -> None:
    path = tmp_path / "state.db"
    long = "line of output\n" * 2000
    with open_state(path) as state:
        ids = talk(state, "s", "run it", "yes")
        state.append_message("s", "tool", long, tool_name="terminal")
        state.append_message("s", "user", "no, stop")
        state.append_message("s", "assistant", "stopped")
        state.rewind_to_message("s", ids[-1] + 2, any_role=True)
        state.end_session("s", "done")
        assert state.offload_blobs()["messages"] == 1
    entries, _ = read_all(StateSource([path]))
    assert [(entry.kind, entry.text) for entry in entries] == [
        ("prompt", "run it"),
        ("text", "yes"),
        ("tool_result", long),
        ("note", "no, stop"),
        ("note", "stopped"),
    ]


@pytest.fixture
def hermes(tmp_path: Path) -> Path:
    """Make a file as newer versions of Hermes have it, and a profile beside it."""
    home = tmp_path / "hermes home"
    for place in (home, home / "profiles" / "night"):
        place.mkdir(parents=True)
        with closing(sqlite3.connect(place / "state.db")) as file, file:
            file.executescript(NEWER)
    return home


NEWER = """
CREATE TABLE schema_version (version INTEGER); INSERT INTO schema_version VALUES (22);
CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT, model TEXT, parent_session_id TEXT,
  started_at REAL, ended_at REAL, title TEXT, cwd TEXT, git_branch TEXT, rewind_count INTEGER,
  input_tokens INTEGER, output_tokens INTEGER, hidden INTEGER, something_new BLOB);
CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT, role TEXT,
  content TEXT, tool_calls TEXT, tool_name TEXT, tool_call_id TEXT, timestamp REAL,
  reasoning_content TEXT, active INTEGER DEFAULT 1, compacted INTEGER DEFAULT 0,
  observed INTEGER DEFAULT 0, _compressed_summary INTEGER DEFAULT 0);
CREATE TABLE session_model_usage (session_id TEXT, model TEXT, billing_provider TEXT, task TEXT,
  input_tokens INTEGER, output_tokens INTEGER, cache_read_tokens INTEGER, last_seen REAL);
INSERT INTO sessions VALUES ('h', 'telegram', 'big', NULL, 1.7e9, NULL, 'T', '/w/x', 'main', 0,
  9, 9, 0, x'00ff');
INSERT INTO sessions VALUES ('old', 'cli', 'small', 'h', 1.7e9, 1.8e9, NULL, NULL, NULL, 0,
  6, 7, 1, NULL);
INSERT INTO messages (session_id, role, content, timestamp, active, compacted, observed,
  _compressed_summary, reasoning_content) VALUES
  ('h', 'user', 'early question', 1.7e9, 0, 1, 0, 0, NULL),
  ('h', 'user', 'taken back', 1.7e9, 0, 0, 0, 0, NULL),
  ('h', 'user', 'others talk', 1.7e9, 1, 0, 1, 0, NULL),
  ('h', 'assistant', 'so far', 1.7e9, 1, 0, 0, 1, NULL),
  ('h', 'user', '[IMPORTANT: Background process 1 ended]', 1.7e9, 1, 0, 0, 0, NULL),
  ('h', 'user', CAST(x'00' || 'json:[{"type":"text","text":"see"},{"type":"image_url"}]' AS TEXT),
    1.7e9, 1, 0, 0, 0, NULL),
  ('h', 'assistant', 'seen', 1.7e9, 1, 0, 0, 0, 'a picture'),
  ('h', 'narrator', 'meanwhile', 1.7e9, 1, 0, 0, 0, NULL);
INSERT INTO session_model_usage VALUES ('h', 'big', 'p', '', 5, 6, 7, 1.7e9),
  ('h', 'tiny', 'p', 'title', 1, 2, 0, 1.75e9);
"""


def test_hermes_is_found_with_its_profiles(hermes: Path, tmp_path: Path) -> None:
    user = UserHome(tmp_path, {"HERMES_HOME": str(hermes)})
    found = [Path(log.path) for log in SOURCE.find(user)]
    assert found == [hermes / "profiles/night/state.db", hermes / "state.db"]
    assert SOURCE.agent == "hermes"
    assert list(SOURCE.find(UserHome(tmp_path))) == []
    hermes.rename(tmp_path / ".hermes")
    at_home = [Path(log.path) for log in SOURCE.find(UserHome(tmp_path))]
    assert at_home[1] == tmp_path / ".hermes" / "state.db"


def test_newer_columns_of_hermes_are_read(hermes: Path) -> None:
    source = StateSource([hermes / "state.db"], "hermes")
    entries, harvest = read_all(source, "h")
    assert seen(entries) == [
        ("user", "prompt", "early question"),
        ("user", "note", "taken back"),
        ("user", "note", "others talk"),
        ("assistant", "summary", "so far"),
        ("user", "note", "[IMPORTANT: Background process 1 ended]"),
        ("user", "prompt", "see\n[image]"),
        ("assistant", "reasoning", "a picture"),
        ("assistant", "text", "seen"),
    ]
    assert harvest.unknown == {"message/narrator": 1}
    facts = harvest.facts["h"]
    assert (facts.cwd, facts.git_branch, facts.agent) == ("/w/x", "main", "telegram")
    assert [(usage.model, usage.at) for usage in harvest.usage] == [
        ("big", 1_700_000_000_000),
        ("tiny", 1_750_000_000_000),
    ]
    assert harvest.segments[0].summary.startswith("Hermes session (project: /w/x)")
    _, harvest = read_all(source, "old")
    assert harvest.facts["old"].hidden
    assert [(usage.input, usage.output) for usage in harvest.usage] == [(6, 7)]


# ---------------------------------------------------------------------- mailboxes


@pytest.fixture
def boxes() -> Iterator[MailFactory]:
    with MailboxFactory() as factory:
        yield factory


def test_a_mailbox_brings_both_directions_together(boxes: MailFactory) -> None:
    pair = open_pair(boxes)
    root = pair.path.parents[1]
    pair.host.send("what is new?")
    pair.clock.forward(2)
    pair.container.send("nothing", files=[("log.txt", b"x")])
    pair.clock.forward(2)
    pair.host.note("the host restarts")
    pair.host.send("others talk", trigger=False)
    pair.host.insert_message("task", {"prompt": "water the plants", "script": None})
    pair.host.insert_message("webhook", {"source": "ci", "event": "failed"})
    pair.clock.forward(2)
    pair.container.act("install_packages", npm=["left-pad"])
    pair.container.ask("Shall I?", ["yes", "no"], title="Water?")
    source = MailboxSource([root])
    (log,) = source.find(NOBODY)
    entries, harvest = read_all(source)
    assert seen(entries)[:4] == [
        ("user", "prompt", "what is new?"),
        ("assistant", "text", "nothing\n[file log.txt]"),
        ("user", "note", "the host restarts"),
        ("user", "note", "others talk"),
    ]
    assert seen(entries)[4] == ("system", "note", "water the plants")
    assert [entry.kind for entry in entries[5:]] == ["note", "note", "text"]
    assert entries[-1].text == "Water?\nShall I?\n- yes\n- no"
    assert log.session_id == "sess-1"
    assert harvest.facts["sess-1"].agent == "ag-1"
    assert harvest.segments[0].project_dir == "ag-1"
    assert harvest.unknown == {}


def test_a_large_mailbox_is_read_in_handfuls(boxes: MailFactory) -> None:
    pair = open_pair(boxes)
    root = pair.path.parents[1]
    source = MailboxSource([root])
    (log,) = source.find(NOBODY)
    with closing(sqlite3.connect(Path(log.path) / "outbound.db")) as connection, connection:
        sql = "INSERT INTO messages_out (id, seq, timestamp, kind, content) VALUES (?, ?, ?, ?, ?)"
        for number in range(12):
            moment = f"2026-05-01 10:00:{number:02}"
            connection.execute(
                sql, (f"m{number}", 2 * number + 1, moment, "chat", "a" * 4 * 1024 * 1024)
            )
    tracemalloc.start()
    try:
        keys = [key for key, _ in source.records(log, log.session_id)]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert keys == ["session", *(f"out:m{number}" for number in range(12))]
    assert peak < 30 * 1024 * 1024  # of 48 MB of mail


def test_a_mailbox_is_read_again_only_after_new_mail(boxes: MailFactory) -> None:
    pair = open_pair(boxes)
    root = pair.path.parents[1]
    source = MailboxSource([root])
    mail = pair.host.send("one")
    looks = [fingerprints(source)]
    pair.container.claim([mail])
    pair.container.complete([mail])
    pair.host.sync()
    assert fingerprints(source) == looks[0]
    pair.container.send("two")
    looks.append(fingerprints(source))
    pair.host.send("three")
    looks.append(fingerprints(source))
    assert len({look["sess-1"] for look in looks}) == 3


def test_folders_of_nanoclaw_stay_as_they_are(tmp_path: Path) -> None:
    folder = make_theirs(tmp_path / "v2-sessions" / "ag-9" / "sess-9", inbound=1, outbound=4)
    before = contents(folder)
    entries, harvest = read_all(MailboxSource([tmp_path / "v2-sessions"], "nanoclaw"))
    assert len(entries) == 80
    assert harvest.segments[0].summary.startswith("NanoClaw session")
    assert contents(folder) == before
    assert sorted(path.name for path in folder.iterdir()) == ["inbound.db", "outbound.db"]


def test_a_hostile_folder_is_refused_and_links_lead_nowhere(
    boxes: MailFactory, tmp_path: Path
) -> None:
    pair = open_pair(boxes)
    root = pair.path.parents[1]
    (root / "loop").symlink_to(root)
    source = MailboxSource([root])
    (log,) = source.find(NOBODY)
    secret = tmp_path / "secret.db"
    (pair.path / "outbound.db").rename(secret)
    (pair.path / "outbound.db").symlink_to(secret)
    with pytest.raises(Damaged):
        list(source.items(log))
    with pytest.raises(Damaged):
        list(source.records(log, "sess-1"))


def test_odd_names_are_found_in_order(tmp_path: Path) -> None:
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/chat \xff\n.db")
    with open_store(Path(odd)) as store:
        new_session(store)
    source = ChatSource([tmp_path / "none.db", Path(odd), Path(odd)])
    assert [log.path for log in source.find(NOBODY)] == [odd]
    assert len(fingerprints(source)) == 1


# ---------------------------------------------------------------------- any record

SOURCES: list[Source] = [ChatSource([]), SOURCE, StateSource([]), MailboxSource([])]
READERS = (read_chat, read_state, read_mail)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=12,
)
EXAMPLES: list[dict[str, Any]] = [
    {
        "type": "part",
        "session": "s",
        "role": "assistant",
        "at": 1,
        "model": "m",
        "row": {
            "id": "p",
            "type": "tool-x",
            "data_json": {
                "toolCallId": "c",
                "state": "output-available",
                "input": {"command": "ls"},
                "output": [{"type": "text", "text": "a"}],
            },
        },
    },
    {"type": "part", "session": "s", "row": {"id": "p", "type": "file", "data_json": {}}},
    {
        "type": "message",
        "session": "s",
        "usage": {"input": 1, "reasoning": 2},
        "row": {"id": "m", "role": "assistant", "metadata_json": {"usage": {"input": 1}}},
    },
    {
        "type": "message",
        "session": "s",
        "row": {
            "id": 1,
            "role": "assistant",
            "content": [{"type": "text", "text": "t"}],
            "timestamp": 1.5,
            "reasoning": "r",
            "tool_calls": [{"id": "c", "function": {"name": "n", "arguments": "{}"}}],
        },
    },
    {
        "type": "session",
        "session": "s",
        "usage": [{"day": "2026-01-01", "model": "m", "input_tokens": 1}],
        "row": {"id": "s", "model_json": {"model_id": "m"}, "started_at": 1.0, "cwd": "/x"},
    },
    {
        "type": "mail",
        "session": "s",
        "direction": "in",
        "row": {
            "id": "i",
            "kind": "chat",
            "timestamp": "2026-01-01 00:00:00",
            "content": {"text": "t", "attachments": [{"name": "n"}], "options": [{"label": "l"}]},
        },
    },
]


def paths_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, (dict, list)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from paths_in(item, (*path, key))


@st.composite
def mutated(draw: st.DrawFn) -> Any:
    """Take a true record and put anything in the place of some of its values."""
    record = json.loads(json.dumps(draw(st.sampled_from(EXAMPLES))))
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from([path for path in paths_in(record) if path]))
        owner = record
        for key in path[:-1]:
            owner = owner[key]
        owner[path[-1]] = draw(values)
    return record


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=9,
)


@given(json_values.map(lambda value: json.dumps(value, indent=1)) | st.text())
def test_json_in_a_column_becomes_part_of_the_line(column: str) -> None:
    line = own_line(row={"data_json": embed(column)})
    assert b"\n" not in line
    (value,) = decode_line(line)
    try:
        wanted = json.loads(column, parse_constant=str)
    except ValueError:
        wanted = column
    assert value["row"]["data_json"] == wanted


@given(values | mutated())
def test_any_value_is_taken(record: Any) -> None:
    for reader in READERS:
        parser = SessionParser(LOG, "Any", reader)
        entries = parser.feed(record, b"", 0)
        harvest = parser.harvest()
        json.dumps([entry.text for entry in entries])
        assert all(entry.key and entry.session_id for entry in entries)
        assert all(len(name) <= 80 for name in harvest.unknown)
        assert "" not in harvest.facts


def test_a_value_too_deep_to_write_out_is_counted() -> None:
    deep: Any = "x"
    for _ in range(3000):
        deep = [deep]
    part = {"type": "tool-x", "state": "output-available", "output": deep, "input": deep}
    record = {"type": "part", "session": "s", "row": {"id": "p", "type": "tool-x"}}
    record["row"]["data_json"] = part  # type: ignore[index]
    parser = SessionParser(LOG, "Any", read_chat)
    assert parser.feed(record, b"", 0) == []
    assert parser.harvest().unknown == {"nested too deeply": 1}
    assert ChatSource([]).entries(record, b"", 0) == []


def test_unknown_types_are_counted_within_limits() -> None:
    parser = SessionParser(LOG, "Any", read_mail)
    for number in range(300):
        parser.feed({"type": f"{number}" + "x" * 200, "session": "s"}, b"", number)
    unknown = parser.harvest().unknown
    assert len(unknown) == 200
    assert {len(name) for name in unknown} == {80}
    assert parser.harvest().unknown == {}
