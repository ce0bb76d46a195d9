"""Messengers, hand-overs, topics and values by key, in files of ours and of newer programs."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.newer_states import opened_form
from tests.support.states import Clock, Factory
from threadkeep.state.session_db import SessionDB

KEY = "agent:main:telegram:dm:7"


@pytest.fixture
def db(factory: Factory, clock: Clock, form: str | int) -> Iterator[SessionDB]:
    with opened_form(factory, form, clock) as opened:
        yield opened


def talked(db: SessionDB, session_id: str, source: str = "telegram", **peer: Any) -> None:
    db.create_session(session_id, source)
    if peer:
        db.record_gateway_session_peer(session_id, source=source, **peer)
    db.append_message(session_id, "user", f"in {session_id}")


def test_a_hand_over_is_claimed_once_and_asked_for_again_only_when_it_ended(db: SessionDB) -> None:
    db.create_session("s", "cli")
    assert db.get_handoff_state("nobody") is None
    assert db.request_handoff("s", "discord")
    assert not db.request_handoff("s", "slack")
    assert [one["id"] for one in db.list_pending_handoffs()] == ["s"]
    assert (db.claim_handoff("s"), db.claim_handoff("s")) == (True, False)
    db.fail_handoff("s", "x" * 900)
    state = db.get_handoff_state("s")
    assert state == {"state": "failed", "platform": "discord", "error": "x" * 500}
    assert db.request_handoff("s", "slack")
    db.complete_handoff("s")
    assert db.get_handoff_state("s") == {"state": "completed", "platform": "slack", "error": None}


def test_a_conversation_finds_its_session_but_never_behind_a_reset(
    db: SessionDB, clock: Clock
) -> None:
    peer = {"session_key": KEY, "chat_id": "7", "chat_type": "dm", "user_id": "ada"}
    talked(db, "old", **peer)
    clock.now += 10
    talked(db, "new", **peer)
    where = {"platform": "Telegram", "chat_id": "7"}
    assert db.find_session_by_origin(**where) == "new"
    assert db.find_session_by_origin(**where, thread_id="9") is None
    found = db.find_latest_gateway_session_for_peer(source="telegram", session_key=KEY)
    assert found is not None
    assert (found["id"], found["chat_id"]) == ("new", "7")
    assert [one["id"] for one in db.list_gateway_sessions(platform="TELEGRAM")] == ["new"]
    clock.now += 10
    db.end_session("new", "session_reset")
    assert db.find_latest_gateway_session_for_peer(source="telegram", session_key=KEY) is None
    assert db.list_gateway_sessions() == []
    assert [one["id"] for one in db.list_gateway_sessions(active_only=False)] == ["new"]


def test_a_chat_of_two_people_gives_neither_the_others_session(db: SessionDB) -> None:
    for user in ("ada", "bob"):
        talked(db, user, session_key=f"{KEY}:{user}", chat_id="7", user_id=user)
    where = {"platform": "telegram", "chat_id": "7"}
    assert db.find_session_by_origin(**where) is None
    assert db.find_session_by_origin(**where, user_id="bob") == "bob"
    assert db.find_session_by_origin(**where, user_id="eve") is None


def test_noting_the_owner_makes_a_missing_session(db: SessionDB) -> None:
    db.record_gateway_session_peer("s", source="discord", session_key="k", display_name="Ada")
    db.record_gateway_session_peer("s", source="discord", session_key="k")
    db.record_gateway_session_peer("t", source="discord")
    found = db.find_latest_gateway_session_for_peer(source="discord", session_key="k")
    assert found is not None
    assert (found["id"], found["display_name"]) == ("s", "Ada")
    assert db.get_session("t") is None
    db.set_expiry_finalized("s")
    assert db.list_gateway_sessions()[0]["expiry_finalized"] == 1


def test_routes_are_kept_by_scope(db: SessionDB) -> None:
    assert db.load_gateway_routing_entries() == {}
    db.delete_gateway_routing_entries(["a"])
    db.save_gateway_routing_entry("a", "{}", scope="x")
    db.save_gateway_routing_entry("a", '{"n": 1}', scope="x")
    db.save_gateway_routing_entry("a", "{}")
    db.replace_gateway_routing_entries({"b": "{}", "": "{}"})
    assert db.load_gateway_routing_entries() == {"b": "{}"}
    db.delete_gateway_routing_entries(["b"])
    assert db.load_gateway_routing_entries() == {}
    assert db.load_gateway_routing_entries(scope="x") == {"a": '{"n": 1}'}


def test_a_session_that_lost_its_key_gets_that_of_the_one_it_goes_on_from(
    db: SessionDB, clock: Clock
) -> None:
    talked(db, "keyed", session_key=KEY, chat_id="7")
    clock.now += 60
    talked(db, "lost")
    (record,) = db.find_orphaned_gateway_sessions()
    assert (record["orphan_id"], record["donor_id"], record["adoptable"]) == ("lost", "keyed", True)
    assert db.find_orphaned_gateway_sessions(max_gap_s=5)[0]["adoptable"] is False
    assert db.adopt_orphaned_gateway_session("lost", "keyed")
    assert not db.adopt_orphaned_gateway_session("lost", "keyed")
    found = db.find_latest_gateway_session_for_peer(source="telegram", session_key=KEY)
    assert found is not None
    assert (found["id"], found["chat_id"], found["parent_session_id"]) == ("lost", "7", "keyed")


def test_two_that_could_go_on_from_one_are_left_alone(db: SessionDB, clock: Clock) -> None:
    talked(db, "keyed", session_key=KEY)
    clock.now += 60
    for name in ("one", "two"):
        talked(db, name)
    records = db.find_orphaned_gateway_sessions()
    assert [record["adoptable"] for record in records] == [False, False]
    assert all("ambiguous" in record["reason"] for record in records)


# ---------------------------------------------------------------------- Telegram


def topic(db: SessionDB, session_id: str, thread_id: str = "t1") -> None:
    db.bind_telegram_topic(
        chat_id="7", thread_id=thread_id, user_id="ada", session_key=KEY, session_id=session_id
    )


def test_a_thread_has_one_session_and_a_session_one_thread(db: SessionDB) -> None:
    for name in ("a", "b"):
        talked(db, name, session_key=f"{KEY}:{name}", user_id="ada")
    db.enable_telegram_topic_mode(chat_id="7", user_id="ada", has_topics_enabled=True)
    assert db.is_telegram_topic_mode_enabled(chat_id="7", user_id="ada")
    unlinked = db.list_unlinked_telegram_sessions_for_user(chat_id="7", user_id="ada")
    assert {one["id"]: one["preview"] for one in unlinked} == {"a": "in a", "b": "in b"}
    topic(db, "a")
    topic(db, "a")
    with pytest.raises(ValueError, match="another Telegram topic"):
        topic(db, "a", "t2")
    assert db.is_telegram_session_linked_to_topic(session_id="a")
    bound = db.get_telegram_topic_binding_by_session(session_id="a")
    assert bound is not None
    assert (bound["thread_id"], bound["managed_mode"]) == ("t1", "auto")
    topic(db, "b")
    assert not db.is_telegram_session_linked_to_topic(session_id="a")
    assert db.delete_telegram_topic_binding(chat_id="7", thread_id="t1") == 1
    assert not db.is_telegram_topic_mode_enabled(chat_id="7", user_id="ada")
