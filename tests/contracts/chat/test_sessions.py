"""Sessions: created once, listed newest first, archived without loss, deleted with all they own."""

import json
from collections.abc import Callable

import pytest

from tests.support.chats import MODEL, Factory, new_session, record, text_chunks, turn
from tests.support.ids import is_id
from threadkeep.chat.records import Session
from threadkeep.chat.store import ChatStore
from threadkeep.errors import Conflict, NotFound, ReadOnly
from threadkeep.testing import NOON, ManualClock


def ids(sessions: list[Session]) -> list[str]:
    return [session.id for session in sessions]


# ---------------------------------------------------------------------- creating


def test_fresh_session_has_the_defaults_of_the_contract(store: ChatStore, factory: Factory) -> None:
    session = store.create_session(agent="coder", model=MODEL)
    assert is_id(session.id, "ses")
    (row,) = factory.rows(store, "SELECT * FROM chat_sessions")
    assert NOON < row["created_at"] == row["updated_at"]
    assert row == {
        "id": session.id,
        "agent": "coder",
        "workspace_root": "",
        "model_json": '{"provider_id":"acme","model_id":"large"}',
        "parent_id": None,
        "parent_message_id": None,
        "permissions_json": "[]",
        "metadata_json": "{}",
        "prompt_tokens": 0,
        "completion_tokens": 0,
        "reasoning_tokens": 0,
        "cache_read": 0,
        "cache_write": 0,
        "total_tokens": 0,
        "cost_usd": 0.0,
        "created_at": row["created_at"],
        "updated_at": row["updated_at"],
        "archived_at": None,
        "title": "New Chat",
        "workspace_id": None,
        "mode": None,
    }
    assert session.title is None


def test_everything_given_is_stored_and_read_back(store: ChatStore) -> None:
    rule = {"permission": "bash", "pattern": "ls:*", "action": "allow", "source": "session"}
    created = store.create_session(
        agent="coder",
        model={**MODEL, "variant": "high", "temperature": 0.5},
        workspace_root="/home/me/project",
        title="First 🚀 \0 \ud800",
        permissions=[rule],
        metadata={"theme": "dark", "nested": {"a": [1, None, 2**70]}},
        workspace_id="w1",
        mode="plan",
    )
    read = store.session(created.id)
    assert read == created
    assert read.model == {**MODEL, "variant": "high", "temperature": 0.5}
    assert read.workspace_root == "/home/me/project"
    assert read.title == "First 🚀 \0 \ud800"
    assert read.permissions == [rule]
    assert read.metadata == {"theme": "dark", "nested": {"a": [1, None, 2**70]}}
    assert (read.workspace_id, read.mode) == ("w1", "plan")


def test_model_may_be_written_as_provider_and_name(store: ChatStore) -> None:
    session = new_session(store, model="acme/large/v2")
    assert session.model == {"provider_id": "acme", "model_id": "large/v2"}


def test_foreign_session_id_is_kept_verbatim_and_cannot_come_twice(
    store: ChatStore, factory: Factory
) -> None:
    assert new_session(store, session_id="chat:42/ü").id == "chat:42/ü"
    before = factory.contents(store)
    with pytest.raises(Conflict, match="chat:42/ü") as caught:
        new_session(store, session_id="chat:42/ü", agent="other")
    assert caught.value.hint
    assert factory.contents(store) == before


# ---------------------------------------------------------------------- changing


def test_title_is_set_and_taken_away(store: ChatStore) -> None:
    session = new_session(store)
    assert store.set_title(session, "Plans").title == "Plans"
    assert store.set_title(session, None).title is None


def test_metadata_keys_are_set_one_by_one_and_removed_by_none(store: ChatStore) -> None:
    session = new_session(store, metadata={"a": 1, "b": {"x": 1}})
    assert store.set_metadata(session, {"b": {"y": 2}, "c": [3]}).metadata == {
        "a": 1,
        "b": {"y": 2},
        "c": [3],
    }
    assert store.set_metadata(session, {"a": None}).metadata == {"b": {"y": 2}, "c": [3]}


def test_archiving_is_no_deletion_and_keeps_its_first_time(store: ChatStore) -> None:
    session = new_session(store)
    turn(store, session, "q", "a")
    first = store.archive(session).archived_at
    assert first is not None
    assert store.archive(session).archived_at == first
    assert len(store.ui_messages(session)) == 2
    assert store.unarchive(session).archived_at is None


def test_every_write_moves_updated_at_and_never_back(store: ChatStore, clock: ManualClock) -> None:
    session = new_session(store)
    seen = [session.updated_at]
    for change in (
        lambda: store.say(session, "hi"),
        lambda: store.set_title(session, "t"),
        lambda: store.set_metadata(session, {"k": 1}),
        lambda: record(store, session, text_chunks("hello")),
        lambda: store.record_usage(session, {"input": 1}),
        lambda: store.enqueue(session, "later"),
        lambda: store.fire(session),
    ):
        change()
        seen.append(store.session(session).updated_at)
    assert seen == sorted(set(seen))
    clock.now -= 3_600_000
    store.say(session, "after the clock went back")
    assert store.session(session).updated_at >= seen[-1]


# ---------------------------------------------------------------------- listing


def test_filters_by_agent_workspace_parent_and_title(store: ChatStore) -> None:
    root = new_session(store, agent="a", workspace_root="/w1", title="Fix 100% of _it_")
    other = new_session(store, agent="b", workspace_root="/w2", title="Fix 1000 of xits")
    store.say(root, "hi")
    branch = store.fork(root)
    assert set(ids(store.sessions(agent="a").items)) == {root.id, branch.id}
    assert ids(store.sessions(agent="b").items) == [other.id]
    assert ids(store.sessions(workspace="/w2").items) == [other.id]
    assert ids(store.sessions(parent=root).items) == [branch.id]
    assert ids(store.sessions(parent=other).items) == []
    assert set(ids(store.sessions(title="fix").items)) == {root.id, other.id, branch.id}
    assert ids(store.sessions(title="100%", agent="a", parent=root).items) == [branch.id]
    assert other.id not in ids(store.sessions(title="_it_").items)
    assert ids(store.sessions(title="\\").items) == []


def test_sessions_rooted_nowhere_are_listed_whoever_wrote_them(
    store: ChatStore, factory: Factory
) -> None:
    ours = new_session(store)
    new_session(store, workspace_root="/w")
    with factory.raw(store) as other:
        other.execute(
            "INSERT INTO chat_sessions(id, agent, workspace_root, created_at, updated_at)"
            " VALUES ('theirs', 'coder', NULL, 1, 1)"
        )
    assert ids(store.sessions(workspace="").items) == [ours.id, "theirs"]


def test_ephemeral_branches_are_hidden_from_the_picker(store: ChatStore) -> None:
    root = new_session(store)
    store.say(root, "hi")
    side = store.fork(root, metadata={"ephemeral": True})
    plain_branch = store.fork(root, metadata={"ephemeral": False})
    assert set(ids(store.sessions().items)) == {root.id, plain_branch.id}
    assert side.id in ids(store.sessions(ephemeral=True).items)


def test_list_survives_metadata_that_is_no_json(store: ChatStore, factory: Factory) -> None:
    session = new_session(store)
    with factory.raw(store) as other:
        other.execute("UPDATE chat_sessions SET metadata_json = '{broken'")
    assert ids(store.sessions().items) == [session.id]
    assert store.session(session).metadata == {}


def test_page_stays_right_when_an_old_session_moves_up(store: ChatStore) -> None:
    made = [new_session(store).id for _ in range(6)]
    first = store.sessions(limit=3)
    store.say(made[0], "moves to the top")
    second = store.sessions(limit=3, cursor=first.next_cursor)
    assert ids(first.items) == [made[5], made[4], made[3]]
    assert ids(second.items) == [made[2], made[1]]
    assert second.next_cursor is None


def test_cursor_works_for_a_foreign_id_with_a_colon(store: ChatStore) -> None:
    for name in ("a:1", "a:2", "a:3"):
        new_session(store, session_id=name)
    page = store.sessions(limit=2)
    assert ids(store.sessions(limit=2, cursor=page.next_cursor).items) == ["a:1"]


# ---------------------------------------------------------------------- deleting


def test_deletion_takes_messages_parts_runs_and_journal(store: ChatStore, factory: Factory) -> None:
    kept, gone = new_session(store), new_session(store)
    for session in (kept, gone):
        turn(store, session, "q", "a", usage={"input": 5})
        store.enqueue(session, "later")
    before = factory.contents(store)
    store.delete(gone)
    after = factory.contents(store)
    assert json.dumps(after, default=repr).count(gone.id) == 0
    assert len(after["chat_messages"]) * 2 == len(before["chat_messages"])
    assert len(after["chat_parts"]) * 2 == len(before["chat_parts"])
    assert after["tk_runs"] == [row for row in before["tk_runs"] if row["session_id"] == kept.id]
    assert len(after["tk_hashes"]) * 2 == len(before["tk_hashes"])
    assert store.verify().ok
    with pytest.raises(NotFound, match=gone.id):
        store.session(gone)


def test_branches_outlive_their_parent(store: ChatStore) -> None:
    root = new_session(store)
    turn(store, root, "q", "a")
    branch = store.fork(root)
    store.delete(root)
    assert len(store.ui_messages(branch)) == 2
    assert store.session(branch).parent_id == root.id


def test_deletion_by_another_program_cascades_too(store: ChatStore, factory: Factory) -> None:
    session = new_session(store)
    turn(store, session, "q", "findable")
    store.search("findable")
    with factory.raw(store) as other:
        other.execute("DELETE FROM chat_sessions WHERE id = ?", (session.id,))
    assert store.sessions().items == []
    assert store.search("findable") == []
    assert store.verify().ok
    assert factory.rows(store, "SELECT * FROM chat_parts") == []


def test_session_of_a_deleted_id_starts_empty(store: ChatStore) -> None:
    new_session(store, session_id="again")
    turn(store, "again", "q", "a")
    store.delete("again")
    new_session(store, session_id="again")
    assert store.ui_messages("again", "all") == []
    assert store.runs("again") == []
    assert list(store.tail("again", follow=False)) == []


# ---------------------------------------------------------------------- several stores


def test_read_only_store_reads_a_live_file_and_writes_nothing(
    store: ChatStore, factory: Factory
) -> None:
    session = new_session(store, title="live")
    turn(store, session, "q", "an answer")
    with factory.reopen(store, read_only=True) as reader:
        assert reader.session(session).title == "live"
        store.say(session, "one more")
        assert len(reader.ui_messages(session)) == 3
        assert [hit.session_id for hit in reader.search("answer")] == [session.id]
        assert reader.verify().ok
        calls: list[Callable[[], object]] = [
            lambda: reader.say(session, "no"),
            lambda: reader.create_session(agent="a", model=MODEL),
            lambda: reader.delete(session),
            lambda: reader.archive(session),
        ]
        before = factory.contents(store)
        for call in calls:
            with pytest.raises(ReadOnly, match="read-only"):
                call()
        assert factory.contents(store) == before
