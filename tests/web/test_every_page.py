"""Every page over the whole demo history, in a real browser, light and dark, large and small.

No error, no violation, nothing loaded from elsewhere, nothing to be pushed sideways, and axe-core
has nothing serious to say. `THREADKEEP_SHOTS=docs/images` keeps the pictures of the documentation.
"""

import os
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page

from tests.cli.histories import CLAUDE
from tests.conftest import REPO
from tests.support.npm import installed
from tests.support.pictures import keep_picture
from tests.web.conftest import Watched, let_in
from tests.web.site import Site, captured_home
from threadkeep.cli.history.demo_logs import demo_folder
from threadkeep.home.home import Home

AXE = "4.10.3"
PAGES = {
    "home": "/",
    "sessions": "/sessions",
    "sessions-filtered": '/sessions?q=agent:claude-code "deploy"',
    "sessions-grouped": "/sessions?group=project",
    "session": "/sessions/{session}",
    "session-message": "/sessions/{session}?at={edit}",
    "waterfall": "/sessions/{session}/waterfall",
    "compare": "/compare?left={session}&right={other}",
    "projects": "/projects",
    "project": "/projects/harbor",
    "recall": "/recall?q=why do users have to log in again",
    "ask": "/ask?q=which message broker did we choose for the fog horn",
    "fixed": "/fixed?q=AssertionError",
    "similar": "/similar/{hit}",
    "open": "/open/{command}",
    "timeline": "/timeline?day={day}",
    "usage": "/usage",
    "memory": "/nodes",
    "node": "/nodes/{node}",
    "entities": "/entities",
    "entity": "/entities/{entity}",
    "graph": "/entities/graph",
    "lessons": "/lessons",
    "mail": "/mail",
    "mailbox": "/mail/{mailbox}",
    "health": "/health",
    "logins": "/logins",
    "sql": "/sql?q=SELECT harness, session_id, title, entries FROM tk_sessions ORDER BY entries",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("whole")
    logs = demo_folder(Home(folder / "logs", environ={"TZ": "UTC"}), datetime.now(UTC))
    home = captured_home(folder / "home", logs)
    (home / "config.toml").write_text("[budget]\nmonth = 1.0\n")
    found = Site(home)
    failed = ("--cmd", "make test", "--exit", "2", "--duration-ms", "4200")
    for _ in range(3):
        found.run("send-event", "shell", *failed, "--cwd", "/home/demo/code/harbor")
    found.run("commands", "--limit", "1")  # which collects them
    found.run("label", f"claude-code:{CLAUDE}", "--star", "flaky", "--note", "Time zones!")
    found.run("mail", "new", "helper", "--channel", "cli", "--chat", "me")
    found.run("mail", "send", "last", "Is the tide feed back?", "--from", "Ann")
    found.run("mail", "send", "last", "Report on the board", "--task", "--every", "0 9 * * 1-5")
    found.run("mail", "ack", "last", "2")
    with sqlite3.connect(home / "knowledge.db") as db:
        db.execute("UPDATE tk_sessions SET cwd = '/home/demo/code/harbor' WHERE harness = 'aider'")
        lesson = ("demo/harbor", "ruff", "F401", "harbor", "an import that nothing uses")
        fix = "`ruff check --fix`; then `make lint` passed"
        db.execute(
            "INSERT INTO lessons (repo, tool, rule_id, path_prefix, summary, fix_hint, occurrences,"
            " first_seen_at, last_seen_at) VALUES (?, ?, ?, ?, ?, ?, 4, 0, ?)",
            (*lesson, fix, round(datetime.now(UTC).timestamp() * 1000)),
        )
    db.close()
    yield found
    found.close()


@pytest.fixture(scope="module")
def addresses(site: Site) -> dict[str, str]:
    """Fill in what only the store knows."""
    session = f"claude-code:{CLAUDE}"
    codex = site.get("/sessions.json?q=agent:codex").json["page"]["items"][0]
    messages = site.get(f"/sessions/{session}.json").json["window"]["messages"]
    recalled = site.get("/recall.json?q=flaky").json["hits"]
    commands = site.get("/recall.json?q=make&kind=command").json["hits"]
    told = {
        "session": session,
        "other": codex["ref"],
        "edit": quote(next(one["key"] for one in messages if one["tool"] == "Edit"), safe=""),
        "hit": recalled[0]["hit"]["ref"],
        "command": commands[0]["hit"]["ref"],
        "day": str(datetime.now(UTC).date()),
        "node": site.get("/nodes.json").json["nodes"]["items"][0]["uuid"],
        "entity": site.get("/entities.json?type=project").json["entities"][0]["id"],
        "mailbox": site.get("/mail.json").json["boxes"][0]["id"],
    }
    return {name: path.format(**told) for name, path in PAGES.items()}


def axe(page: Page, **options: Any) -> list[str]:
    """Let axe-core judge a page; give what it calls serious or worse."""
    found: list[dict[str, Any]] = page.evaluate(
        "options => axe.run(document, options).then(r => r.violations)",
        {"resultTypes": ["violations"], **options},
    )
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:200]}"
        for one in found
        if one["impact"] in {"serious", "critical"}
    ]


# The size of the window, and smaller ones in which nothing may be wider than the screen either.
LOOKS = {"": ((1280, 850), ()), "phone": ((390, 800), (360, 320))}


@pytest.mark.slow
@pytest.mark.parametrize("look", LOOKS)
def test_every_page_is_sound(
    site: Site, browser: Browser, addresses: dict[str, str], look: str
) -> None:
    """A page is loaded in light and then seen in the dark, where only its colours are others."""
    source = (installed("axe-core", AXE) / "axe-core" / "axe.min.js").read_text()
    (width, height), narrower = LOOKS[look]
    size: Any = {"width": width, "height": height}
    context, watched = let_in(browser, site, viewport=size, color_scheme="light")
    problems = []
    try:
        page = context.new_page()
        for name, path in addresses.items():
            found = _looked_at(page, path, watched)
            page.evaluate(source)
            found += axe(page)
            _keep(page, name, look)
            page.emulate_media(color_scheme="dark")
            found += [f"in the dark: {told}" for told in axe(page, runOnly=["color-contrast"])]
            _keep(page, name, look, "dark")
            page.emulate_media(color_scheme="light")
            for less in narrower:
                page.set_viewport_size({"width": less, "height": height})
                found += _too_wide(page)
            page.set_viewport_size(size)
            problems += [f"{name}: {told}" for told in found]
    finally:
        context.close()
    assert problems == []


def test_the_documentation_shows_every_page() -> None:
    """Whoever adds a page takes its pictures: see the beginning of this module."""
    shown = (REPO / "docs" / "pictures.md").read_text()
    for name in PAGES:
        for look in ("", "-dark", "-phone", "-phone-dark"):
            assert f"](images/{name}{look}.png)" in shown
            assert (REPO / "docs" / "images" / f"{name}{look}.png").is_file()


def _looked_at(page: Page, path: str, watched: Watched) -> list[str]:
    answer = page.goto(path)
    page.wait_for_load_state("load")
    page.wait_for_function("!document.querySelector('[hx-trigger^=load]:not([data-hx])')")
    assert answer is not None
    assert answer.status == 200, path
    problems = [*watched.troubles, *_too_wide(page)]
    watched.troubles.clear()
    return problems


def _too_wide(page: Page) -> list[str]:
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return [f"wider than a screen of {page.evaluate('innerWidth')} by {wide}"] * (wide > 0)


def _keep(page: Page, *names: str) -> None:
    if folder := os.environ.get("THREADKEEP_SHOTS"):
        keep_picture(page, Path(folder) / f"{'-'.join(filter(None, names))}.png")
