"""Rewind, fork and compaction: nothing is deleted, and the sums follow what the model sees."""

import json
from functools import partial
from typing import Any

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.lengths import examples
from tests.support.chats import (
    Factory,
    new_session,
    record,
    reply,
    text_chunks,
    text_of,
    texts,
    turn,
)
from threadkeep.chat.records import Session
from threadkeep.chat.store import ChatStore
from threadkeep.errors import Conflict, Invalid, NotFound
from threadkeep.testing import FACTORIES, ManualClock

Json = dict[str, Any]


def talk(store: ChatStore, session: Session, turns: int, first: int = 1) -> list[str]:
    """Hold a conversation q1 a1 q2 a2 …; the usage of turn n is 10**(n-1). Gives all ids."""
    ids: list[str] = []
    for n in range(first, first + turns):
        ids += turn(store, session, f"q{n}", f"a{n}", usage={"input": 10 ** (n - 1)})
    return ids


def total(factory: Factory, store: ChatStore, session: Session | str) -> int:
    """Return the session's total after checking that it is the sum of the five columns."""
    (row,) = factory.rows(
        store,
        "SELECT prompt_tokens + completion_tokens + reasoning_tokens + cache_read + cache_write"
        " AS five, total_tokens FROM chat_sessions WHERE id = ?",
        store.session(session).id,
    )
    assert row["five"] == row["total_tokens"]
    return int(row["total_tokens"])


# ---------------------------------------------------------------------- rewind


def test_rewind_hides_all_after_the_message_in_both_places(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    q1, a1, q2, a2, *later = talk(store, session, 3)
    before = factory.contents(store)
    assert store.rewind(session, q2) == [a2, *later]
    assert texts(store, session) == ["q1", "a1", "q2"]
    assert texts(store, session, "model") == ["q1", "a1", "q2"]
    assert texts(store, session, "all") == ["q1", "a1", "q2", "a2", "q3", "a3"]
    assert total(factory, store, session) == 1
    for row in factory.rows(store, "SELECT * FROM chat_messages"):
        hidden = row["id"] not in {q1, a1, q2}
        assert (row["hidden_at"] is not None) == hidden
        assert json.loads(row["metadata_json"]).get("hidden_at") == row["hidden_at"]
    assert factory.contents(store)["chat_parts"] == before["chat_parts"]
    assert store.verify().ok


def test_rewind_may_take_the_message_itself(store: ChatStore, session: Session) -> None:
    q1, a1, q2, a2 = talk(store, session, 2)
    assert store.rewind(session, q2, inclusive=True) == [q2, a2]
    assert texts(store, session) == ["q1", "a1"]
    assert store.unrewind(session) == [q2, a2]
    assert texts(store, session) == ["q1", "a1", "q2", "a2"]
    assert [q1, a1, q2, a2] == [message["id"] for message in store.ui_messages(session)]


def test_unrewind_brings_everything_back_as_it_was(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    q1, *_ = talk(store, session, 3)
    record_before = store.ui_messages(session)
    store.rewind(session, q1)
    assert total(factory, store, session) == 0
    store.unrewind(session)
    assert store.ui_messages(session) == record_before
    assert total(factory, store, session) == 111
    assert store.unrewind(session) == []
    assert store.verify().ok


@pytest.mark.parametrize("jump", [0, -1_000_000, 1])
def test_rewinds_are_undone_one_by_one_whatever_the_clock_does(
    store: ChatStore, session: Session, clock: ManualClock, jump: int
) -> None:
    q1, a1, q2, a2, q3, a3 = talk(store, session, 3)
    clock.step = 0
    store.rewind(session, q2)
    clock.now += jump
    store.rewind(session, q1)
    assert store.unrewind(session) == [a1, q2]
    assert texts(store, session) == ["q1", "a1", "q2"]
    assert store.unrewind(session) == [a2, q3, a3]
    assert texts(store, session) == ["q1", "a1", "q2", "a2", "q3", "a3"]


def test_conversation_goes_on_after_a_rewind(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    q1, *_ = talk(store, session, 2)
    store.rewind(session, q1)
    reply(store, session, "b1", usage={"input": 1000})
    assert texts(store, session) == ["q1", "b1"]
    assert total(factory, store, session) == 1000
    used, _ = store.spend(session)
    assert used["input"] == 1011


def test_rewind_leaves_the_queue_alone(store: ChatStore, session: Session) -> None:
    q1, *_ = talk(store, session, 2)
    waiting = store.enqueue(session, "later")
    gone = store.enqueue(session, "never")
    store.cancel(session, gone)
    store.rewind(session, q1)
    assert [message.id for message in store.queued(session)] == [waiting.id]
    store.unrewind(session)
    assert [message.id for message in store.queued(session)] == [waiting.id]
    assert texts(store, session) == ["q1", "a1", "q2", "a2"]
    fired = store.fire(session)
    assert fired is not None
    assert texts(store, session)[-1] == "later"


def test_rewind_goes_to_visible_user_messages_only(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    q1, a1, q2, *_ = talk(store, session, 2)
    waiting = store.enqueue(session, "later")
    store.rewind(session, q1)
    before = factory.contents(store)
    for point in (a1, q2, waiting.id):
        with pytest.raises(Invalid, match=point) as caught:
            store.rewind(session, point)
        assert caught.value.hint
    assert factory.contents(store) == before


def test_history_is_left_alone_while_a_reply_is_recorded(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    q1, *_ = talk(store, session, 2)
    with store.record(session) as recorder:
        recorder.feed({"type": "start"})
        before = factory.contents(store)
        for call in (
            lambda: store.rewind(session, q1),
            lambda: store.unrewind(session),
            lambda: store.fork(session),
            lambda: store.compact(session, "s"),
        ):
            with pytest.raises(Conflict, match=session.id):
                call()
        assert factory.contents(store) == before
    store.rewind(session, q1)


# ---------------------------------------------------------------------- compaction


def test_compaction_hides_nothing_and_the_model_sees_summary_and_tail(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    ids = talk(store, session, 3)
    marker = store.compact(session, "so far", tail_start=ids[4], auto=True, summary_tokens=7)
    reply(store, session, "a4", usage={"input": 5000})
    assert texts(store, session) == ["q1", "a1", "q2", "a2", "q3", "a3", "", "a4"]
    model = store.ui_messages(session, "model")
    assert [text_of(message) for message in model] == ["so far", "q3", "a3", "a4"]
    assert model[0]["role"] == "user"
    assert total(factory, store, session) == 100 + 7 + 5000
    (part,) = factory.rows(store, "SELECT * FROM chat_parts WHERE message_id = ?", marker.id)
    assert part["type"] == "data-compaction"
    assert json.loads(part["data_json"]) == {
        "type": "data-compaction",
        "data": {
            "summary": "so far",
            "tail_start_id": ids[4],
            "auto": True,
            "summary_tokens": 7,
        },
    }
    assert marker.role == "assistant"
    assert marker.metadata == {"compaction": True, "usage": {"input": 7}}
    assert factory.rows(store, "SELECT id FROM chat_messages WHERE hidden_at IS NOT NULL") == []


def test_compaction_without_a_tail_keeps_nothing(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    talk(store, session, 2)
    store.compact(session, "all of it", summary_tokens=3)
    assert texts(store, session, "model") == ["all of it"]
    assert total(factory, store, session) == 3
    store.say(session, "next")
    assert texts(store, session, "model") == ["all of it", "next"]


@pytest.mark.parametrize("turns,kept", [(0, []), (1, ["q3", "a3"]), (2, ["q2", "a2", "q3", "a3"])])
def test_tail_may_be_given_in_turns(
    store: ChatStore, session: Session, turns: int, kept: list[str]
) -> None:
    talk(store, session, 3)
    store.compact(session, "sum", tail_turns=turns)
    assert texts(store, session, "model") == ["sum", *kept]


def test_more_turns_than_there_are_keep_all(store: ChatStore, session: Session) -> None:
    talk(store, session, 2)
    store.compact(session, "sum", tail_turns=9)
    assert texts(store, session, "model") == ["sum", "q1", "a1", "q2", "a2"]


def test_only_the_newest_compaction_counts(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    ids = talk(store, session, 2)
    store.compact(session, "first", tail_start=ids[2], summary_tokens=3)
    ids += talk(store, session, 2, first=3)
    store.compact(session, "second", tail_start=ids[2], summary_tokens=5)
    assert texts(store, session, "model") == ["second", "q2", "a2", "q3", "a3", "q4", "a4"]
    assert total(factory, store, session) == 10 + 100 + 1000 + 5
    used, _ = store.spend(session)
    assert used["input"] == 1111 + 3 + 5


def test_rewind_past_a_compaction_shows_the_head_again_and_back(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    ids = talk(store, session, 3)
    store.compact(session, "sum", tail_start=ids[4], summary_tokens=7)
    talk(store, session, 1, first=4)
    compacted = store.ui_messages(session, "model")
    store.rewind(session, ids[2])
    assert texts(store, session, "model") == ["q1", "a1", "q2"]
    assert total(factory, store, session) == 1
    store.unrewind(session)
    assert store.ui_messages(session, "model") == compacted
    assert total(factory, store, session) == 100 + 7 + 1000


def test_rewind_between_two_compactions_falls_back_to_the_older(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    ids = talk(store, session, 2)
    store.compact(session, "first", tail_start=ids[2], summary_tokens=3)
    q3, _ = talk(store, session, 1, first=3)
    store.compact(session, "second", summary_tokens=5)
    store.rewind(session, q3)
    assert texts(store, session, "model") == ["first", "q2", "a2", "q3"]
    assert total(factory, store, session) == 10 + 3


def test_payload_straight_in_the_column_is_understood(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    ids = talk(store, session, 2)
    marker = store.compact(session, "sum", tail_start=ids[2])
    payload = {"summary": "old way", "tail_start_id": ids[2], "auto": False, "summary_tokens": 1}
    with factory.raw(store) as other:
        other.execute(
            "UPDATE chat_parts SET data_json = ? WHERE message_id = ?",
            (json.dumps(payload), marker.id),
        )
    assert texts(store, session, "model") == ["old way", "q2", "a2"]
    (part,) = store.message(session, marker)["parts"]
    assert part == {"type": "data-compaction", "data": payload}


def test_head_hidden_by_an_older_writer_stays_hidden(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    q1, a1, q2, _ = talk(store, session, 2)
    store.compact(session, "sum", tail_start=q2, summary_tokens=7)
    with factory.raw(store) as other:
        other.execute("UPDATE chat_messages SET hidden_at = 5 WHERE id IN (?, ?)", (q1, a1))
    assert texts(store, session) == ["q2", "a2", ""]
    assert texts(store, session, "model") == ["sum", "q2", "a2"]
    reply(store, session, "a3", usage={"input": 100})
    assert total(factory, store, session) == 10 + 7 + 100


def test_tail_must_begin_at_a_visible_message_of_the_session(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    q1, *_ = talk(store, session, 2)
    waiting = store.enqueue(session, "later")
    foreign = store.say(new_session(store), "elsewhere")
    before = factory.contents(store)
    with pytest.raises(Invalid, match=waiting.id):
        store.compact(session, "s", tail_start=waiting)
    with pytest.raises(Conflict, match=foreign.id):
        store.compact(session, "s", tail_start=foreign)
    with pytest.raises(NotFound, match="msg_none"):
        store.compact(session, "s", tail_start="msg_none")
    with pytest.raises(Invalid, match="tail"):
        store.compact(session, "s", tail_start=q1, tail_turns=1)
    assert factory.contents(store) == before


# ---------------------------------------------------------------------- fork


@pytest.mark.parametrize("at", [1e308, -1, 2**63 - 1, 2**70, "then", True, [5], 5.5])
def test_hidden_at_a_time_that_is_none_is_hidden_before_every_rewind(
    store: ChatStore, session: Session, at: object, factory: Factory
) -> None:
    asked, answer, _, _ = talk(store, session, 2)
    with factory.raw(store) as other:
        other.execute(
            "UPDATE chat_messages SET metadata_json = ? WHERE id = ?",
            (json.dumps({"hidden_at": at}), answer),
        )
    assert texts(store, session) == ["q1", "q2", "a2"]
    hidden = store.rewind(session, asked)
    assert len(hidden) == 2
    assert store.unrewind(session) == hidden
    assert store.unrewind(session) == [answer]
    assert texts(store, session) == ["q1", "a1", "q2", "a2"]


def test_column_with_a_time_at_the_end_of_all_numbers_does_not_stop_a_rewind(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    asked, answer, _, _ = talk(store, session, 2)
    with factory.raw(store) as other:
        other.execute("UPDATE chat_messages SET hidden_at = ? WHERE id = ?", (2**63 - 1, answer))
    hidden = store.rewind(session, asked)
    assert store.unrewind(session) == hidden
    assert store.unrewind(session) == [answer]


def test_fork_copies_what_is_visible_up_to_a_message_under_new_ids(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    ids = talk(store, session, 3)
    before = factory.contents(store)
    branch = store.fork(session, ids[3])
    assert texts(store, branch) == ["q1", "a1", "q2", "a2"]
    assert total(factory, store, branch) == 11
    assert (branch.parent_id, branch.parent_message_id) == (session.id, ids[3])
    copied = store.ui_messages(branch, "all")
    assert {message["id"] for message in copied}.isdisjoint(ids)
    originals = store.ui_messages(session)[:4]
    assert [m["parts"] for m in copied] == [m["parts"] for m in originals]
    assert [m.get("metadata") for m in copied] == [m.get("metadata") for m in originals]
    after = factory.contents(store)
    for table in ("chat_sessions", "chat_messages", "chat_parts"):
        assert [row for row in after[table] if row in before[table]] == before[table]
    assert store.verify().ok


def test_fork_without_a_point_copies_to_the_end(store: ChatStore, session: Session) -> None:
    ids = talk(store, session, 2)
    branch = store.fork(session)
    assert texts(store, branch) == ["q1", "a1", "q2", "a2"]
    assert branch.parent_message_id == ids[-1]
    empty = store.fork(new_session(store))
    assert store.ui_messages(empty, "all") == []
    assert empty.parent_message_id is None


def test_fork_takes_over_the_setting_but_not_the_permissions(store: ChatStore) -> None:
    rule = {"permission": "*", "pattern": "*", "action": "allow"}
    parent = new_session(
        store,
        title="Plans",
        workspace_root="/w",
        workspace_id="w1",
        mode="plan",
        permissions=[rule],
        metadata={"theme": "dark", "pin": 1},
        model="acme/small",
    )
    store.say(parent, "hi")
    branch = store.fork(parent, metadata={"pin": 2, "ephemeral": True})
    assert branch.title == "Plans (copy)"
    assert branch.agent == parent.agent
    assert branch.model == {"provider_id": "acme", "model_id": "small"}
    assert (branch.workspace_root, branch.workspace_id, branch.mode) == ("/w", "w1", "plan")
    assert branch.metadata == {"theme": "dark", "pin": 2, "ephemeral": True}
    assert branch.permissions == []
    assert store.fork(parent, title="Own").title == "Own"


def test_fork_of_an_untitled_session_is_untitled(store: ChatStore) -> None:
    assert store.fork(new_session(store)).title is None
    named_by_their_default = new_session(store, title="New Chat")
    assert store.fork(named_by_their_default).title is None


def test_fork_leaves_hidden_and_queued_messages_behind(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    q1, *_ = talk(store, session, 2)
    store.rewind(session, q1)
    reply(store, session, "b1", usage={"input": 100})
    store.enqueue(session, "later")
    fired = store.enqueue(session, "fired")
    store.fire(session, fired)
    branch = store.fork(session)
    assert texts(store, branch, "all") == ["q1", "b1", "fired"]
    assert store.queued(branch) == []
    assert total(factory, store, branch) == 100


def test_fork_point_must_be_visible(store: ChatStore, session: Session, factory: Factory) -> None:
    q1, a1, *_ = talk(store, session, 2)
    waiting = store.enqueue(session, "later")
    store.rewind(session, q1)
    before = factory.contents(store)
    for point in (a1, waiting.id):
        with pytest.raises(Invalid, match=point) as caught:
            store.fork(session, point)
        assert caught.value.hint
    assert factory.contents(store) == before


def test_fork_after_a_compaction_keeps_the_verbatim_tail(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    ids = talk(store, session, 3)
    store.compact(session, "sum", tail_start=ids[2], summary_tokens=7)
    talk(store, session, 1, first=4)
    branch = store.fork(session)
    expected = ["sum", "q2", "a2", "q3", "a3", "q4", "a4"]
    assert texts(store, session, "model") == texts(store, branch, "model") == expected
    assert total(factory, store, branch) == total(factory, store, session) == 10 + 100 + 1000 + 7
    copies = {message["id"] for message in store.ui_messages(branch, "all")}
    (part,) = factory.rows(
        store,
        "SELECT data_json FROM chat_parts WHERE session_id = ? AND type = 'data-compaction'",
        branch.id,
    )
    assert json.loads(part["data_json"])["data"]["tail_start_id"] in copies
    second = store.fork(branch)
    assert texts(store, second, "model") == expected


@pytest.mark.parametrize("start", [["q1"], {"id": "q1"}, 5, True, ""])
def test_pointer_that_is_no_id_points_nowhere(
    store: ChatStore, session: Session, start: object, factory: Factory
) -> None:
    talk(store, session, 1)
    payload = {"summary": "sum", "tail_start_id": start}
    marker = {"type": "data-compaction", "data": payload}
    store.put_message(session, {"role": "assistant", "parts": [marker]})
    talk(store, session, 1, first=2)
    branch = store.fork(session)
    for view in (store.ui_messages(session, "model"), store.ui_messages(branch, "model")):
        assert [text_of(message) for message in view] == ["sum", "q2", "a2"]
    assert total(factory, store, session) == total(factory, store, branch) == 10


def test_fork_before_a_compaction_has_the_whole_head(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    ids = talk(store, session, 3)
    store.compact(session, "sum", tail_start=ids[4])
    branch = store.fork(session, ids[3])
    assert texts(store, branch, "model") == ["q1", "a1", "q2", "a2"]
    assert total(factory, store, branch) == 11


def test_order_of_copies_holds_at_equal_times(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    with factory.raw(store) as other:
        for name in ("c", "a", "b"):
            other.execute(
                "INSERT INTO chat_messages(id, session_id, role, created_at, updated_at)"
                " VALUES (?, ?, 'user', 5, 5)",
                (name, session.id),
            )
            other.execute(
                'INSERT INTO chat_parts(id, message_id, session_id, "index", type, data_json,'
                " created_at, updated_at) VALUES (?, ?, ?, 0, 'text', ?, 5, 5)",
                (f"p{name}", name, session.id, json.dumps({"type": "text", "text": name})),
            )
    branch = store.fork(session)
    assert texts(store, branch) == texts(store, session) == ["a", "b", "c"]


def test_fork_copies_tool_calls_so_that_a_late_result_finds_its_own(
    store: ChatStore, session: Session
) -> None:
    call = {"type": "tool-x", "toolCallId": "c1", "state": "input-available", "input": {}}
    store.put_message(session, {"id": "m", "role": "assistant", "parts": [call]})
    branch = store.fork(session)
    record(
        store,
        branch,
        [{"type": "tool-output-available", "toolCallId": "c1", "output": "done"}],
    )
    assert store.ui_messages(branch)[0]["parts"][0]["state"] == "output-available"
    assert store.message(session, "m")["parts"] == [call]


def test_late_metadata_of_a_branch_does_not_touch_the_parent(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    talk(store, session, 1)
    branch = store.fork(session)
    store.record_usage(branch, {"output": 5})
    assert total(factory, store, branch) == 6
    assert total(factory, store, session) == 1


def test_reply_that_was_cut_short_is_forked_as_far_as_it_came(
    store: ChatStore, session: Session
) -> None:
    with store.record(session) as recorder:
        for chunk in text_chunks("half a reply")[:4]:
            recorder.feed(chunk)
    assert texts(store, store.fork(session)) == ["half a reply"]


# ---------------------------------------------------------------------- any order of all of it


class Entry:
    """What the model below knows of one message."""

    def __init__(self, message_id: str, text: str, usage: int = 0, *, queued: bool = False) -> None:
        self.id = message_id
        self.text = text
        self.usage = usage
        self.user = not usage
        self.queued = queued
        self.shown = True
        self.tail: str | None = None
        self.marker = False


class Conversation(RuleBasedStateMachine):
    """Does anything in any order, and compares the store with a list in memory."""

    def __init__(self, engine: str) -> None:
        super().__init__()
        self.factory = FACTORIES[engine]["chat"](ManualClock(step=0))
        self.clock = self.factory.clock
        self.store: ChatStore = self.factory.open()
        self.session = new_session(self.store)
        self.entries: list[Entry] = []
        self.rewinds: list[list[Entry]] = []
        self.spent = 0

    def teardown(self) -> None:
        assert self.store.verify().problems == []
        self.store.close()
        self.factory.close()

    def visible(self) -> list[Entry]:
        return [entry for entry in self.entries if entry.shown and not entry.queued]

    def waiting(self) -> list[Entry]:
        return [entry for entry in self.entries if entry.queued and entry.shown]

    def context(self) -> list[Entry]:
        """What the model sees: the newest summary, the tail before it, what came after."""
        shown = self.visible()
        places = [place for place, entry in enumerate(shown) if entry.marker]
        if not places:
            return shown
        last = places[-1]
        ids = [entry.id for entry in shown[:last]]
        wanted = shown[last].tail
        start = ids.index(wanted) if wanted in ids else last
        tail = [entry for entry in shown[start:last] if not entry.marker]
        return [shown[last], *tail, *shown[last + 1 :]]

    @rule(jump=st.integers(-1000, 1000))
    def turn_the_clock(self, jump: int) -> None:
        self.clock.now += jump

    @rule()
    def say(self) -> None:
        text = f"said {len(self.entries)}"
        self.entries.append(Entry(self.store.say(self.session, text).id, text))

    @rule(usage=st.integers(1, 1000))
    def answer(self, usage: int) -> None:
        text = f"answered {len(self.entries)}"
        message_id = reply(self.store, self.session, text, usage={"output": usage})
        self.entries.append(Entry(message_id, text, usage))
        self.spent += usage

    @rule(usage=st.integers(1, 1000))
    def use_more(self, usage: int) -> None:
        replies = [entry for entry in self.visible() if not entry.user and not entry.marker]
        if replies:
            self.store.record_usage(self.session, {"reasoning": usage})
            replies[-1].usage += usage
            self.spent += usage

    @rule()
    def enqueue(self) -> None:
        text = f"queued {len(self.entries)}"
        message = self.store.enqueue(self.session, text)
        self.entries.append(Entry(message.id, text, queued=True))

    @rule()
    def fire(self) -> None:
        fired = self.store.fire(self.session)
        waiting = self.waiting()
        assert (fired is None) == (not waiting)
        if fired is not None:
            entry = next(entry for entry in waiting if entry.id == fired.id)
            entry.queued = False
            self.entries.remove(entry)
            self.entries.append(entry)

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        if waiting := self.waiting():
            entry = data.draw(st.sampled_from(waiting))
            assert self.store.cancel(self.session, entry.id)
            entry.queued = entry.shown = False

    @rule(data=st.data())
    def rewind(self, data: st.DataObject) -> None:
        points = [entry for entry in self.visible() if entry.user]
        if points:
            point = data.draw(st.sampled_from(points))
            later = self.entries[self.entries.index(point) + 1 :]
            hidden = [entry for entry in later if entry in self.visible()]
            assert self.store.rewind(self.session, point.id) == [entry.id for entry in hidden]
            for entry in hidden:
                entry.shown = False
            if hidden:
                self.rewinds.append(hidden)

    @rule()
    def unrewind(self) -> None:
        back = self.rewinds.pop() if self.rewinds else []
        assert set(self.store.unrewind(self.session)) == {entry.id for entry in back}
        for entry in back:
            entry.shown = True

    @rule(data=st.data(), usage=st.integers(1, 50))
    def compact(self, data: st.DataObject, usage: int) -> None:
        choices = [None, *(entry.id for entry in self.visible())]
        tail = data.draw(st.sampled_from(choices))
        marker = self.store.compact(self.session, "sum", tail_start=tail, summary_tokens=usage)
        entry = Entry(marker.id, "", usage)
        entry.marker, entry.tail = True, tail
        self.entries.append(entry)
        self.spent += usage

    @rule(again=st.booleans())
    def fork(self, again: bool) -> None:  # noqa: FBT001
        branch = self.store.fork(self.session)
        if again:
            branch = self.store.fork(branch)
        for view in ("transcript", "model"):
            assert texts(self.store, branch, view) == texts(self.store, self.session, view)
        assert branch.total_tokens == total(self.factory, self.store, self.session)
        assert self.store.queued(branch) == []
        self.store.delete(branch)

    @invariant()
    def transcript_is_what_is_visible(self) -> None:
        assert texts(self.store, self.session) == [entry.text for entry in self.visible()]

    @invariant()
    def model_sees_the_context(self) -> None:
        expected = ["sum" if entry.marker else entry.text for entry in self.context()]
        assert texts(self.store, self.session, "model") == expected

    @invariant()
    def sums_follow_the_context(self) -> None:
        expected = sum(entry.usage for entry in self.context())
        assert total(self.factory, self.store, self.session) == expected
        used, _ = self.store.spend(self.session)
        assert sum(used.values()) == self.spent

    @invariant()
    def queue_is_in_order(self) -> None:
        queued = [message.id for message in self.store.queued(self.session)]
        assert sorted(queued) == sorted(entry.id for entry in self.waiting())


def test_anything_in_any_order_is_what_a_list_in_memory_says(store_engine: str) -> None:
    run_state_machine_as_test(
        partial(Conversation, store_engine),  # type: ignore[arg-type]  # anything that makes one
        settings=settings(max_examples=examples(15), stateful_step_count=20),
    )
