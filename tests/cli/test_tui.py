"""The terminal browser, driven by its keys: what a person sees and what becomes of it."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner
from textual.pilot import Pilot
from textual.widgets import DataTable, Input, OptionList, RichLog, Static

from tests.cli.conftest import HOSTILE, Run
from tests.cli.histories import DEMO
from threadkeep.base import json
from threadkeep.cli.command import Call
from threadkeep.cli.root import cli
from threadkeep.cli.tui import command
from threadkeep.cli.tui.app import RecallScreen, SessionsScreen, TailScreen, Tui
from threadkeep.cli.tui.session import MessageWidget, SessionScreen, TuiContext
from threadkeep.home.home import Home
from threadkeep.knowledge.query import Query

Drive = Callable[[Pilot[str]], Awaitable[None]]
SIZE = (140, 40)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Home:
    folder = tmp_path_factory.mktemp("home")
    home = Home(folder, environ={"HOME": str(folder), "TZ": "UTC"})
    with home.history(user_home=DEMO) as history:
        history.capture()
    return home


@pytest.fixture
def around(demo: Home) -> Iterator[TuiContext]:
    with ExitStack() as stack:
        yield command.opened(Call(demo, None, as_json=False), stack, capture=False)


def driven(around: TuiContext, drive: Drive, typed: str = "") -> str | None:
    """Start it, press keys, and give what it ended with."""

    async def run() -> str | None:
        app = Tui(around, typed)
        async with app.run_test(size=SIZE) as pilot:
            await pilot.pause()
            await drive(pilot)
        return app.return_value

    return asyncio.run(run())


def listed(pilot: Pilot[str]) -> list[str]:
    table = pilot.app.screen.query_one(DataTable)
    return [" ".join(str(cell) for cell in table.get_row_at(n)) for n in range(table.row_count)]


def chosen(pilot: Pilot[str]) -> MessageWidget:
    return pilot.app.screen.query_one(".chosen", MessageWidget)


def said(pilot: Pilot[str], where: str) -> str:
    return str(pilot.app.screen.query_one(where, Static).render())


def test_sessions_are_listed_filtered_and_read_with_the_keys_of_the_page(
    around: TuiContext,
) -> None:
    async def drive(pilot: Pilot[str]) -> None:
        everything = listed(pilot)
        assert len(everything) > 5
        await pilot.press("slash", *"agent:codex")
        filtered = listed(pilot)
        assert 0 < len(filtered) < len(everything)
        assert all(" codex " in row for row in filtered)
        await pilot.press("enter", "j", "k", "enter")
        await pilot.pause()
        assert isinstance(pilot.app.screen, SessionScreen)
        assert "codex" in said(pilot, "#head")
        first = chosen(pilot).message.position
        await pilot.press("j")
        assert chosen(pilot).message.position == first + 1
        await pilot.press("G")
        last = chosen(pilot).message.position
        await pilot.press("j")
        assert chosen(pilot).message.position == last > first
        await pilot.press("K")
        assert chosen(pilot).message.part == "prompt"
        await pilot.press("g")
        assert chosen(pilot).message.position == 0
        await pilot.press("escape", "escape")
        assert isinstance(pilot.app.screen, SessionsScreen)
        assert listed(pilot) == everything

    assert driven(around, drive) is None


def test_words_are_found_in_a_session_one_after_the_other(around: TuiContext) -> None:
    async def drive(pilot: Pilot[str]) -> None:
        await pilot.press("enter")
        await pilot.pause()
        await pilot.press("slash", *"slow query", "enter")
        await pilot.pause()
        places = [chosen(pilot).message.position]
        await pilot.press("n")
        places.append(chosen(pilot).message.position)
        assert places[0] != places[1]
        await pilot.press("N")
        assert chosen(pilot).message.position == places[0]
        assert "slow" in chosen(pilot).message.text.lower()

    driven(around, drive, "slow query agent:codex")


def test_the_newer_and_the_older_session_are_a_key_away(around: TuiContext) -> None:
    async def drive(pilot: Pilot[str]) -> None:
        rows = listed(pilot)
        await pilot.press("enter")
        await pilot.pause()
        newest = said(pilot, "#head")
        await pilot.press("right_square_bracket")
        await pilot.pause()
        older = said(pilot, "#head")
        assert older.splitlines()[0] in rows[1]
        await pilot.press("left_square_bracket")
        await pilot.pause()
        assert said(pilot, "#head") == newest

    driven(around, drive)


def test_a_recalled_message_opens_in_its_session(around: TuiContext) -> None:
    async def drive(pilot: Pilot[str]) -> None:
        await pilot.press("r")
        await pilot.pause()
        assert isinstance(pilot.app.screen, RecallScreen)
        pilot.app.screen.query_one(Input).value = "departures slow kind:message"
        await pilot.press("enter")
        await pilot.pause()
        hits = pilot.app.screen.query_one(OptionList)
        assert hits.option_count > 0
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(pilot.app.screen, SessionScreen)
        text = chosen(pilot).message.text.lower()
        assert "departures" in text or "slow" in text

    driven(around, drive)


def test_a_session_is_starred_exported_and_continued_elsewhere(
    around: TuiContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))

    async def drive(pilot: Pilot[str]) -> None:
        await pilot.press("s")
        assert "★" in listed(pilot)[0]
        await pilot.press("e")
        await pilot.press("c")
        await pilot.pause()
        agents = pilot.app.screen.query_one(OptionList)
        names = [str(agents.get_option_at_index(n).prompt) for n in range(agents.option_count)]
        for _ in range(names.index("codex")):
            await pilot.press("j")
        await pilot.press("enter")

    command = driven(around, drive)
    assert command is not None
    assert "codex resume" in command
    (written,) = tmp_path.glob("*.md")
    assert written.read_text("utf-8").startswith("# ")
    assert written.stat().st_mode & 0o777 == 0o600


def test_what_agents_write_is_followed_and_cannot_harm_the_terminal(
    around: TuiContext, demo: Home, tmp_path: Path
) -> None:
    async def drive(pilot: Pilot[str]) -> None:
        await pilot.press("f")
        await pilot.pause()
        screen = pilot.app.screen
        assert isinstance(screen, TailScreen)
        lines = screen.query_one(RichLog).lines
        before = len(lines)
        assert before > 0
        log = tmp_path / "user" / ".claude" / "projects" / "-p" / "5e550000-0.jsonl"
        log.parent.mkdir(parents=True)
        log.write_bytes(_line(f"A new prompt {HOSTILE}"))
        with demo.history(user_home=tmp_path / "user") as history:
            history.capture()
        screen.look()
        await pilot.pause()
        shown = "".join(strip.text for strip in lines[before:])
        assert "A new prompt" in shown
        assert not {"\x1b", "\x07", "\u202e"} & set(shown)

    driven(around, drive)


def test_a_session_that_is_forgotten_meanwhile_is_told_of_and_the_browser_stays(
    tmp_path: Path,
) -> None:
    log = tmp_path / "user" / ".claude" / "projects" / "-p" / "5e550000-0.jsonl"
    log.parent.mkdir(parents=True)
    log.write_bytes(_line("A prompt"))
    home = Home(tmp_path / "home", environ={"HOME": str(tmp_path), "TZ": "UTC"})

    def forget() -> None:
        with home.history(user_home=tmp_path / "user") as history:
            history.forget(Query(agent=("claude-code",)))

    async def drive(pilot: Pilot[str]) -> None:
        assert len(listed(pilot)) == 1
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(pilot.app.screen, SessionScreen)
        forget()
        await pilot.press("s", "G", "c", "slash", "x", "enter")
        await pilot.pause()
        assert isinstance(pilot.app.screen, SessionScreen)
        await pilot.press("escape", "escape", "enter", "c")
        await pilot.pause()
        assert isinstance(pilot.app.screen, SessionsScreen)

    with home.history(user_home=tmp_path / "user") as history:
        history.capture()
    with ExitStack() as stack:
        driven(command.opened(Call(home, None, as_json=False), stack, capture=False), drive)


def _line(text: str) -> bytes:
    message = {"role": "user", "content": text}
    record = {"type": "user", "uuid": "u1", "sessionId": "5e550000-0", "message": message}
    return json.encode(record | {"timestamp": "2026-03-07T10:00:00Z", "cwd": "/p"}).encode() + b"\n"


def test_without_its_package_or_a_terminal_it_says_what_to_do(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "needs a terminal" in run("tui", code=2).stderr
    monkeypatch.setattr(command, "find_spec", lambda _: None)
    done = CliRunner().invoke(cli, ["tui"])
    assert "pip install 'threadkeep[tui]'" in done.stderr
