"""Index: what is about the files of SQLite."""

import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from threading import Barrier
from typing import Any, get_args

import pytest
from hypothesis import given, settings, strategies as st

from tests.lengths import examples
from tests.support.children import Child
from threadkeep.base.clock import iso
from threadkeep.errors import Closed, Conflict, Invalid, NotFound, ReadOnly, SchemaMismatch
from threadkeep.mailbox.index import MailIndex
from threadkeep.mailbox.index_records import AgentGroup, MailboxSession, MessagingGroup, SessionMode
from threadkeep.mailbox.records import Destination
from threadkeep.testing import NOON, ManualClock, raw, rows

MODES = get_args(SessionMode)
WRONG: Any = "wrong"
OPTIONS = [{"label": "Yes", "value": "y"}, {"label": "No", "value": "n"}]


def open_index(path: Path, **options: Any) -> MailIndex:
    return MailIndex.open(path, clock=ManualClock(), random=Random(7).randrange, **options)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[MailIndex]:
    with open_index(tmp_path / "mailbox.db") as opened:
        yield opened


@pytest.fixture
def agent(index: MailIndex) -> AgentGroup:
    group: AgentGroup = index.add_agent_group("Helper", provider="acme")
    return group


@pytest.fixture
def chat(index: MailIndex) -> MessagingGroup:
    group: MessagingGroup = index.add_messaging_group(
        "telegram", "-100", name="The Family", is_group=True
    )
    return group


@pytest.fixture
def session(index: MailIndex, agent: AgentGroup, chat: MessagingGroup) -> MailboxSession:
    found: MailboxSession = index.resolve_session(agent.id, chat.id)[0]
    return found


def ask(index: MailIndex, session: MailboxSession, question_id: str = "q1", **fields: Any) -> bool:
    kept: bool = index.add_question(
        question_id,
        **{
            "session_id": session.id,
            "message_out_id": "msg-1-aaaaaa",
            "title": "Deploy?",
            "options": OPTIONS,
            **fields,
        },
    )
    return kept


# ---------------------------------------------------------------------- the file


def test_a_fresh_file_has_a_log_a_version_and_its_rules(index: MailIndex) -> None:
    assert rows(index, "PRAGMA user_version") == [{"user_version": 2}]
    assert rows(index, "PRAGMA journal_mode") == [{"journal_mode": "wal"}]
    names = {row["name"] for row in rows(index, "SELECT name FROM sqlite_master")}
    assert names >= {"agent_groups", "messaging_groups", "messaging_group_agents", "sessions"}
    assert names >= {"agent_destinations", "pending_questions"}


def everything(index: MailIndex, agent: AgentGroup) -> list[Any]:
    return [
        index.agent_groups(),
        index.messaging_groups(),
        index.agents_of("telegram", "-100"),
        index.sessions(),
        index.destinations(agent.id),
        index.question("q1"),
    ]


def test_opening_the_file_again_gives_everything_back(
    index: MailIndex, agent: AgentGroup, chat: MessagingGroup, session: MailboxSession
) -> None:
    index.wire(chat.id, agent.id, session_mode="per-thread", priority=3)
    ask(index, session)
    before = everything(index, agent)
    assert all(before)
    index.close()
    with open_index(index.path) as again:
        assert everything(again, agent) == before
    with open_index(index.path, read_only=True) as looking:
        assert everything(looking, agent) == before
        with pytest.raises(ReadOnly):
            looking.add_agent_group("Another")


def test_a_closed_index_says_so(index: MailIndex) -> None:
    index.close()
    with pytest.raises(Closed):
        index.agent_groups()


def test_a_file_from_before_zones_is_read_as_it_is_and_brought_up(index: MailIndex) -> None:
    group = index.add_agent_group("Ann")
    index.close()
    with raw(index) as connection:
        connection.execute("ALTER TABLE agent_groups DROP COLUMN zone")
        connection.execute("PRAGMA user_version = 1")
    with open_index(index.path, read_only=True) as looking:
        assert looking.agent_group("Ann") == group
        assert looking.zone("Ann") is None
    with open_index(index.path) as again:
        again.set_zone("Ann", "Europe/Madrid")
        assert again.zone(group.id) == "Europe/Madrid"
        with pytest.raises(Invalid, match="not known here"):
            again.set_zone("Ann", "Nowhere/Land")
        again.set_zone("Ann", None)
        assert again.zone(group.id) is None
    assert rows(index, "PRAGMA user_version") == [{"user_version": 2}]


@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_of_a_newer_program_is_refused_and_not_touched(
    index: MailIndex, *, read_only: bool
) -> None:
    index.close()
    with raw(index) as connection:
        connection.execute("PRAGMA user_version = 3")
    with pytest.raises(SchemaMismatch, match="version 3"):
        open_index(index.path, read_only=read_only)
    assert rows(index, "PRAGMA user_version") == [{"user_version": 3}]


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize(
    "script",
    [
        "CREATE TABLE notes(body); PRAGMA user_version = 1;",
        "CREATE TABLE messaging_group_agents(id); CREATE TABLE schema_version(version);",
    ],
    ids=["strange", "nanoclaw"],
)
def test_a_file_that_is_no_index_is_refused_and_not_touched(
    tmp_path: Path, script: str, *, read_only: bool
) -> None:
    path = tmp_path / "v2.db"
    with raw(path) as connection:
        connection.executescript(script)
    before = rows(path, "SELECT * FROM sqlite_master")
    with pytest.raises(Invalid, match=r"v2\.db is"):
        open_index(path, read_only=read_only)
    assert rows(path, "SELECT * FROM sqlite_master") == before


# ---------------------------------------------------------------------- agent groups


def test_an_agent_group_has_an_id_and_a_folder_of_its_own(index: MailIndex) -> None:
    group = index.add_agent_group("Ops Team", provider="acme")
    assert group.id.startswith(f"ag-{NOON + 1}-")
    assert group == AgentGroup(group.id, "Ops Team", "ops-team", "acme", iso(NOON + 1))
    assert index.agent_group(group.id) == group == index.agent_group("Ops Team")
    assert index.agent_groups() == [group]


def test_folders_never_meet_whatever_the_names_are(index: MailIndex) -> None:
    names = ["Ops", "ops", "OPS!", "家族", "??"]
    folders = [index.add_agent_group(name).folder for name in names]
    assert folders == ["ops", "ops-2", "ops-3", "unnamed", "unnamed-2"]


def test_a_folder_and_an_id_can_be_given(index: MailIndex) -> None:
    group = index.add_agent_group("Main", folder="Main_1", group_id="ag-old")
    assert (group.id, group.folder) == ("ag-old", "Main_1")
    with pytest.raises(Conflict, match="folder"):
        index.add_agent_group("Other", folder="main_1")
    with pytest.raises(Conflict, match="ag-old"):
        index.add_agent_group("Other", group_id="ag-old")
    assert index.agent_groups() == [group]


@pytest.mark.parametrize("bad", ["", " ", ".", "..", "a/b", "/etc", "a\\b", "a\0b", "x" * 300])
def test_what_cannot_name_a_folder_is_refused(index: MailIndex, bad: str) -> None:
    with pytest.raises(Invalid):
        index.add_agent_group("Main", folder=bad)
    with pytest.raises(Invalid):
        index.add_agent_group("Main", group_id=bad)
    assert index.agent_groups() == []


@pytest.mark.parametrize("bad", ["", "  ", None, 7, "half \ud800"])
def test_a_group_without_a_name_is_refused(index: MailIndex, bad: Any) -> None:
    with pytest.raises(Invalid):
        index.add_agent_group(bad)
    with pytest.raises(Invalid):
        index.agent_group(bad)
    assert index.agent_groups() == []


def test_a_name_that_two_groups_have_is_no_reference(index: MailIndex) -> None:
    first, second = index.add_agent_group("Twin"), index.add_agent_group("Twin")
    with pytest.raises(Conflict, match=f"{first.id}, {second.id}"):
        index.agent_group("Twin")
    assert index.agent_group(second.id) == second


def test_an_unknown_group_is_named_in_the_error(index: MailIndex) -> None:
    with pytest.raises(NotFound, match="'nobody'") as caught:
        index.agent_group("nobody")
    assert "add_agent_group" in caught.value.hint


# ---------------------------------------------------------------------- chats and wirings


def test_a_chat_is_added_once(index: MailIndex) -> None:
    first = index.add_messaging_group("slack", "C1")
    assert first == MessagingGroup(first.id, "slack", "C1", None, False, first.created_at)  # noqa: FBT003
    assert first.id.startswith("mg-")
    assert index.add_messaging_group("slack", "C1") == first
    assert index.add_messaging_group("telegram", "C1").id != first.id
    assert len(index.messaging_groups()) == 2


def test_adding_a_chat_again_can_only_add_what_is_known_of_it(index: MailIndex) -> None:
    chat = index.add_messaging_group("slack", "C1", name="Old", is_group=True)
    index.add_messaging_group("slack", "C1")
    assert index.messaging_group(chat.id) == chat
    index.add_messaging_group("slack", "C1", name="New")
    renamed = index.messaging_group_at("slack", "C1")
    assert renamed is not None
    assert (renamed.id, renamed.name, renamed.is_group) == (chat.id, "New", True)


def test_a_chat_must_have_a_place(index: MailIndex) -> None:
    places: list[Any] = [("", "C1"), ("slack", ""), ("slack", None)]
    for place in places:
        with pytest.raises(Invalid):
            index.add_messaging_group(*place)
    with pytest.raises(Invalid, match="chat name"):
        index.add_messaging_group("slack", "C1", name="")
    assert index.messaging_groups() == []
    assert index.messaging_group_at("slack", "C1") is None
    with pytest.raises(NotFound, match="mg-0"):
        index.messaging_group("mg-0")


def test_wiring_gives_the_agent_the_chat_and_a_way_to_send_there(
    index: MailIndex, agent: AgentGroup, chat: MessagingGroup
) -> None:
    assert index.agents_of("telegram", "-100") == []
    wiring = index.wire(chat.id, agent.id)
    assert (wiring.messaging_group_id, wiring.agent_group_id) == (chat.id, agent.id)
    assert (wiring.session_mode, wiring.priority) == ("shared", 0)
    assert index.agents_of("telegram", "-100") == [wiring]
    assert index.destinations(agent.id) == [
        Destination("the-family", "The Family", "channel", "telegram", "-100", None)
    ]


def test_wiring_again_changes_mode_and_priority_only(
    index: MailIndex, agent: AgentGroup, chat: MessagingGroup
) -> None:
    first = index.wire(chat.id, agent.id)
    again = index.wire(chat.id, "Helper", session_mode="agent-shared", priority=4)
    assert (again.id, again.created_at) == (first.id, first.created_at)
    assert (again.session_mode, again.priority) == ("agent-shared", 4)
    assert index.agents_of("telegram", "-100") == [again]
    assert len(index.destinations(agent.id)) == 1


def test_the_highest_priority_comes_first_then_the_oldest(
    index: MailIndex, chat: MessagingGroup
) -> None:
    for name, priority in [("low", -1), ("first", 5), ("second", 5), ("mid", 0)]:
        index.wire(chat.id, index.add_agent_group(name).id, priority=priority)
    served = [index.agent_group(w.agent_group_id).name for w in index.agents_of("telegram", "-100")]
    assert served == ["first", "second", "mid", "low"]


def test_nobody_serves_an_unknown_chat(index: MailIndex) -> None:
    assert index.agents_of("telegram", "nowhere") == []


def test_a_wiring_needs_both_ends_and_a_known_mode(
    index: MailIndex, agent: AgentGroup, chat: MessagingGroup
) -> None:
    with pytest.raises(NotFound, match="mg-0"):
        index.wire("mg-0", agent.id)
    with pytest.raises(NotFound, match="ag-0"):
        index.wire(chat.id, "ag-0")
    with pytest.raises(Invalid, match="'wrong'"):
        index.wire(chat.id, agent.id, session_mode=WRONG)
    with pytest.raises(Invalid, match="priority"):
        index.wire(chat.id, agent.id, priority=WRONG)
    assert index.agents_of("telegram", "-100") == []
    assert index.destinations(agent.id) == []


# ---------------------------------------------------------------------- sessions


def test_a_session_begins_active_with_its_container_stopped(
    index: MailIndex, agent: AgentGroup, chat: MessagingGroup
) -> None:
    session, created = index.resolve_session(agent.id, chat.id, "t1", "shared")
    assert created
    assert session.id.startswith("sess-")
    assert session == MailboxSession(
        session.id, agent.id, chat.id, None, "acme", "active", "stopped", None, session.created_at
    )
    assert index.session(session.id) == session


def test_a_shared_session_is_the_same_for_every_thread(
    index: MailIndex, agent: AgentGroup, chat: MessagingGroup, session: MailboxSession
) -> None:
    for thread in (None, "t1", "t2"):
        assert index.resolve_session(agent.id, chat.id, thread) == (session, False)
    other = index.add_messaging_group("telegram", "-200")
    assert index.resolve_session(agent.id, other.id)[1]
    assert index.resolve_session(index.add_agent_group("Second").id, chat.id)[1]


def test_each_thread_has_its_session(
    index: MailIndex, agent: AgentGroup, chat: MessagingGroup
) -> None:
    found = [index.resolve_session(agent.id, chat.id, t, "per-thread") for t in ("a", "b", None)]
    assert [created for _, created in found] == [True, True, True]
    assert [session.thread_id for session, _ in found] == ["a", "b", None]
    again = [index.resolve_session(agent.id, chat.id, t, "per-thread") for t in ("a", "b", None)]
    assert again == [(session, False) for session, _ in found]


def test_an_agent_shared_session_is_the_newest_of_all_chats(
    index: MailIndex, agent: AgentGroup, chat: MessagingGroup, session: MailboxSession
) -> None:
    thread, _ = index.resolve_session(agent.id, chat.id, "a", "per-thread")
    other = index.add_messaging_group("slack", "C9")
    assert index.resolve_session(agent.id, other.id, "x", "agent-shared") == (thread, False)
    assert index.resolve_session(agent.id, None, None, "agent-shared") == (thread, False)
    index.close_session(thread.id)
    assert index.resolve_session(agent.id, other.id, "x", "agent-shared") == (session, False)


def test_the_newest_of_one_moment_is_the_one_begun_last(tmp_path: Path) -> None:
    clock = ManualClock(step=0)
    with MailIndex.open(tmp_path / "mailbox.db", clock=clock) as index:
        agent, chat = index.add_agent_group("A"), index.add_messaging_group("slack", "C")
        begun = [index.resolve_session(agent.id, chat.id, t, "per-thread")[0] for t in "abcdef"]
        assert index.newest_active_session(agent.id) == begun[-1]
        assert index.sessions() == begun


def test_a_group_without_a_chat_has_one_session_of_its_own(
    index: MailIndex, agent: AgentGroup, session: MailboxSession
) -> None:
    alone, created = index.resolve_session(agent.id, None)
    assert created
    assert alone.messaging_group_id is None
    assert index.resolve_session(agent.id) == (alone, False)


@pytest.mark.parametrize("mode", MODES)
def test_a_threaded_group_chat_is_cut_by_thread_unless_the_agent_has_one_session(
    index: MailIndex, agent: AgentGroup, chat: MessagingGroup, mode: SessionMode
) -> None:
    session, _ = index.resolve_session(agent.id, chat.id, "t1", mode, threaded=True)
    assert session.thread_id == (None if mode == "agent-shared" else "t1")


@pytest.mark.parametrize("mode", MODES)
def test_a_private_chat_is_cut_as_it_was_wired(
    index: MailIndex, agent: AgentGroup, mode: SessionMode
) -> None:
    private = index.add_messaging_group("slack", "D1")
    session, _ = index.resolve_session(agent.id, private.id, "t1", mode, threaded=True)
    assert session.thread_id == ("t1" if mode == "per-thread" else None)


@pytest.mark.parametrize("mode", MODES)
def test_a_closed_session_is_never_resolved(
    index: MailIndex, agent: AgentGroup, chat: MessagingGroup, mode: SessionMode
) -> None:
    old, _ = index.resolve_session(agent.id, chat.id, "t", mode)
    assert index.close_session(old.id).status == "closed"
    assert index.close_session(old.id).status == "closed"
    assert index.newest_active_session(agent.id) is None
    new, created = index.resolve_session(agent.id, chat.id, "t", mode)
    assert created
    assert new.id != old.id
    assert index.newest_active_session(agent.id) == new


def test_a_session_opens_again_unless_another_has_its_place(
    index: MailIndex, agent: AgentGroup, chat: MessagingGroup, session: MailboxSession
) -> None:
    index.close_session(session.id)
    assert index.reopen_session(session.id) == session
    assert index.reopen_session(session.id) == session
    index.close_session(session.id)
    successor, _ = index.resolve_session(agent.id, chat.id)
    with pytest.raises(Conflict, match=successor.id):
        index.reopen_session(session.id)
    assert index.session(session.id).status == "closed"


def test_sessions_are_listed_by_status_and_group(
    index: MailIndex, agent: AgentGroup, chat: MessagingGroup, session: MailboxSession
) -> None:
    second = index.add_agent_group("Second")
    other, _ = index.resolve_session(second.id, chat.id)
    closed = index.close_session(index.resolve_session(agent.id, None)[0].id)
    assert index.sessions() == [session, other, closed]
    assert index.sessions(status="active") == [session, other]
    assert index.sessions(status="closed") == [closed]
    assert index.sessions(agent_group_id=agent.id) == [session, closed]
    assert index.sessions(status="active", agent_group_id=second.id) == [other]
    with pytest.raises(Invalid, match="'wrong'"):
        index.sessions(status=WRONG)
    with pytest.raises(NotFound):
        index.sessions(agent_group_id="ag-0")


def test_the_state_of_the_container_and_the_last_use_are_kept(
    index: MailIndex, session: MailboxSession
) -> None:
    for word in ("running", "idle", "stopped"):
        assert index.set_container_status(session.id, word).container_status == word
    assert index.session(session.id).last_active is None
    index.context.clock.now = NOON + 86_400_000 - 1  # type: ignore[attr-defined]
    assert index.touch(session.id).last_active == iso(NOON + 86_400_000)
    with pytest.raises(Invalid, match="'wrong'"):
        index.set_container_status(session.id, WRONG)


def test_what_does_not_exist_has_no_session(
    index: MailIndex, agent: AgentGroup, chat: MessagingGroup
) -> None:
    with pytest.raises(NotFound, match="ag-0"):
        index.resolve_session("ag-0", chat.id)
    with pytest.raises(NotFound, match="mg-0"):
        index.resolve_session(agent.id, "mg-0")
    with pytest.raises(NotFound, match="ag-0"):
        index.newest_active_session("ag-0")
    with pytest.raises(Invalid, match="'wrong'"):
        index.resolve_session(agent.id, chat.id, None, WRONG)
    with pytest.raises(Invalid, match="thread id"):
        index.resolve_session(agent.id, chat.id, "", "per-thread")
    assert index.sessions() == []


@pytest.mark.parametrize("verb", ["session", "close_session", "reopen_session", "touch"])
@pytest.mark.parametrize("unknown", ["sess-0", "../../etc"])
def test_every_verb_refuses_an_unknown_session(index: MailIndex, verb: str, unknown: str) -> None:
    with pytest.raises(NotFound, match=unknown):
        getattr(index, verb)(unknown)
    with pytest.raises(NotFound):
        index.set_container_status(unknown, "idle")


# ---------------------------------------------------------------------- many at once

_RESOLVE = """
from threadkeep.mailbox.index import MailIndex
path, agent, chat, mode = sys.argv[1:]
with MailIndex.open(path) as index:
    say("ready")
    hear()
    session, created = index.resolve_session(agent, chat, "t1", mode)
    say(f"{session.id} {created}")
"""


@pytest.mark.parametrize("mode", MODES)
def test_two_processes_that_resolve_at_once_get_one_session(
    index: MailIndex, agent: AgentGroup, chat: MessagingGroup, mode: SessionMode
) -> None:
    args = (index.path, agent.id, chat.id, mode)
    with Child(_RESOLVE, *args) as one, Child(_RESOLVE, *args) as two:
        one.expect("ready")
        two.expect("ready")
        with index.context.db.write():  # neither can look before both were told to
            one.tell()
            two.tell()
        answers = [one.hear().split(), two.hear().split()]
    (session,) = index.sessions()
    assert [answer[0] for answer in answers] == [session.id, session.id]
    assert sorted(answer[1] for answer in answers) == ["False", "True"]


@pytest.mark.parametrize("mode", MODES)
def test_threads_that_resolve_at_once_get_one_session(
    index: MailIndex, agent: AgentGroup, chat: MessagingGroup, mode: SessionMode
) -> None:
    start = Barrier(4)

    def resolve(_: int) -> tuple[MailboxSession, bool]:
        start.wait()
        found: tuple[MailboxSession, bool] = index.resolve_session(agent.id, chat.id, "t1", mode)
        return found

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(resolve, range(4)))
    (session,) = index.sessions()
    assert {answer[0] for answer in found} == {session}
    assert [answer[1] for answer in found].count(True) == 1


@pytest.mark.parametrize("thread", [None, "t1"])
@pytest.mark.parametrize("with_chat", [True, False])
def test_the_file_itself_refuses_a_second_active_session_at_one_place(
    index: MailIndex,
    agent: AgentGroup,
    chat: MessagingGroup,
    thread: str | None,
    *,
    with_chat: bool,
) -> None:
    place = chat.id if with_chat else None
    index.resolve_session(agent.id, place, thread, "per-thread")
    sql = (
        "INSERT INTO sessions"
        "(id, agent_group_id, messaging_group_id, thread_id, status, created_at)"
        " VALUES (?, ?, ?, ?, ?, 'now')"
    )
    with raw(index) as connection:
        connection.execute(sql, ("s1", agent.id, place, thread, "closed"))
        with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
            connection.execute(sql, ("s2", agent.id, place, thread, "active"))


Message = tuple[int, str | None, SessionMode, bool, bool]


def expected_place(message: Message, chats: list[MessagingGroup]) -> tuple[str | None, str | None]:
    number, thread, mode, threaded, _ = message
    chat = chats[number]
    by_thread = mode == "per-thread" or (threaded and chat.is_group)
    return chat.id, thread if by_thread else None


MESSAGES = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.sampled_from([None, "a", "b"]),
        st.sampled_from(MODES),
        st.booleans(),
        st.booleans(),
    ),
    max_size=12,
)


@settings(max_examples=examples(25))
@given(MESSAGES)
def test_any_course_of_messages_follows_the_rules(
    tmp_path_factory: pytest.TempPathFactory, messages: list[Message]
) -> None:
    with open_index(tmp_path_factory.mktemp("course") / "mailbox.db") as index:
        agent = index.add_agent_group("A")
        chats = [index.add_messaging_group("slack", f"C{n}", is_group=n == 1) for n in (0, 1)]
        active: dict[tuple[str | None, str | None], str] = {}  # by place, in the order they began
        for message in messages:
            number, thread, mode, threaded, close = message
            session, created = index.resolve_session(
                agent.id, chats[number].id, thread, mode, threaded=threaded
            )
            if mode == "agent-shared":
                wanted = list(active.values())[-1] if active else None
            else:
                wanted = active.get(expected_place(message, chats))
            assert created == (wanted is None)
            assert created or session.id == wanted
            active[session.messaging_group_id, session.thread_id] = session.id
            if close:
                index.close_session(session.id)
                del active[session.messaging_group_id, session.thread_id]
        assert [s.id for s in index.sessions(status="active")] == list(active.values())


# ---------------------------------------------------------------------- destinations


def test_names_of_one_agent_never_meet(index: MailIndex, agent: AgentGroup) -> None:
    for place, name in [("1", "Ops"), ("2", "ops!"), ("3", None), ("4", None)]:
        index.wire(index.add_messaging_group("slack", place, name=name).id, agent.id)
    found = {d.platform_id: (d.name, d.display_name) for d in index.destinations(agent.id)}
    assert found == {
        "1": ("ops", "Ops"),
        "2": ("ops-2", "ops!"),
        "3": ("slack", "slack"),
        "4": ("slack-2", "slack-2"),
    }


def test_two_agents_may_use_the_same_name(
    index: MailIndex, agent: AgentGroup, chat: MessagingGroup
) -> None:
    second = index.add_agent_group("Second")
    for group in (agent, second):
        assert index.add_destination(group.id, "channel", chat.id).name == "the-family"


def test_an_agent_can_be_a_destination(index: MailIndex, agent: AgentGroup) -> None:
    peer = index.add_agent_group("Code Reviewer")
    added = index.add_destination(agent.id, "agent", peer.id)
    assert added == Destination("code-reviewer", "Code Reviewer", "agent", None, None, peer.id)
    assert index.destinations(agent.id) == [added]
    assert index.destinations(peer.id) == []


def test_a_destination_keeps_its_name_and_may_get_others(
    index: MailIndex, agent: AgentGroup, chat: MessagingGroup
) -> None:
    first = index.add_destination(agent.id, "channel", chat.id, name="Home Chat")
    assert first.name == "home-chat"
    assert index.add_destination(agent.id, "channel", chat.id) == first
    assert index.add_destination(agent.id, "channel", chat.id, name="home chat") == first
    index.wire(chat.id, agent.id)
    assert index.destinations(agent.id) == [first]
    assert index.add_destination(agent.id, "channel", chat.id, name="kin").name == "kin"
    assert [d.name for d in index.destinations(agent.id)] == ["home-chat", "kin"]


def test_a_name_is_not_taken_from_another_destination(
    index: MailIndex, agent: AgentGroup, chat: MessagingGroup
) -> None:
    peer = index.add_agent_group("Peer")
    index.add_destination(agent.id, "channel", chat.id, name="peer")
    with pytest.raises(Conflict, match="'peer'"):
        index.add_destination(agent.id, "agent", peer.id, name="Peer")
    assert index.add_destination(agent.id, "agent", peer.id).name == "peer-2"


def test_a_destination_is_removed_by_name(
    index: MailIndex, agent: AgentGroup, chat: MessagingGroup
) -> None:
    index.wire(chat.id, agent.id)
    index.remove_destination(agent.id, "the-family")
    assert index.destinations(agent.id) == []
    assert not index.may_send(agent.id, "telegram", "-100")
    with pytest.raises(NotFound, match="'the-family'"):
        index.remove_destination(agent.id, "the-family")


@pytest.mark.parametrize(
    "kind, target, error",
    [
        ("channel", "mg-0", NotFound),
        ("agent", "ag-0", NotFound),
        ("pigeon", "mg-0", Invalid),
        ("channel", "", Invalid),
    ],
)
def test_a_destination_must_exist(
    index: MailIndex, agent: AgentGroup, kind: Any, target: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        index.add_destination(agent.id, kind, target)
    with pytest.raises(NotFound):
        index.destinations("ag-0")


def test_rows_whose_target_is_gone_are_left_out_and_permit_nothing(
    index: MailIndex, agent: AgentGroup, chat: MessagingGroup
) -> None:
    peer = index.add_agent_group("Peer")
    kept = index.add_messaging_group("slack", "C1", name="Kept")
    for target in (chat, kept):
        index.add_destination(agent.id, "channel", target.id)
    index.add_destination(agent.id, "agent", peer.id)
    with raw(index) as connection:
        connection.execute("DELETE FROM messaging_groups WHERE id = ?", (chat.id,))
        connection.execute("DELETE FROM agent_groups WHERE id = ?", (peer.id,))
    assert [d.name for d in index.destinations(agent.id)] == ["kept"]
    assert not index.may_send(agent.id, "telegram", "-100")
    assert not index.may_reach_agent(agent.id, peer.id)
    again = index.add_agent_group("Peer")
    assert index.add_destination(agent.id, "agent", again.id).name == "peer-2"


def test_an_agent_may_send_where_it_has_a_destination(
    index: MailIndex, agent: AgentGroup, chat: MessagingGroup
) -> None:
    second = index.add_agent_group("Second")
    assert not index.may_send(agent.id, "telegram", "-100")
    index.wire(chat.id, agent.id)
    assert index.may_send(agent.id, "telegram", "-100")
    assert not index.may_send(second.id, "telegram", "-100")
    assert not index.may_send(agent.id, "slack", "-100")
    assert not index.may_send(agent.id, "telegram", "unknown")
    assert not index.may_send(agent.id, "agent", chat.id)


def test_an_agent_may_reach_itself_and_its_destinations_one_way(
    index: MailIndex, agent: AgentGroup
) -> None:
    peer = index.add_agent_group("Peer")
    assert index.may_reach_agent(agent.id, agent.id)
    assert not index.may_reach_agent(agent.id, peer.id)
    index.add_destination(agent.id, "agent", peer.id)
    assert index.may_reach_agent(agent.id, peer.id)
    assert not index.may_reach_agent(peer.id, agent.id)


# ---------------------------------------------------------------------- questions


def test_a_question_waits_with_its_place_and_options(
    index: MailIndex, session: MailboxSession
) -> None:
    place = {"platform_id": "-100", "channel_type": "telegram", "thread_id": "t1"}
    assert ask(index, session, **place)
    found = index.question("q1")
    assert (found.session_id, found.message_out_id) == (session.id, "msg-1-aaaaaa")
    assert (found.title, found.options) == ("Deploy?", OPTIONS)
    assert {name: getattr(found, name) for name in place} == place
    (row,) = rows(index, "SELECT options_json FROM pending_questions")
    assert '"label":"Yes"' in row["options_json"]


def test_a_question_that_is_sent_again_stays_as_it_was(
    index: MailIndex, session: MailboxSession
) -> None:
    assert ask(index, session)
    first = index.question("q1")
    assert not ask(index, session, title="Another?")
    assert index.question("q1") == first


def test_a_question_is_taken_once(index: MailIndex, session: MailboxSession) -> None:
    ask(index, session)
    kept = index.question("q1")
    assert index.take_question("q1") == kept
    for verb in (index.question, index.take_question):
        with pytest.raises(NotFound, match="'q1'"):
            verb("q1")


def test_of_many_who_press_the_button_one_gets_the_question(
    index: MailIndex, session: MailboxSession
) -> None:
    ask(index, session)
    start = Barrier(4)

    def press(_: int) -> bool:
        start.wait()
        try:
            index.take_question("q1")
        except NotFound:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(press, range(4))) == 1


def test_the_questions_of_a_session_are_forgotten_together(
    index: MailIndex, agent: AgentGroup, session: MailboxSession
) -> None:
    other, _ = index.resolve_session(agent.id, None)
    ask(index, session, "q1")
    ask(index, session, "q2")
    ask(index, other, "q3")
    assert index.forget_questions(session.id) == 2
    assert index.forget_questions(session.id) == 0
    assert index.question("q3").session_id == other.id


@pytest.mark.parametrize(
    "fields, error",
    [
        ({"session_id": "sess-0"}, NotFound),
        ({"title": ""}, Invalid),
        ({"options": []}, Invalid),
        ({"options": "yes"}, Invalid),
        ({"options": [float("nan")]}, Invalid),
        ({"message_out_id": ""}, Invalid),
        ({"question_id": ""}, Invalid),
    ],
)
def test_a_question_that_cannot_be_answered_is_refused(
    index: MailIndex, session: MailboxSession, fields: dict[str, Any], error: type[Exception]
) -> None:
    given_id = fields.get("question_id", "q1")
    with pytest.raises(error):
        ask(index, session, given_id, **{k: v for k, v in fields.items() if k != "question_id"})
    assert rows(index, "SELECT * FROM pending_questions") == []


# ---------------------------------------------------------------------- references


@pytest.mark.parametrize(
    "verb",
    [
        lambda index: index.wire("mg-0", "ag-0"),
        lambda index: index.forget_questions("sess-0"),
        lambda index: index.remove_destination("ag-0", "x"),
        lambda index: index.add_destination("ag-0", "agent", "ag-0"),
        lambda index: index.question("q0"),
    ],
)
def test_an_unknown_id_is_an_error_with_a_hint(
    index: MailIndex, verb: Callable[[MailIndex], object]
) -> None:
    with pytest.raises(NotFound) as caught:
        verb(index)
    assert caught.value.hint


def test_a_group_with_sessions_cannot_be_deleted_under_them(
    index: MailIndex, agent: AgentGroup, session: MailboxSession
) -> None:
    with (
        raw(index) as connection,
        pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"),
    ):
        connection.execute("DELETE FROM agent_groups WHERE id = ?", (agent.id,))
