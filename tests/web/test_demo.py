"""The demo says that it is one and gives way to a real history; home shows the last active week."""

import shutil
from pathlib import Path

import pytest

from tests.cli.histories import DEMO
from tests.web.site import Site, captured_home
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
