"""The map is true: calls take the ways that its walks show, and what it names exists."""

import json
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest

import threadkeep
from tests.cli.histories import CLAUDE, DEMO
from tests.conftest import REPO
from tests.web.site import Site, captured_home
from threadkeep.home.home import Home

PACKAGE: Final = Path(threadkeep.__file__).parent
MAP: Final = REPO / "docs" / "architecture.md"
_STEP: Final = re.compile(r"`((?:[a-z_]+\.)+[A-Za-z_.]+)`")


class Trace:
    """Notes the functions of ours that are called, each at its first call, while it is on."""

    def __init__(self) -> None:
        self.on = False
        self.called: dict[str, None] = {}

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if self.on and event == "call" and code.co_filename.startswith(f"{PACKAGE}/"):
            module = code.co_filename.removeprefix(f"{PACKAGE}/").removesuffix(".py")
            self.called[f"{module.replace('/', '.')}.{code.co_qualname}"] = None

    @contextmanager
    def noting(self) -> Iterator[None]:
        self.on = True
        try:
            yield
        finally:
            self.on = False


@pytest.fixture
def trace() -> Iterator[Trace]:
    before, made = sys.getprofile(), Trace()
    threading.setprofile(made)
    sys.setprofile(made)
    yield made
    sys.setprofile(before)
    threading.setprofile(None)


def steps(title: str) -> list[str]:
    """Return the functions that the map lists for a walk."""
    (walk,) = re.findall(
        rf"\*\*{re.escape(title)}.*?\n\n(.*?)\n\n", MAP.read_text("utf-8"), re.DOTALL
    )
    return [step for line in walk.splitlines() for step in _STEP.findall(line)]


def check(title: str, trace: Trace) -> None:
    wanted = steps(title)
    assert len(wanted) >= 10
    assert [step for step in trace.called if step in set(wanted)] == wanted


def test_a_chunk_takes_the_way_that_the_map_shows(tmp_path: Path, trace: Trace) -> None:
    with (
        Home(tmp_path).chat() as store,
        store.record(store.create_session(agent="a", model="m")) as recorder,
    ):
        for one in ({"type": "start"}, {"type": "text-start", "id": "1"}):
            recorder.feed(one)
        recorder.feed({"type": "text-delta", "id": "1", "delta": "hel"})
        with trace.noting():
            recorder.feed({"type": "text-delta", "id": "1", "delta": "lo"})
    check("A chunk", trace)


def test_a_line_takes_the_way_that_the_map_shows(
    tmp_path: Path, trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = tmp_path / "user"
    shutil.copytree(DEMO, user)
    monkeypatch.setenv("HOME", str(user))
    home = Home(tmp_path / "home")
    (log,) = user.rglob(f"{CLAUDE}.jsonl")
    with home.history() as history:
        history.capture()
        answer = next(
            record
            for record in map(json.loads, log.read_text("utf-8").splitlines())
            if record.get("type") == "assistant"
        )
        answer |= {"uuid": "0" * 8, "requestId": "new", "timestamp": "2026-03-03T00:00:00.000Z"}
        said = {"id": "new", "content": [{"type": "text", "text": "the zeppelin left again"}]}
        answer["message"] |= said
        with log.open("a") as file:
            file.write(json.dumps(answer) + "\n")
        with trace.noting():
            history.capture()
    with home.memory() as memory, trace.noting():
        assert memory.recall("zeppelin left").hits
    check("A line of a log", trace)


def test_a_request_takes_the_way_that_the_map_shows(tmp_path: Path, trace: Trace) -> None:
    site = Site(captured_home(tmp_path / "home"))
    try:
        site.get("/api/sessions")  # opens the store
        with trace.noting():
            assert site.get("/api/sessions?agent=codex").status == 200
    finally:
        site.close()
    check("GET /api/sessions", trace)


def test_every_place_that_the_map_names_exists() -> None:
    named = re.findall(r"`([\w*/-]+(?:/|\.(?:py|sql|toml)))`", MAP.read_text("utf-8"))
    assert len(named) > 50
    for name in named:
        assert any(PACKAGE.glob(name)) or any(REPO.glob(name)), name
