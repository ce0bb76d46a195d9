"""What becomes of a call that arrives twice: each verb that writes says so in the table."""

import json
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

import threadkeep
from tests.web.site import captured_home
from threadkeep.base.verb_table import SAME, Verb, plain
from threadkeep.chat.store import ChatStore
from threadkeep.client import Line, RemoteStore
from threadkeep.errors import ThreadkeepError, Unreachable
from threadkeep.home.home import Home
from threadkeep.home.mailboxes import NamedMailboxes
from threadkeep.home.stores import Stores
from threadkeep.state.named_sessions import NamedSessions, NewMessage
from threadkeep.state.session_db import SessionDB
from threadkeep.testing.clock import NOON, ManualClock
from threadkeep.testing.factories import contents
from threadkeep.verbs import OWNERS, TABLES


class Case(NamedTuple):
    """What one verb is tried on."""

    session: str
    first: Any  # the first thing that the user said in it, and the last
    second: Any
    exported: tuple[str, ...] = ()

    @property
    def other(self) -> str:
        """Another session."""
        return f"other-{self.session}"


_SAID: Final = [{"role": "user", "content": "once more"}]
# What verbs are given by the names of their arguments, and some by their own.
GIVEN: Final[dict[str, Any]] = {
    "session": lambda case: case.session,
    "session_id": lambda case: case.session,
    "session_ids": lambda case: [case.session],
    "message": lambda case: case.second,
    "message_row_id": lambda case: case.second,
    "row_id": lambda case: case.second,
    "target_message_id": lambda case: case.second,
    "since_message_id": lambda case: case.second,
    "message_id": lambda case: case.second,
    "idempotency_key": lambda case: case.session,
    "parent_id": lambda case: case.other,
    "source": "cli",
    "agent": "helper",
    "model": "m",
    "title": lambda case: f"Tides of {case.session}",
    "text_or_parts": "How high is the tide?",
    "text": "How high is the tide?",
    "changes": {"high": 4},
    "patch": {"high": 4},
    "rules": [{"permission": "bash", "pattern": "*", "action": "allow"}],
    "usage": {"input": 3},
    "summary": "High water.",
    "permission": "bash",
    "target": "ls",
    "body": "You know the tides.",
    "before": 1,
    "end_reason": "done",
    "system_prompt": "You know the tides.",
    "relation": "branch",
    "model_config_json": "{}",
    "provider": "acme",
    "base_url": "https://acme.example",
    "role": "user",
    "content": "second",
    "api_content": "second, sent",
    "display_kind": "plain",
    "messages": _SAID,
    "compacted_messages": _SAID,
    "user_ordinal": -1,
    "emoji": "👍",
    "cooldown_until": NOON / 1000 + 60,
    "snapshot": None,
    "streak": 3,
    "count": 3,
    "deadline": NOON / 1000 + 60,
    "session_key": lambda case: f"key-{case.session}",
    "session_keys": lambda case: [f"key-{case.session}"],
    "holder": "worker",
    "backend_id": "b1",
    "pid": 1,
    "started_at": NOON / 1000,
    "max_age_seconds": 3600,
    "max_idle_seconds": 3600,
    "provenance": "test",
    "cwd": "/srv/harbor",
    "generation": 1,
    "cwd_to_root": {"/srv/harbor": "/srv"},
    "new_session_id": lambda case: f"{case.session}-child",
    "child_session_id": lambda case: f"{case.session}-child",
    "parent_session_id": lambda case: case.session,
    "task": "titles",
    "key": "tide",
    "value": "high",
    "platform": "telegram",
    "error": "no answer",
    "entry_json": "{}",
    "entries": {"key": "{}"},
    "orphan_id": lambda case: case.session,
    "donor_id": lambda case: case.other,
    "chat_id": "c1",
    "user_id": "u1",
    "thread_id": lambda case: f"t-{case.session}",
    "older_than_days": 30,
    "idle_days": 30,
    "workspaces_root": "/srv",
    "pinned": True,
    "hidden": True,
    "enabled": True,
    "question": "how high was the tide",
    "about": "tides",
    "query": "tides",
}

# What a verb is given beside that, or instead: what makes it do something.
OWN: Final[dict[str, dict[str, Any]]] = {
    "chat.create_session": {"session_id": lambda case: f"{case.session}-new"},
    "chat.change": {"title": "Low water", "metadata": {"high": 4}, "archived": True},
    "chat.say": {"message_id": lambda case: f"{case.session}-said"},
    "chat.enqueue": {"message_id": lambda case: f"{case.session}-said"},
    "chat.put_message": {
        "ui_message": lambda case: {
            "id": f"{case.session}-put",
            "role": "user",
            "parts": [{"type": "text", "text": "high"}],
        }
    },
    "chat.record_usage": {"cost_usd": 0.5},
    "chat.import_sessions": {"lines": lambda case: case.exported},
    "chat.prune": {"before": NOON * 2, "dry_run": False},
    "chat.delete": {"dry_run": False},
    "chat.compact_log": {"before": NOON * 2},
    "state.create_session": {"session_id": lambda case: f"{case.session}-new"},
    "state.ensure_session": {"session_id": lambda case: f"{case.session}-new"},
    "state.update_token_counts": {"input_tokens": 7},
    "state.record_auxiliary_usage": {"input_tokens": 7},
    "state.queue_token_counts": {"input_tokens": 7},
    "state.update_session_runtime_lock": {"model": "m2"},
    "state.set_session_title_source": {"source": "llm"},
    "state.publish_session_git_metadata": {"git_branch": "main"},
    "state.record_gateway_session_peer": {"session_key": "key", "chat_id": "c1"},
    "state.restore_compression_failure_cooldown_row": {
        "snapshot": {"session_exists": True, "cooldown_until": NOON / 1000, "error": "full"}
    },
    "state_sessions.append": {"messages": [NewMessage(role="user", content="once more")]},
    "state.import_sessions": {"sessions": lambda case: case.exported},
    "state.publish_compression_child": {"require_compression_lease": False},
    "state.request_handoff": {"platform": "telegram"},
    "state.maybe_auto_prune_and_vacuum": {"retention_days": 0, "dry_run": False},
    "state.archive_sessions": {"older_than_days": 0},
    "state.archive_stale_sessions": {"idle_days": 0},
    "state.prune_sessions": {"older_than_days": 0, "include_active": True, "dry_run": False},
    "state.delete_session": {"dry_run": False},
    "state.delete_sessions": {"dry_run": False},
    "state.clear_messages": {"dry_run": False},
    "state_sessions.create_session": {"session_id": lambda case: f"{case.session}-new"},
    "state_sessions.change": {"session": lambda case: f"Low of {case.session}", "title": "High"},
    "state_sessions.count_tokens": {"input_tokens": 7},
    "state_sessions.import_lines": {"lines": lambda case: case.exported},
    "state_sessions.prune": {"older_than_days": 0, "include_active": True, "dry_run": False},
    "state_sessions.delete": {"dry_run": False},
    "state_sessions.clear": {"dry_run": False},
    "state_sessions.rewind": {"message_id": lambda case: case.second},
}


Given = dict[str, Any]


def given_to(one: Verb, case: Case) -> Given:
    """Return the arguments of a call: what is required, what is said above, and the key if any."""
    own = OWN.get(f"{one.owner.store}.{one.name}", {})
    names = [n for n, a in one.arguments.items() if a.required or n == one.again]
    given = {name: own.get(name, GIVEN.get(name)) for name in {**dict.fromkeys(names), **own}}
    return {name: value(case) if callable(value) else value for name, value in given.items()}


def answer_of(store: Any, one: Verb, given: Given) -> Any:
    """Call a verb; a refusal is an answer, too."""
    try:
        return plain(one.function(store, **given))
    except ThreadkeepError as error:
        return type(error).__name__


# ------------------------------------------------------------------------------
# What verbs find: the state in which they do something.


def chat_case(store: ChatStore, name: str) -> Case:
    session = f"c-{name}"
    store.create_session(agent="helper", model="m", session_id=session)
    first, second = (
        store.say(session, text, message_id=f"{session}-{text}").id for text in ("first", "second")
    )
    if name == "rebuild":  # of the event log
        store.reindex()
    if name in ("fire", "cancel", "unfire"):
        second = store.enqueue(session, "queued", message_id=f"{session}-queued").id
    if name == "unfire":
        store.fire(session)
    if name == "unrewind":
        store.rewind(session, first)
    if name == "unarchive":
        store.archive(session)
    if name in ("record_usage", "compact_log", "repair_orphans"):
        call = {"type": "tool-read", "toolCallId": "t", "state": "input-available", "input": {}}
        store.put_message(session, {"id": f"{session}-r", "role": "assistant", "parts": [call]})
    exported = tuple(store.export(session))
    if name == "import_sessions":
        store.delete(session)
    return Case(session, first, second, exported)


_TOPIC: Final[dict[str, Any]] = {"chat_id": "c1", "user_id": "u1"}
# Verb -> what happens before it to its session, whose messages are `ids`.
Before = Callable[[SessionDB, str, list[int]], object]
BEFORE: Final[dict[str, Before]] = {
    **dict.fromkeys(
        ("undo_rewind", "unrewind", "restore_rewound"),
        lambda store, session, ids: store.rewind_to_message(session, ids[2]),
    ),
    "claim_handoff": lambda store, session, _: store.request_handoff(session, "telegram"),
    "complete_handoff": lambda store, session, _: _handed_over(store, session),
    "fail_handoff": lambda store, session, _: _handed_over(store, session),
    "release_compression_lock": lambda store, session, _: store.try_acquire_compression_lock(
        session, "worker"
    ),
    "release_session_turn_lease": lambda store, session, _: store.try_acquire_session_turn_lease(
        session, "worker"
    ),
    **dict.fromkeys(
        ("reopen", "reopen_session", "reopen_if_explicitly_closed", "archive_sessions"),
        lambda store, session, _: store.end_session(session, "done"),
    ),
    "take_unseen_reactions": lambda store, session, ids: store.set_message_reaction(
        session, ids[0], "👍"
    ),
    "clear_backend_heartbeat": lambda store, *_: store.register_backend_heartbeat(
        backend_id="b1", pid=1, started_at=1.0
    ),
    "prune_stale_heartbeats": lambda store, *_: store.register_backend_heartbeat(
        backend_id="b2", pid=1, started_at=1.0, last_heartbeat=1.0
    ),
    **dict.fromkeys(
        ("delete_telegram_topic_binding", "disable_telegram_topic_mode"),
        lambda store, session, _: _bound(store, session),
    ),
    "delete_gateway_routing_entries": lambda store, session, _: store.save_gateway_routing_entry(
        f"key-{session}", "{}"
    ),
    **dict.fromkeys(
        ("delete_session_if_empty", "delete_empty_sessions"),
        lambda store, session, _: (store.clear_messages(session), store.end_session(session, "x")),
    ),
    "clear_compression_failure_cooldown": (
        lambda store, session, _: store.record_compression_failure_cooldown(session, NOON)
    ),
    "clear_session_activity_labels": lambda store, session, _: store.touch_session_activity(
        session, description="reads the tide table"
    ),
    "reset_hygiene_failure_streak": lambda store, session, _: (
        store.increment_hygiene_failure_streak(f"key-{session}")
    ),
    "retag_kanban_worker_sessions": lambda store, session, _: store.update_session_cwd(
        session, "/srv/harbor"
    ),
    "publish_session_git_metadata": lambda store, session, _: store.update_session_cwd(
        session, "/srv/harbor"
    ),
    **dict.fromkeys(
        ("set_session_title_source", "change"),
        lambda store, session, _: store.set_session_title(session, f"Low of {session}"),
    ),
}


def _handed_over(store: SessionDB, session: str) -> None:
    store.request_handoff(session, "telegram")
    store.claim_handoff(session)


def _bound(store: SessionDB, session: str) -> None:
    store.enable_telegram_topic_mode(**_TOPIC)
    store.bind_telegram_topic(
        **_TOPIC, thread_id=f"t-{session}", session_key="k", session_id=session
    )


def state_case(store: SessionDB, name: str) -> Case:
    session = f"s-{name}"
    store.create_session(session, "cli")
    said = [("user", "first"), ("assistant", "yes"), ("user", "second")]
    ids = store.append_messages(session, [{"role": who, "content": text} for who, text in said])
    found = Case(session, ids[0], ids[2], (json.dumps(store.export_session(session)),))
    store.create_session(found.other, "cli")
    if name in BEFORE:
        BEFORE[name](store, session, ids)
    if found.exported and name.startswith("import"):
        store.delete_sessions([session])
    return found


# ------------------------------------------------------------------------------
# Each is called twice, while the clock stands.

# Verbs that may come twice, and of which nothing is seen here: each with its reason.
UNSEEN: Final = {
    "chat.reindex": "what it makes is there already",
    "chat.rebuild": "what it makes is there already",
    "state.optimize_fts": "what it makes is there already",
    "state.vacuum": "what it makes is there already",
    "state.refresh_compression_lock": "the clock stands",
    "state.refresh_session_turn_lease": "the clock stands",
}


def write_verbs(store: str) -> list[Verb]:
    return [one for one in TABLES[store].values() if not one.reads]


def tried(store: Any, path: Path, one: Verb, case: Case) -> tuple[bool, bool]:
    """Call a verb twice; tell whether the first did anything, and the second nothing else."""
    given = given_to(one, case)
    before = contents(path)
    first = answer_of(store, one, given)
    between = contents(path)
    second = answer_of(store, one, given)
    return before != between, (between, first) == (contents(path), second)


def check(store: Any, path: Path, one: Verb, case: Case) -> None:
    did, same = tried(store, path, one, case)
    name = f"{one.owner.store}.{one.name}"
    if one.again:
        assert same, name
        assert did != (name in UNSEEN), name
    elif did:
        assert not same, name


def test_a_verb_of_chat_does_twice_what_the_table_says(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    with ChatStore.open(path, clock=ManualClock(step=0)) as store:
        for one in write_verbs("chat"):
            check(store, path, one, chat_case(store, one.name))


_ROUND: Final = 20  # verbs for each file: one with few sessions is quickly compared
# One closes the file, and one writes in the background.
_APART: Final = ("release", "queue_token_counts")
_STATE: Final = [one for one in write_verbs("state") if one.name not in _APART]


@pytest.mark.parametrize("first", range(0, len(_STATE), _ROUND))
def test_a_verb_of_state_does_twice_what_the_table_says(tmp_path: Path, first: int) -> None:
    path = tmp_path / "state.db"
    with SessionDB(path, clock=ManualClock(step=0).seconds) as store:
        for one in _STATE[first : first + _ROUND]:
            check(store, path, one, state_case(store, one.name))


def test_a_verb_of_named_sessions_does_twice_what_the_table_says(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with SessionDB(path, clock=ManualClock(step=0).seconds) as store:
        for one in write_verbs("state_sessions"):
            check(NamedSessions(store), path, one, state_case(store, one.name))


def test_a_verb_of_mail_does_twice_what_the_table_says(tmp_path: Path) -> None:
    home = Home(tmp_path / "home", environ={"TZ": "UTC"})
    mail = NamedMailboxes(home)
    box = mail.create_session("tide", channel="cli", chat="c1")
    task = mail.create_task(box.session.id, "Look at the tide.", every="0 9 * * *").id
    given: dict[str, Given] = {
        "create_session": {"agent": "new"},
        "send": {"text": "High water?", "id": "l1"},
        "receive": {"channel": "cli", "chat": "c1", "text": "High water?", "id": "r1"},
        "create_task": {"prompt": "Look.", "id": "t1"},
        "change_task": {"task": task, "prompt": "Look again."},
    }

    def files() -> list[Any]:
        return [contents(home.mail_path()), contents(Path(box.folder))]

    may = [one for one in write_verbs("mail") if one.again]
    assert {one.name for one in may} == {*given, "close_session", "reopen_session"}
    for one in may:
        said = given.get(one.name, {})
        said |= {"session": box.session.id} if "session" in one.arguments else {}
        assert one.may_come_twice(said), one.name
        before = files()
        first = answer_of(mail, one, said)
        between = files()
        assert answer_of(mail, one, said) == first, one.name
        assert files() == between != before, one.name


def test_a_verb_of_what_was_captured_does_twice_what_the_table_says(tmp_path: Path) -> None:
    home = Home(captured_home(tmp_path / "home"), environ={"TZ": "UTC"})
    stores = Stores(home)
    given: dict[str, Given] = {
        "ask": {"question": "tests"},
        "fixed": {"error": "tests failed"},
        "context": {"about": "tests"},
        "agent_query": {"query": "tests"},
        "notes": {},
        "revisions": {"document_uuid": "none"},
        "label": {"ref": "message:1", "star": True, "add": ["tide"], "note": "high"},
    }
    of = [one for store in ("memory", "captured") for one in write_verbs(store) if one.again]
    assert {one.name for one in of} == set(given)

    def rows() -> Any:  # a label that is written again has the time of the last
        found = contents(home.knowledge_path())
        labels = [{**row, "id": 0, "at": 0} for row in found["tk_labels"]]
        return {**found, "tk_labels": labels}

    for one in of:  # most only read, and say how long ago things were
        stores.call(one, given[one.name])
        between = rows()
        stores.call(one, given[one.name])
        assert rows() == between, one.name
    stores.close()


# ------------------------------------------------------------------------------
# The client of another host: a connection that breaks says nothing of what was done.


class Breaking:
    """A server that takes every request and hangs up instead of an answer; it counts them."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # closed
                return
            with connection, connection.makefile("rb") as request:
                path = request.readline().split()[1].decode()
                length = 0
                while line := request.readline().strip():
                    name, _, value = line.partition(b":")
                    length = int(value) if name.lower() == b"content-length" else length
                request.read(length)
                self.seen[path.removeprefix("/api/call/")] += 1

    def close(self) -> None:
        self._listener.close()


@pytest.fixture(scope="module")
def breaking() -> Iterator[Breaking]:
    with closing(Breaking()) as found:
        yield found


@pytest.mark.parametrize("store", sorted(TABLES))
def test_the_client_sends_again_what_may_come_twice_and_nothing_else(
    breaking: Breaking, store: str
) -> None:
    line = Line(breaking.url, "", 10.0)
    case = Case("s", 1, 2)
    expected = {}
    for one in TABLES[store].values():
        required = [n for n, a in one.arguments.items() if a.required]
        given = {name: GIVEN.get(name, "x") for name in {*required, one.again} - {"", SAME}}
        said = {name: value(case) if callable(value) else value for name, value in given.items()}
        expected[f"{store}/{one.name}"] = 2 if one.may_come_twice(said) else 1
        with pytest.raises(Unreachable) as caught:
            list(getattr(RemoteStore(line, OWNERS[store]), one.name)(**said))
        assert ("may have been done" in caught.value.hint) == (not one.may_come_twice(said))
    line.close()
    assert {path: breaking.seen[path] for path in expected} == expected


def test_a_key_makes_a_write_one_that_may_come_twice(breaking: Breaking) -> None:
    with threadkeep.connect(breaking.url) as home:
        for key in (None, "k"):
            with pytest.raises(Unreachable):
                home.state().append_message("s-key", "user", "high", idempotency_key=key)
    assert breaking.seen["state/append_message"] >= 3
