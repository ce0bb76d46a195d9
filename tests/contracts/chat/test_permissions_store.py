"""Permission rules in a session, judged there, and the verdicts written down with the run."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.chats import Factory, new_session, record, text_chunks
from threadkeep.chat.records import Session
from threadkeep.chat.store import ChatStore
from threadkeep.errors import Invalid, NotFound

Json = dict[str, Any]


def rule(permission: str, pattern: str, action: str, **more: Any) -> Json:
    return {"permission": permission, "pattern": pattern, "action": action, **more}


def test_rules_are_stored_under_the_four_names_of_the_contract(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    given = [
        rule("bash", "ls:*", "allow"),
        rule("edit", "/etc/**", "deny", source="project", added_at=5, note="kept"),
    ]
    assert store.set_permissions(session, given).permissions == [
        {**given[0], "source": "session"},
        given[1],
    ]
    (row,) = factory.rows(store, "SELECT permissions_json FROM chat_sessions")
    assert json.loads(row["permissions_json"]) == [{**given[0], "source": "session"}, given[1]]
    assert store.set_permissions(session, []).permissions == []
    (row,) = factory.rows(store, "SELECT permissions_json FROM chat_sessions")
    assert row["permissions_json"] == "[]"


def test_session_rules_and_given_rules_decide_together(store: ChatStore, session: Session) -> None:
    store.set_permissions(session, [rule("bash", "git push:*", "allow")])
    assert store.judge(session, "bash", "git push origin").action == "allow"
    assert store.judge(session, "bash", "git pull").action == "ask"
    assert store.judge(session, "bash", "git pull", headless=True).action == "deny"
    manifest = [rule("bash", "git push:*", "deny", source="manifest")]
    verdict = store.judge(session, "bash", "git push origin", rules=manifest)
    assert verdict.action == "deny"
    assert verdict.rule == manifest[0]
    assert "manifest" in verdict.reason


def test_parent_deny_never_becomes_a_child_allow(store: ChatStore, session: Session) -> None:
    store.set_permissions(session, [rule("bash", "rm:*", "allow", added_at=9)])
    parent_rules = [rule("bash", "*", "deny")]
    assert store.judge(session, "bash", "rm x", parent_rules=parent_rules).action == "deny"


def test_rules_of_another_program_that_make_no_sense_are_ignored_not_obeyed(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    strange: list[Any] = [5, {"permission": "bash"}, rule("bash", "*", "maybe"), None]
    with factory.raw(store) as other:
        other.execute("UPDATE chat_sessions SET permissions_json = ?", (json.dumps(strange),))
    verdict = store.judge(session, "bash", "ls")
    assert verdict.action == "ask"
    assert len(verdict.considered) == 4
    with factory.raw(store) as other:
        other.execute("UPDATE chat_sessions SET permissions_json = 'broken'")
    assert store.judge(session, "bash", "ls").action == "ask"


def test_verdicts_are_written_down_with_the_run(store: ChatStore, session: Session) -> None:
    store.set_permissions(session, [rule("bash", "ls:*", "allow")])
    with store.record(session) as recorder:
        recorder.feed({"type": "start"})
        store.judge(session, "bash", "ls -l", run_id=recorder.run_id, tool_call_id="c1")
        store.judge(session, "bash", "rm -r /", run_id=recorder.run_id, headless=True)
        store.judge(session, "bash", "not written down")
    (run,) = store.runs(session)
    assert [(v["permission"], v["target"], v["action"]) for v in run.verdicts] == [
        ("bash", "ls -l", "allow"),
        ("bash", "rm -r /", "deny"),
    ]
    assert [v["tool_call_id"] for v in run.verdicts] == ["c1", None]
    assert all(v["reason"] and v["at"] for v in run.verdicts)


def test_judging_alone_changes_nothing(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    before = factory.contents(store)
    store.judge(session, "bash", "ls")
    assert factory.contents(store) == before


def test_judging_needs_no_right_to_write(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    store.set_permissions(session, [rule("bash", "ls:*", "allow")])
    with factory.reopen(store, read_only=True) as reader:
        assert reader.judge(session, "bash", "ls").action == "allow"


def test_run_must_be_one_of_the_session(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    other = new_session(store)
    record(store, other, text_chunks("a"))
    (run,) = store.runs(other)
    before = factory.contents(store)
    for run_id in (run.id, "run_none"):
        with pytest.raises(NotFound, match=run_id) as caught:
            store.judge(session, "bash", "ls", run_id=run_id)
        assert caught.value.hint
    assert factory.contents(store) == before


@pytest.mark.parametrize(
    "bad",
    [
        "allow everything",
        5,
        None,
        [5],
        [{}],
        [rule("bash", "", "allow")],
        [rule("bash", "*", "maybe")],
        [rule("bash", "*", "allow", source="me")],
        [rule("bash", "*", "allow", added_at="today")],
        [rule("bash", "*", "allow"), rule("", "*", "deny")],
        rule("bash", "*", "allow"),
    ],
)
def test_rules_that_make_no_sense_are_refused_whole(
    store: ChatStore, session: Session, bad: Any, factory: Factory
) -> None:
    store.set_permissions(session, [rule("bash", "ls", "allow")])
    before = factory.contents(store)
    calls: list[Callable[[], object]] = [
        lambda: store.set_permissions(session, bad),
        lambda: store.create_session(agent="a", model="p/m", permissions=bad),
    ]
    for call in calls:
        with pytest.raises(Invalid, match="permission rule") as caught:
            call()
        assert caught.value.hint
    assert factory.contents(store) == before
