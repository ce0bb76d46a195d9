"""Sessions: rows with their defaults, listed, archived, branched, deleted."""

import json
import re

import pytest

from threadkeep.testing.chat_suite.conversation import (
    MODEL,
    Factory,
    new_session,
    record,
    table,
    text_chunks,
    texts,
    turn,
)

COUNTERS = ("prompt_tokens", "completion_tokens", "reasoning_tokens", "cache_read", "cache_write")
SESSION_COLUMNS = {
    *("id", "agent", "workspace_root", "model_json", "parent_id", "parent_message_id"),
    *("permissions_json", "metadata_json", *COUNTERS, "total_tokens", "cost_usd"),
    *("created_at", "updated_at", "archived_at"),
}


def test_a_session_is_a_row_with_the_columns_of_the_guide(chat_factory: Factory) -> None:
    """chat_sessions: the columns are there by their names, with the defaults of the guide."""
    store = chat_factory.open()
    session = new_session(store)
    (row,) = table(chat_factory, store, "chat_sessions")
    assert set(row) >= SESSION_COLUMNS
    assert (row["id"], row["agent"]) == (session.id, "coder")
    assert not row["workspace_root"]
    assert (row["permissions_json"], row["metadata_json"]) == ("[]", "{}")
    assert [row[name] for name in (*COUNTERS, "total_tokens", "cost_usd")] == [0] * 7
    assert row["parent_id"] is row["parent_message_id"] is row["archived_at"] is None


def test_times_are_epoch_milliseconds(chat_factory: Factory) -> None:
    """chat_sessions: `created_at` and `updated_at` are epoch milliseconds."""
    store = chat_factory.open()
    before = chat_factory.clock.now
    new_session(store)
    (row,) = table(chat_factory, store, "chat_sessions")
    assert before < row["created_at"] <= row["updated_at"] <= chat_factory.clock.now


def test_the_model_is_provider_model_and_variant(chat_factory: Factory) -> None:
    """chat_sessions: `model_json` is JSON with provider_id, model_id and perhaps a variant."""
    store = chat_factory.open()
    session = new_session(store, model={**MODEL, "variant": "high"})
    (row,) = table(chat_factory, store, "chat_sessions")
    assert json.loads(row["model_json"]) == {**MODEL, "variant": "high"}
    assert store.session(session.id).model == {**MODEL, "variant": "high"}


def test_the_model_follows_the_turns(chat_factory: Factory) -> None:
    """chat_sessions: `model_json` is the most recent active model, refreshed each turn."""
    store = chat_factory.open()
    session = new_session(store)
    small = {"provider_id": "acme", "model_id": "small"}
    store.say(session, "hi", model=small)
    assert store.session(session).model == small
    record(store, session, text_chunks("hello"), model={**small, "variant": "fast"})
    assert store.session(session).model == {**small, "variant": "fast"}


def test_the_agent_of_a_session_never_changes(chat_factory: Factory) -> None:
    """chat_sessions: `agent` is immutable; a swap is recorded on the message."""
    store = chat_factory.open()
    session = new_session(store)
    message = store.say(session, "hi", agent="planner")
    record(store, session, text_chunks("hello"), agent="builder")
    assert store.session(session).agent == "coder"
    assert message.metadata["agent"] == "planner"
    assert store.ui_messages(session)[1]["metadata"]["agent"] == "builder"


def test_the_folder_of_a_session_is_kept(chat_factory: Factory) -> None:
    """chat_sessions: `workspace_root` is the directory in which the session is rooted."""
    store = chat_factory.open()
    new_session(store, workspace_root="/home/me/project")
    (row,) = table(chat_factory, store, "chat_sessions")
    assert row["workspace_root"] == "/home/me/project"


def test_new_fields_of_the_metadata_need_no_migration(chat_factory: Factory) -> None:
    """Schema evolution: new JSON fields are kept as they are given."""
    store = chat_factory.open()
    given = {"theme": "dark", "nested": {"a": [1, None, {"b": "ü"}]}}
    session = new_session(store, metadata=given)
    (row,) = table(chat_factory, store, "chat_sessions")
    assert json.loads(row["metadata_json"]) == given
    assert store.session(session.id).metadata == given


def test_a_rule_has_the_names_of_the_guide(chat_factory: Factory) -> None:
    """Permission rule shape: permission, pattern, action and source; a source may be left out."""
    store = chat_factory.open()
    session = new_session(store)
    rules = [
        {"permission": "bash", "pattern": "ls:*", "action": "allow"},
        {"permission": "edit", "pattern": "/etc/**", "action": "deny", "source": "session"},
    ]
    store.set_permissions(session, rules)
    (row,) = table(chat_factory, store, "chat_sessions")
    wanted = [{**rule, "source": "session"} for rule in rules]
    assert json.loads(row["permissions_json"]) == wanted
    assert store.session(session.id).permissions == wanted


def test_an_action_is_allow_deny_or_ask(chat_factory: Factory) -> None:
    """Permission rule shape: any other action is refused, and changes nothing."""
    store = chat_factory.open()
    session = new_session(store)
    with pytest.raises(chat_factory.refused):
        store.set_permissions(session, [{"permission": "bash", "pattern": "*", "action": "maybe"}])
    assert store.session(session).permissions == []


# ---------------------------------------------------------------------- ids


@pytest.mark.parametrize(
    "name, prefix", [("chat_sessions", "ses_"), ("chat_messages", "msg_"), ("chat_parts", "prt_")]
)
def test_ids_have_a_prefix_and_thirty_characters(
    chat_factory: Factory, name: str, prefix: str
) -> None:
    """ID strategy: ses_, msg_ and prt_, 12 hexadecimal and 14 base-62 digits."""
    store = chat_factory.open()
    turn(store, new_session(store), "q", "a")
    for row in table(chat_factory, store, name):
        assert re.fullmatch(prefix + r"[0-9a-f]{12}[0-9A-Za-z]{14}", row["id"])


def test_ids_sort_in_the_order_of_insertion(chat_factory: Factory) -> None:
    """ID strategy: ids of one millisecond sort in the order in which they were made."""
    chat_factory.clock.step = 0
    store = chat_factory.open()
    made = [new_session(store).id for _ in range(20)]
    session = store.session(made[0])
    said = [store.say(session, str(number)).id for number in range(20)]
    assert made == sorted(set(made))
    assert said == sorted(set(said))


# ---------------------------------------------------------------------- lists


def test_the_list_is_by_the_last_change(chat_factory: Factory) -> None:
    """chat_sessions, indexes: recent sessions come first, by `updated_at`."""
    store = chat_factory.open()
    first, second, third = (new_session(store) for _ in range(3))
    assert [one.id for one in store.sessions().items] == [third.id, second.id, first.id]
    store.say(first, "up again")
    assert [one.id for one in store.sessions().items] == [first.id, third.id, second.id]


def test_the_list_is_narrowed_by_agent_and_workspace(chat_factory: Factory) -> None:
    """chat_sessions, indexes: recent by agent, recent by workspace."""
    store = chat_factory.open()
    one = new_session(store, agent="a", workspace_root="/w1")
    two = new_session(store, agent="b", workspace_root="/w2")
    assert [found.id for found in store.sessions(agent="a").items] == [one.id]
    assert [found.id for found in store.sessions(workspace="/w2").items] == [two.id]
    assert store.sessions(agent="a", workspace="/w2").items == []


def test_children_of_a_session_are_listed(chat_factory: Factory) -> None:
    """chat_sessions, indexes: the branches of a session are enumerated by `parent_id`."""
    store = chat_factory.open()
    root, other = new_session(store), new_session(store)
    turn(store, root, "q", "a")
    branches = {store.fork(root).id, store.fork(root).id}
    assert {found.id for found in store.sessions(parent=root).items} == branches
    assert store.sessions(parent=other).items == []


def test_archived_sessions_are_left_out_unless_asked_for(chat_factory: Factory) -> None:
    """chat_sessions: a list leaves out what has `archived_at`, and can be told to include it."""
    store = chat_factory.open()
    kept, gone = new_session(store), new_session(store)
    store.archive(gone)
    assert [found.id for found in store.sessions().items] == [kept.id]
    assert [found.id for found in store.sessions(archived=True).items] == [gone.id]
    assert {found.id for found in store.sessions(archived=None).items} == {kept.id, gone.id}


def test_archiving_is_not_deleting(chat_factory: Factory) -> None:
    """chat_sessions: `archived_at` is a time, and what was said stays."""
    store = chat_factory.open()
    session = new_session(store)
    turn(store, session, "q", "a")
    archived_at = store.archive(session).archived_at
    assert archived_at is not None
    assert archived_at > session.created_at
    assert texts(store, session) == ["q", "a"]
    assert store.unarchive(session).archived_at is None
    assert [found.id for found in store.sessions().items] == [session.id]


@pytest.mark.parametrize("size", [1, 3, 7, 50])
def test_pages_give_every_session_once(chat_factory: Factory, size: int) -> None:
    """ID strategy: the order of ids pages through sessions that changed at the same time."""
    chat_factory.clock.step = 0
    store = chat_factory.open()
    made = [new_session(store).id for _ in range(7)]
    page = store.sessions(limit=size)
    seen = [found.id for found in page.items]
    while page.next_cursor is not None:
        page = store.sessions(limit=size, cursor=page.next_cursor)
        seen += [found.id for found in page.items]
    assert seen == made[::-1]


# ---------------------------------------------------------------------- branches, ends


def test_a_branch_knows_where_it_forked(chat_factory: Factory) -> None:
    """chat_sessions: `parent_id` and the user message of the parent from which a branch forks."""
    store = chat_factory.open()
    root = new_session(store)
    asked, _ = turn(store, root, "q1", "a1")
    turn(store, root, "q2", "a2")
    branch = store.fork(root, asked)
    assert (branch.parent_id, branch.parent_message_id) == (root.id, asked)
    assert texts(store, branch) == ["q1"]


def test_a_branch_and_its_parent_go_separate_ways(chat_factory: Factory) -> None:
    """chat_sessions: a branch is a session of its own, with messages and parts of its own."""
    store = chat_factory.open()
    root = new_session(store)
    turn(store, root, "q1", "a1")
    branch = store.fork(root)
    store.say(branch, "only here")
    assert texts(store, root) == ["q1", "a1"]
    assert texts(store, branch) == ["q1", "a1", "only here"]
    ids = [row["id"] for row in table(chat_factory, store, "chat_messages")]
    assert len(ids) == len(set(ids)) == 5


def test_deleting_a_session_takes_its_messages_and_parts(chat_factory: Factory) -> None:
    """chat_messages, chat_parts: both go with their session (ON DELETE CASCADE)."""
    store = chat_factory.open()
    kept, gone = new_session(store), new_session(store)
    for session in (kept, gone):
        turn(store, session, "q", "a")
    store.delete(gone)
    for name in ("chat_messages", "chat_parts"):
        assert {row["session_id"] for row in table(chat_factory, store, name)} == {kept.id}
    assert [row["id"] for row in table(chat_factory, store, "chat_sessions")] == [kept.id]
    with pytest.raises(chat_factory.refused):
        store.session(gone)


def test_what_was_written_is_there_when_it_is_opened_again(chat_factory: Factory) -> None:
    """Persistency: a session lasts beyond the process that wrote it."""
    store = chat_factory.open()
    session = new_session(store, metadata={"theme": "dark"})
    turn(store, session, "q", "a")
    before, shown = store.session(session), store.ui_messages(session)
    store.close()
    again = chat_factory.reopen(store)
    assert again.session(session.id) == before
    assert again.ui_messages(session.id) == shown


def test_two_stores_write_the_same_data(chat_factory: Factory) -> None:
    """Multi-process safety: writers take turns, and each sees what the other wrote."""
    one = chat_factory.open()
    two = chat_factory.reopen(one)
    session = new_session(one)
    for number in range(6):
        (one, two)[number % 2].say(session, str(number))
    assert texts(one, session) == texts(two, session) == list("012345")
