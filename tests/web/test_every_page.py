"""Every page over the whole demo history, in a real browser, light and dark, large and small.

No error, no violation, nothing loaded from elsewhere, and axe-core has nothing serious to say.
`THREADKEEP_SHOTS=docs/images` keeps the pictures that the documentation shows.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.cli.histories import CLAUDE
from tests.conftest import REPO
from tests.support.npm import installed
from tests.web.conftest import Watched, let_in
from tests.web.site import Site, captured_home

AXE = "4.10.3"
PAGES = {
    "home": "/",
    "sessions": "/sessions",
    "sessions-filtered": '/sessions?q=agent:claude-code "deploy"',
    "session": "/sessions/{session}",
    "waterfall": "/sessions/{session}/waterfall",
    "compare": "/compare?left={session}&right={other}",
    "sessions-grouped": "/sessions?group=project",
    "sql": "/sql?q=SELECT harness, session_id, title FROM tk_sessions ORDER BY entries",
    "projects": "/projects",
    "project": "/projects/harbor",
    "recall": "/recall?q=why do users have to log in again",
    "ask": "/ask?q=why do users have to log in again",
    "timeline": "/timeline?day=2026-02-02",
    "usage": "/usage",
    "memory": "/nodes",
    "node": "/nodes/{node}",
    "entities": "/entities",
    "graph": "/entities/graph",
    "lessons": "/lessons",
    "mail": "/mail",
    "mailbox": "/mail/{mailbox}",
    "health": "/health",
    "logins": "/logins",
}
SHOWN = ("home", "session", "recall", "usage")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    home = tmp_path_factory.mktemp("whole") / "home"
    found = Site(captured_home(home, REPO / "src" / "threadkeep" / "demo" / "history"))
    with found.home.mailroom() as room:
        session = room.new_session("helper", "cli", "me")
        room.host(session).send("hello there", sender="Ann")
    yield found
    found.close()


@pytest.fixture(scope="module")
def addresses(site: Site) -> dict[str, str]:
    """Fill in what only the store knows."""
    told = {
        "session": f"claude-code:{CLAUDE}",
        "other": site.get("/sessions.json?q=agent:codex").json["page"]["items"][0]["ref"],
        "node": site.get("/nodes.json").json["nodes"]["items"][0]["uuid"],
        "mailbox": site.get("/mail.json").json["boxes"][0]["id"],
    }
    return {name: path.format(**told) for name, path in PAGES.items()}


def axe(page: Page, source: str) -> list[str]:
    """Let axe-core judge a page; give what it calls serious or worse."""
    found: list[dict[str, Any]] = page.evaluate(
        source + "; axe.run(document, {resultTypes: ['violations']}).then(r => r.violations)"
    )
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:200]}"
        for one in found
        if one["impact"] in {"serious", "critical"}
    ]


LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1280, "height": 850}, "color_scheme": "light"},
    "dark-phone": {"viewport": {"width": 390, "height": 800}, "color_scheme": "dark"},
}


@pytest.mark.slow
@pytest.mark.parametrize("look", LOOKS)
def test_every_page_is_sound(
    site: Site, browser: Browser, addresses: dict[str, str], look: str
) -> None:
    source = (installed("axe-core", AXE) / "axe-core" / "axe.min.js").read_text()
    context, watched = let_in(browser, site, bypass_csp=False, **LOOKS[look])
    problems = []
    try:
        page = context.new_page()
        for name, path in addresses.items():
            problems += _looked_at(page, name, path, source, watched)
            _keep(page, name, look)
    finally:
        context.close()
    assert problems == []


def _looked_at(page: Page, name: str, path: str, source: str, watched: Watched) -> list[str]:
    answer = page.goto(path)
    page.wait_for_load_state("load")
    assert answer is not None
    assert answer.status == 200, path
    wide = page.evaluate("document.documentElement.scrollWidth > innerWidth + 1")
    problems = [f"{name}: {trouble}" for trouble in watched.troubles]
    problems += [f"{name}: {told}" for told in axe(page, source)]
    problems += [f"{name}: wider than the screen"] * bool(wide)
    watched.troubles.clear()
    return problems


def _keep(page: Page, name: str, look: str) -> None:
    folder = os.environ.get("THREADKEEP_SHOTS")
    if folder and ((look == "light" and name in SHOWN) or not folder.endswith("images")):
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        suffix = "" if folder.endswith("images") else f"-{look}"
        page.screenshot(path=place / f"{name}{suffix}.png")
