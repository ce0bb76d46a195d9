"""The demo ends by itself, shows the conversation live, and leaves a store to look into."""

import signal
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run, Start, document
from threadkeep import ChatStore
from threadkeep.cli.command import program
from threadkeep.cli.demo import load


def test_the_demo_shows_the_whole_conversation(start: Start, home: Path) -> None:
    process = start("demo", "--fast")
    out, err = process.communicate()
    assert process.returncode == 0
    shown = out.decode()
    script = load("script.json")
    for turn in script["turns"]:
        assert turn["say"] in shown
    assert shown.count("— finished: stop") == len(script["turns"])
    assert f"threadkeep chat --db {home / 'demo.db'} show last" in err.decode()


def test_the_demo_leaves_a_store_to_look_into(run: Run, home: Path) -> None:
    told = document(run("demo", "--fast", "--json"))
    assert told["db"] == str(home / "demo.db")
    assert len(told["message_ids"]) == 4
    run("demo", "--fast")
    assert not (home / "chat.db").exists()
    with ChatStore.open(home / "demo.db") as store:
        assert len(store.sessions().items) == 2
        session = store.session(told["session_id"])
        assert session.total_tokens > 0
        assert session.cost_usd > 0
        assert store.verify().ok
        verdicts = [v["action"] for one in store.runs(session) for v in one.verdicts]
    assert verdicts == ["allow", "allow", "deny", "allow"]


def test_ctrl_c_in_the_demo_records_an_abort(start: Start, home: Path) -> None:
    process = start("demo")
    assert process.stdout is not None
    while b"thinking" not in process.stdout.readline():
        pass
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    with ChatStore.open(home / "demo.db", read_only=True) as store:
        (session,) = store.sessions().items
        assert [one.end_reason for one in store.runs(session)] == ["abort"]


def test_what_to_try_next_can_be_typed_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "my env" / "threadkeep"
    script.parent.mkdir()
    script.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program(str(script)) == f"'{script}'"
    assert program("/some/threadkeep/__main__.py") == f"{sys.executable} -m threadkeep"
    monkeypatch.setenv("PATH", str(script.parent))
    assert program(str(script)) == "threadkeep"


@pytest.mark.parametrize("name", ["turn-1.jsonl", "turn-2.jsonl"])
def test_the_bundled_streams_can_be_recorded_strictly(name: str, run: Run, home: Path) -> None:
    from importlib.resources import files

    body = files("threadkeep").joinpath("demo", name).read_bytes()
    told = document(run("chat", "record", "--strict", "--json", stdin=body))
    assert (told["ended"], told["skipped"]) == ("finish", 0)
