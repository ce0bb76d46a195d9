"""Size and retention: what takes the space, and letting go of exactly what was meant."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.support.chats import Factory, new_session, text_chunks, turn
from threadkeep.chat import sessions as retention
from threadkeep.chat.records import Session
from threadkeep.chat.store import ChatStore
from threadkeep.errors import Invalid
from threadkeep.testing import NOON, ManualClock

DAY = 86_400_000


@pytest.fixture
def aged(store: ChatStore, clock: ManualClock) -> list[Session]:
    """Five sessions, the oldest first, each a day after the one before."""
    sessions = []
    for day in range(5):
        clock.now = NOON + day * DAY
        session = new_session(store, title=f"day {day}")
        turn(store, session, "question", "answer")
        sessions.append(session)
    return sessions


def left(store: ChatStore) -> list[str]:
    """Return the titles that are left, oldest first."""
    found = store.sessions(archived=None, ephemeral=True).items
    return [str(session.title) for session in reversed(found)]


def taken(report: retention.PruneReport) -> list[object]:
    return [session["title"] for session in report.sessions]


# ---------------------------------------------------------------------- choosing


def test_sessions_older_than_a_time_go(store: ChatStore, aged: list[Session]) -> None:
    report = store.prune(before=NOON + 2 * DAY)
    assert taken(report) == ["day 0", "day 1"]
    assert left(store) == ["day 2", "day 3", "day 4"]
    assert not report.dry_run
    assert report.freed_bytes > 0
    assert store.verify().ok


def test_all_but_the_newest_so_many_go(store: ChatStore, aged: list[Session]) -> None:
    assert taken(store.prune(keep=2)) == ["day 0", "day 1", "day 2"]
    assert left(store) == ["day 3", "day 4"]
    assert store.prune(keep=2).sessions == []
    assert len(store.prune(keep=0).sessions) == 2
    assert left(store) == []


def test_age_and_count_together_take_only_what_is_both(
    store: ChatStore, aged: list[Session]
) -> None:
    assert taken(store.prune(before=NOON + 4 * DAY, keep=4)) == ["day 0"]
    assert taken(store.prune(before=NOON + 2 * DAY, keep=1)) == ["day 1"]


def test_last_change_counts_not_the_beginning(
    store: ChatStore, aged: list[Session], clock: ManualClock
) -> None:
    clock.now = NOON + 9 * DAY
    store.say(aged[0], "still in use")
    assert taken(store.prune(before=NOON + 2 * DAY)) == ["day 1"]


def test_agent_and_archive_narrow_the_choice(
    store: ChatStore, aged: list[Session], clock: ManualClock
) -> None:
    clock.now = NOON + 5 * DAY
    new_session(store, title="other", agent="other")
    store.archive(aged[1])
    assert taken(store.prune(before=NOON + 9 * DAY, archived_only=True)) == ["day 1"]
    assert taken(store.prune(keep=0, agent="other")) == ["other"]
    assert left(store) == ["day 0", "day 2", "day 3", "day 4"]


def test_dry_run_names_the_same_and_touches_nothing(
    store: ChatStore, aged: list[Session], factory: Factory
) -> None:
    before = factory.contents(store)
    dry = store.prune(before=NOON + 2 * DAY, dry_run=True)
    assert dry.dry_run
    assert factory.contents(store) == before
    wet = store.prune(before=NOON + 2 * DAY)
    assert (wet.sessions, wet.freed_bytes) == (dry.sessions, dry.freed_bytes)
    assert dry.sessions[0].keys() == {
        "id",
        "title",
        "updated_at",
        "total_tokens",
        "bytes",
        "parts",
    }


def test_session_that_is_being_recorded_stays(store: ChatStore, aged: list[Session]) -> None:
    with store.record(aged[0]) as recorder:
        recorder.feed({"type": "start"})
        assert taken(store.prune(keep=0)) == ["day 1", "day 2", "day 3", "day 4"]
        for chunk in text_chunks("alive")[1:]:
            recorder.feed(chunk)
    assert len(store.ui_messages(aged[0])) == 3


def test_session_used_again_between_choice_and_deletion_stays(
    store: ChatStore,
    aged: list[Session],
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chosen: list[object] = []

    def describe_then_speak(*given: Any) -> dict[str, object]:
        described = original(*given)
        chosen.append(described["title"])
        if described["title"] == "day 0":
            clock.now = NOON + 9 * DAY
            store.say(aged[0], "wait, I still need this")
        return described

    original = retention._describe
    monkeypatch.setattr(retention, "_describe", describe_then_speak)
    report = store.prune(before=NOON + 2 * DAY)
    assert chosen == ["day 0", "day 1"]
    assert left(store) == ["day 2", "day 3", "day 4", "day 0"]
    assert taken(report) == ["day 1"]


def test_ids_and_titles_of_any_text_can_go(store: ChatStore) -> None:
    new_session(store, session_id="half \ud800", title="half \ud800")
    store.say("half \ud800", "hi")
    assert store.size().largest[0]["title"] == "half \ud800"
    report = store.prune(keep=0)
    assert report.sessions[0]["id"] == "half \ud800"
    assert report.sessions[0]["title"] == "half \ud800"
    assert store.sessions().items == []


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"keep": -1},
        {"keep": "2"},
        {"keep": True},
        {"keep": 1.5},
        {"before": "2026-01-01"},
        {"before": "0"},
        {"before": datetime(2030, 1, 1, tzinfo=UTC)},
        {"before": 1e15},
        {"before": [1]},
        {"before": -1},
        {"keep": 1, "agent": 5},
        {"keep": 1, "agent": ["coder"]},
    ],
    ids=repr,
)
def test_what_makes_no_sense_deletes_nothing(
    store: ChatStore, aged: list[Session], options: dict[str, Any], factory: Factory
) -> None:
    before = factory.contents(store)
    with pytest.raises(Invalid) as caught:
        store.prune(**options)
    assert caught.value.hint
    assert factory.contents(store) == before


# ---------------------------------------------------------------------- size and vacuum


def test_report_counts_rows_and_bytes(
    store: ChatStore, aged: list[Session], factory: Factory
) -> None:
    store.say(aged[3], "x" * 50_000)
    report = store.size()
    assert report.rows["chat_sessions"] == 5
    assert report.rows["chat_messages"] == 11
    assert report.rows["chat_parts"] == len(factory.rows(store, "SELECT id FROM chat_parts"))
    assert report.rows["tk_runs"] == 5
    assert report.largest[0]["session_id"] == aged[3].id
    assert int(str(report.largest[0]["bytes"])) > 50_000
    assert report.content_bytes["chat_parts"] > 50_000
    assert report.file_bytes + report.wal_bytes > 50_000


def test_bytes_are_bytes_not_characters(store: ChatStore) -> None:
    session = new_session(store)
    store.say(session, "日" * 10_000)
    assert 30_000 < int(str(store.size().largest[0]["bytes"])) < 30_100
    assert 30_000 < store.prune(keep=0, dry_run=True).freed_bytes < 30_100
