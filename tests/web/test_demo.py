"""The demo says that it is one and gives way to a real history; home shows the last active week."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tests.cli.histories import DEMO
from tests.web.site import Site, captured_home
from threadkeep.cli.history.demo_logs import demo_folder, moved, moved_by
from threadkeep.home.home import Home
from threadkeep.home.statusline import level_of
from threadkeep.home.stores import Stores
from threadkeep.web.pages.home import _own_history


def test_a_home_that_was_quiet_shows_the_last_active_week(tmp_path: Path) -> None:
    site = Site(captured_home(tmp_path / "home"))
    try:
        found = site.get("/index.json").json
        assert found["quiet"]
        assert found["week_sessions"] > 0
        assert any(found["week"].values())
        assert list(found["week"])[-1] == "2026-03-07"
        page = site.get("/").text
        assert "Last active week" in page
        assert "Demo." not in page
    finally:
        site.close()


def test_every_page_of_the_demo_says_that_it_is_one(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    with home.history(home.demo_history, user_home=DEMO) as history:
        history.capture()
    site = Site(tmp_path / "home", str(home.demo_history))
    try:
        ref = site.get("/sessions.json").json["page"]["items"][0]["ref"]
        rooms = (
            "",
            "sessions",
            "projects",
            "recall",
            "timeline",
            "usage",
            "nodes",
            "mail",
            "health",
        )
        for path in (*rooms, "sql", "ask", "fixed", f"sessions/{ref}", f"sessions/{ref}/waterfall"):
            page = site.get(f"/{path}", accept="text/html").text
            assert "<strong>Demo.</strong>" in page, path
            assert "data-own-history" in page, path
    finally:
        site.close()


def test_the_demo_gives_way_to_a_history_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "home")
    with home.history(home.demo_history, user_home=DEMO) as history:
        history.capture()
    stores = Stores(home, str(home.demo_history))
    assert stores.shows_demo
    user = tmp_path / "user"
    monkeypatch.setenv("HOME", str(user))
    monkeypatch.setattr(Path, "home", lambda: user)
    shutil.copytree(DEMO / ".claude", user / ".claude")
    own = Home(tmp_path / "home")
    stores = Stores(own, str(own.demo_history))
    assert _own_history(stores) >= 1
    assert not stores.shows_demo
    agents = {one.session.agent for one in stores.browse().sessions().items}
    assert agents == {"claude-code"}
    stores.close()


def test_a_budget_warns_before_it_is_spent_and_after(tmp_path: Path) -> None:
    assert [level_of(spent, 100) for spent in (0, 79, 80, 100, 101)] == [
        *("", "", "near", "near", "over"),
    ]
    home = captured_home(tmp_path / "home")
    (home / "config.toml").write_text("[budget]\nday = 0.000001\nmonth = 1000\n")
    site = Site(home)
    try:
        budgets = site.get("/usage.json").json["budgets"]
        assert [(one["span"], one["limit"]) for one in budgets] == [
            ("day", 1),
            ("month", 1_000_000_000),
        ]
        assert "Budget for this month" in site.get("/usage").text
    finally:
        site.close()


NOW = datetime(2027, 5, 6, 14, 30, tzinfo=UTC)


def test_the_demo_ends_today_and_is_made_anew_on_another_day(tmp_path: Path) -> None:
    home = Home(tmp_path / "home", environ={"TZ": "UTC"})

    def captured(now: datetime) -> tuple[datetime, set[str]]:
        folder = demo_folder(home, now)
        with home.history(home.demo_history, user_home=folder) as history:
            report = history.capture()
            rows = history.sessions(limit=100)
        assert not report.errors
        ended = max(row.ended_at or 0 for row in rows)
        return datetime.fromtimestamp(ended / 1000, UTC), {row.session_id for row in rows}

    ended, ids = captured(NOW)
    assert NOW - timedelta(hours=6) < ended <= NOW
    assert ended.date() == NOW.date()
    assert not [path.name for path in demo_folder(home, NOW).rglob("*2026*")]
    assert captured(NOW)[0] == ended
    later = NOW + timedelta(days=1, hours=-14)
    ended, again = captured(later)
    assert later - timedelta(hours=1) < ended <= later
    assert len(again) == len(ids)


def test_demos_that_start_at_once_find_the_whole_history(tmp_path: Path) -> None:
    home, alone = (Home(tmp_path / name, environ={"TZ": "UTC"}) for name in ("home", "alone"))

    def seen(home: Home) -> int:
        return sum(path.is_file() for path in demo_folder(home, NOW).rglob("*"))

    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(seen, [home] * 6)) == {seen(alone)}


@given(st.integers(0, 14 * 365 * 24 * 60), st.integers(-12, 14))
def test_a_history_that_is_moved_ends_today_or_in_the_hour_before(minutes: int, hours: int) -> None:
    there = NOW.astimezone(timezone(timedelta(hours=hours))) + timedelta(minutes=minutes)
    text = "2026-03-05T16:45:03.000Z, 2026/03/07, 1772699421000, Wednesday, Mar 4, 2026, 10:20 AM"
    by = moved_by(datetime(2026, 3, 7, 9, 40, 11, tzinfo=UTC), there)
    ended = datetime(2026, 3, 7, 9, 40, 11, tzinfo=UTC) + by
    assert ended <= there
    assert ended.astimezone(there.tzinfo).date() == there.date() or there - ended < timedelta(
        hours=1
    )
    assert moved(moved(text, by), -by) == text
