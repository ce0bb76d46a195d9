"""browser and native-host: what is installed, and how a browser that calls is answered."""

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run, Start, document

ORIGIN = "chrome-extension://abcdefghijklmnopabcdefghijklmnop/"
PAGE = {
    "url": "https://docs.python.org/3/library/?token=abc",
    "title": "The library",
    "domain": "docs.python.org",
    "dwell_ms": 5000,
    "scroll_depth": 0.5,
    "timestamp": 1_790_000_000_000,
}


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "user"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    return home


def frames(*messages: Any) -> bytes:
    bodies = [json.dumps(message).encode() for message in messages]
    return b"".join(struct.pack("=I", len(body)) + body for body in bodies)


def answers(data: bytes) -> list[Any]:
    found = []
    while data:
        (size,) = struct.unpack("=I", data[:4])
        found.append(json.loads(data[4 : 4 + size]))
        data = data[4 + size :]
    return found


# ---------------------------------------------------------------------- install


def test_a_browser_is_told_and_forgets_again(run: Run, home: Path, user: Path) -> None:
    shown = run("browser", "install", "firefox")
    manifest = user / ".mozilla" / "native-messaging-hosts" / "threadkeep.json"
    assert str(manifest) in shown.stdout
    assert "about:debugging" in shown.stderr
    assert json.loads(manifest.read_text())["path"] == str(home / "browser" / "native-host")
    assert "everything was installed" in run("browser", "install", "firefox").stderr
    assert str(manifest) in run("browser", "uninstall", "firefox", "--dry-run").stdout
    assert manifest.exists()
    gone = document(run("browser", "uninstall", "firefox", "--json"))["files"]
    assert str(manifest) in gone
    assert not manifest.exists()
    assert "nothing is installed" in run("browser", "uninstall", "firefox").stderr


def test_a_dry_run_writes_nothing(run: Run, home: Path, user: Path) -> None:
    files = document(run("browser", "install", "chromium", "--dry-run", "--json"))["files"]
    assert {one["change"] for one in files} == {"new"}
    planned = run("browser", "install", "chromium", "--dry-run").stdout.splitlines()
    assert all(line.startswith("create\t") for line in planned)
    assert any(line.endswith("extension-chromium/icons/ (4 files)") for line in planned)
    assert len(planned) < 6 < len(files)
    assert list(user.iterdir()) == []
    assert not home.exists()


def test_the_host_of_another_program_stays_unless_it_may_go(
    run: Run, home: Path, user: Path
) -> None:
    theirs = user / ".mozilla" / "native-messaging-hosts" / "hippo_daemon.json"
    theirs.parent.mkdir(parents=True)
    theirs.write_text('{"path": "/opt/hippo"}')
    told = run("browser", "install", "firefox", "--hippo", code=1).stderr
    assert "--replace" in told
    assert theirs.read_text() == '{"path": "/opt/hippo"}'
    run("browser", "install", "firefox", "--hippo", "--replace")
    assert "native-host" in theirs.read_text()
    run("browser", "uninstall", "firefox")
    assert theirs.read_text() == '{"path": "/opt/hippo"}'


def test_a_browser_that_nobody_knows_is_refused_with_the_list(run: Run, user: Path) -> None:
    assert "firefox" in run("browser", "install", "netscape", code=2).stderr


def test_domains_are_listed(run: Run, home: Path, user: Path) -> None:
    assert "docs.python.org" in run("browser", "domains").stdout.splitlines()
    home.mkdir()
    settings = '[browser]\ndomains = ["example.org"]\nexclude = ["mail.example.org"]\n'
    (home / "config.toml").write_text(settings)
    shown = run("browser", "domains")
    assert shown.stdout == "example.org\n"
    assert "mail.example.org" in shown.stderr
    assert document(run("browser", "domains", "--json"))["domains"] == ["example.org"]


# ---------------------------------------------------------------------- native-host


def test_what_a_browser_reports_is_listed(run: Run, home: Path, start: Start) -> None:
    process = start("native-host", ORIGIN)
    elsewhere = PAGE | {"url": "https://bank.example/", "domain": "bank.example"}
    beat = {"type": "heartbeat", "sent_at_ms": 1_790_000_000_000}
    out, err = process.communicate(frames(PAGE, elsewhere, beat, {"type": "what"}))
    assert (process.returncode, err) == (0, b"")
    assert [one["status"] for one in answers(out)] == ["ok", "filtered", "ok", "error"]
    assert not (home / "knowledge.db").exists()
    (page,) = document(run("commands", "--visits", "--json"))["visits"]
    assert page["url"] == "https://docs.python.org/3/library/"
    (source,) = (
        one
        for one in document(run("status", "--json"))["observed"]["sources"]
        if one["source"] == "browser"
    )
    assert source["last_heartbeat_ts"] == 1_790_000_000_000


@pytest.mark.parametrize("words", [[], ["/x/threadkeep.json", "threadkeep@local"], [ORIGIN, "--x"]])
def test_arguments_of_browsers_are_understood(words: list[str], start: Start, home: Path) -> None:
    for name in ("native-host", "native-messaging-host"):
        process = start(name, *words)
        out, err = process.communicate(frames({"type": "config"}))
        assert (process.returncode, err) == (0, b"")
        assert answers(out)[0]["enabled"] is True


def test_nobody_else_is_answered_and_stdout_stays_clean(start: Start, home: Path) -> None:
    process = start("native-host", "hello")
    out, err = process.communicate(frames(PAGE))
    assert (process.returncode, out) == (2, b"")
    assert b"no browser passes" in err


def test_the_installed_script_works_from_anywhere(
    run: Run, home: Path, user: Path, tmp_path: Path
) -> None:
    run("browser", "install", "firefox")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "threadkeep.py").write_text("raise SystemExit('the wrong one')")
    done = subprocess.run(
        [home / "browser" / "native-host", "/x/threadkeep.json", "threadkeep@local"],
        input=frames(PAGE),
        capture_output=True,
        cwd=elsewhere,
        env={"HOME": str(user), "PATH": "/usr/bin:/bin"},  # as a desktop starts a browser
        check=True,
    )
    assert answers(done.stdout) == [{"status": "ok"}]
    assert len(list((home / "spool").glob("*.jsonl"))) == 1
    assert sys.executable in (home / "browser" / "native-host").read_text("utf-8")
