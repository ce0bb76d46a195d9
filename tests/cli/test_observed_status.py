"""status, probe, capture and watch: how shells, browsers and CI show up in them."""

import signal
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run, Start, document
from threadkeep.capture.observed.client import CollectorClient
from threadkeep.capture.observed.protocol import Ack, CollectorStatus, GetStatus, Shutdown
from threadkeep.service.health import ask_listener

SHELL = ("send-event", "shell", "--exit", "0", "--cwd", "/", "--duration-ms", "1", "--cmd")


@pytest.fixture(autouse=True)
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the user's home an empty folder: no test looks at the real one."""
    home = tmp_path / "user"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    return home


def observed(run: Run) -> dict[str, Any]:
    found: dict[str, Any] = document(run("status", "--json"))["observed"]
    return found


def health(run: Run, source: str) -> dict[str, Any]:
    (found,) = (one for one in observed(run)["sources"] if one["source"] == source)
    return dict(found)


# ---------------------------------------------------------------------- status and probe


def test_looking_creates_nothing(run: Run, home: Path) -> None:
    found = observed(run)
    assert (found["sources"], found["drops"], found["waiting"]) == ([], [], 0)
    assert found["listening"]["answers"] is False
    assert "capture\tnot running" in run("status").stdout
    assert not home.exists()


def test_what_waits_and_what_came_is_told(run: Run, home: Path) -> None:
    run(*SHELL, "ls")
    assert observed(run)["waiting"] == 1
    assert "1 file waiting" in run("status").stdout
    run("commands")
    assert observed(run)["waiting"] == 0
    assert health(run, "shell")["events_last_24h"] == 1
    assert "1 in 24 h" in run("status").stdout


def test_failures_and_drops_are_told(run: Run, home: Path) -> None:
    spool = home / "spool"
    spool.mkdir(parents=True)
    (spool / "wrong.jsonl").write_text("this is no report\n")
    run("commands")
    (drop,) = observed(run)["drops"]
    assert (drop["source"], drop["reason"], drop["count"]) == ("spool", "not understood", 1)
    assert "spool not understood 1" in run("status").stdout


def test_probes_go_the_whole_way_and_only_status_shows_them(run: Run, home: Path) -> None:
    rows = [line.split("\t") for line in run("probe").stdout.splitlines()]
    assert [(row[0], row[1]) for row in rows] == [
        ("shell", "yes"),
        ("claude-tool", "yes"),
        ("browser", "yes"),
    ]
    (one,) = document(run("probe", "--source", "browser", "--json"))["probes"]
    assert one["ok"] is True
    assert health(run, "browser")["probe_ok"] == 1
    assert health(run, "browser")["events_last_24h"] == 0
    assert "probe arrived after" in run("status").stdout


def test_a_probe_that_does_not_arrive_is_a_failure(run: Run, home: Path) -> None:
    home.mkdir()
    (home / "config.toml").write_text("[browser]\nenabled = false\n")
    assert "browser\tno\t" in run("probe", code=1).stdout
    assert "probe did not arrive" in run("status").stdout


@contextmanager
def answering(path: Path, *answer: bytes) -> Iterator[None]:
    """Listen at a path and say these bytes, one after the other, to the one who calls."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    ended = threading.Event()

    def serve() -> None:
        link, _ = listener.accept()
        with link:
            for piece in answer:
                if ended.wait(0.05):
                    return
                try:
                    link.sendall(piece)
                except OSError:
                    return
            ended.wait()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        listener.close()


@pytest.mark.parametrize(
    "answer",
    [(), (b"\xff\xff\xff\xff",), (b"\0\0\0\2{}",), (struct.pack(">I", 4000), *[b"x"] * 4000)],
    ids=["silent", "too long", "nonsense", "in drops"],
)
def test_whoever_listens_cannot_hold_up_status(answer: tuple[bytes, ...], tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    with answering(path, *answer):
        found = ask_listener(path)
    assert found.answers is False
    assert found.trouble != ""


# ---------------------------------------------------------------------- capture


def test_capture_collects_the_spool(run: Run, home: Path) -> None:
    run(*SHELL, "ls")
    waits = run("capture", "--dry-run")
    assert "would collect 1 file" in waits.stderr
    assert observed(run)["waiting"] == 1
    assert not (home / "knowledge.db").exists()
    assert "commands and visits: 1 new" in run("capture").stderr
    assert "commands and visits" not in run("capture").stderr  # nothing came since


def test_capture_tells_programs_what_it_collected(run: Run, home: Path) -> None:
    run(*SHELL, "ls")
    seen = document(run("capture", "--dry-run", "--json"))["capture"]["observed"]
    assert seen == {"waiting": 1, "error": None}
    came = document(run("capture", "--json"))["capture"]["observed"]
    assert (came["new"], came["known"], came["error"]) == (1, 0, None)
    assert "observed" not in document(run("capture", "--agent", "codex", "--json"))["capture"]


def test_what_hippo_left_beside_the_store_is_collected(run: Run, home: Path) -> None:
    run(*SHELL, "ls")
    fallback = home / "fallback"
    fallback.mkdir()
    (left,) = (home / "spool").glob("*.jsonl")
    left.rename(fallback / "2026-01-15.jsonl")
    assert "commands and visits: 1 new" in run("capture").stderr
    assert [path.name for path in fallback.iterdir()] == ["2026-01-15.jsonl.done"]


def test_quiet_is_quiet(run: Run, home: Path) -> None:
    run(*SHELL, "ls")
    result = run("capture", "--quiet")
    assert (result.stdout, result.stderr) == ("", "")


def test_a_spool_that_cannot_be_read_is_a_problem(run: Run, home: Path) -> None:
    home.mkdir()
    (home / "spool").write_text("in the way")
    assert "commands and visits were not collected" in run("capture", code=1).stderr
    assert "Not a directory" in observed(run)["trouble"]
    assert "cannot read" in run("status").stdout


# ---------------------------------------------------------------------- watch


def line_with(process: "subprocess.Popen[bytes]", part: bytes) -> bytes:
    """Wait for a line on stderr."""
    assert process.stderr is not None
    for line in process.stderr:
        if part in line:
            return bytes(line)
    raise AssertionError(f"it ended without saying {part!r}")


@pytest.fixture
def short_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home whose path a socket can have."""
    home = tmp_path_factory.mktemp("h") / "home"
    monkeypatch.setenv("THREADKEEP_HOME", str(home))
    return home


def test_watch_collects_listens_and_ends_when_asked(
    start: Start, run: Run, short_home: Path
) -> None:
    process = start("watch", PYTHONUNBUFFERED="1")
    line_with(process, b"Watching; Ctrl-C to stop")
    run(*SHELL, "ls")
    assert b"1 new" in line_with(process, b"from shells and browsers")
    with CollectorClient(short_home / "daemon.sock") as client:
        status = client.ask(GetStatus())
        assert isinstance(status, CollectorStatus)
        assert status.events_today == 1
        assert observed(run)["listening"]["status"]["version"] == status.version
        assert "1 command today" in run("status").stdout
        assert isinstance(client.ask(Shutdown()), Ack)
    assert process.wait() == 0
    assert not (short_home / "daemon.sock").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_watch_ends_with_signals_and_collects_the_rest(
    number: signal.Signals, start: Start, run: Run, short_home: Path
) -> None:
    process = start("watch", "--no-socket", PYTHONUNBUFFERED="1")
    line_with(process, b"Watching; Ctrl-C to stop")
    assert observed(run)["listening"]["answers"] is False
    run(*SHELL, "last words")
    process.send_signal(number)
    assert process.wait() == 0
    assert observed(run)["waiting"] == 0
    (event,) = document(run("commands", "--json"))["commands"]
    assert event["command"] == "last words"


def test_a_second_watch_leaves_the_socket_to_the_first(
    start: Start, run: Run, short_home: Path
) -> None:
    first = start("watch", PYTHONUNBUFFERED="1")
    line_with(first, b"Watching")
    second = start("watch", PYTHONUNBUFFERED="1")
    line_with(second, b"events from its clients are not received")
    second.send_signal(signal.SIGINT)
    assert second.wait() == 0
    assert observed(run)["listening"]["answers"] is True


def test_watch_once_collects(run: Run, home: Path) -> None:
    run(*SHELL, "ls")
    assert "commands and visits: 1 new" in run("watch", "--once").stderr
    assert not (home / "daemon.sock").exists()


def test_watch_refuses_to_go_on_beside_a_brain_of_another_version(
    run: Run, home: Path, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as brain:
        home.mkdir()
        port = brain.getsockname()[1]
        (home / "config.toml").write_text(f"[socket]\nbrain_port = {port}\n")

        def answer() -> None:
            link, _ = brain.accept()
            with link:
                link.recv(1000)
                link.sendall(b'HTTP/1.1 200 OK\r\n\r\n{"expected_schema_version": 19}')

        thread = threading.Thread(target=answer)
        thread.start()
        done = run("watch", "--once", code=5)
        thread.join()
    assert "19" in done.stderr
    assert not (home / "knowledge.db").exists()
