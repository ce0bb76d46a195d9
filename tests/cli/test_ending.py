"""Signals end every command, whatever it is at; no test here waits for a time to pass."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.capture.test_foreign_databases import endless_pages, good_log
from tests.conftest import REPO
from threadkeep.base.sqlite.database import SqliteDatabase
from threadkeep.base.tx import Sql
from threadkeep.cli.signals import ended_by_signals

PATIENCE = 60.0  # only a test that is broken ever waits this long
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"

# A command that comes to no end by itself, in the place of `threadkeep status`.
BUSY = f"""
import signal, sys, threading, time
from contextlib import suppress
from pathlib import Path
from threadkeep.base.sqlite import guard
from threadkeep.base.sqlite.foreign import open_foreign
from threadkeep.base.sqlite.database import SqliteDatabase
from threadkeep.base.tx import Sql
from threadkeep.cli.app import main
from threadkeep.cli.signals import ended_by_signals
from threadkeep.errors import Closed
from threadkeep.home.home import Home

place = Path(sys.argv[2])

def say():
    print("busy", flush=True)

def read():
    with SqliteDatabase(place / "own.db", {{}}) as database, database.read() as tx:
        say()
        tx.one(Sql({ENDLESS!r}))

def write():
    with SqliteDatabase(place / "own.db", {{}}) as database, database.write() as tx:
        say()
        tx.run(Sql({ENDLESS.replace("SELECT count(*)", "INSERT INTO t SELECT i")!r}))

def foreign():
    look = guard.Guard._look
    def told(self):
        say()
        return look(self)
    guard.Guard._look = told
    endless = guard.Budget(3600.0, 10**18)
    with open_foreign(place / "foreign.db", endless) as database:
        for _ in database.rows("SELECT max(id) FROM session"):
            pass

def thread():
    threading.Thread(target=threading.Event().wait).start()
    say()
    threading.Event().wait()

def deaf():
    with ended_by_signals():
        say()
        while True:
            time.sleep(3600)

def in_a_thread():
    def work():
        with suppress(Closed):
            read()
    with ended_by_signals():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    raise KeyboardInterrupt

busy = globals()[sys.argv[1]]
Home.status = lambda *_, **__: busy()
sys.argv[1:] = ["--home", str(place / "home"), "status"]
sys.exit(main())
"""


@contextmanager
def child(*words: str, errors: int = subprocess.PIPE) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        [sys.executable, *words],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(REPO / "src"), str(REPO)])},
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def hear(process: "subprocess.Popen[str]", words: str) -> None:
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if line.startswith(words):
            return
    pytest.fail(f"it did not say {words!r}: {said}")


def make_files(place: Path) -> None:
    with closing(sqlite3.connect(place / "own.db")) as database, database:
        database.execute("CREATE TABLE t (a)")
    endless_pages(place / "foreign.db")


# Where nobody listens to SIGTERM the system itself ends the process.
ENDS = [(busy, signal.SIGINT) for busy in ("read", "write", "foreign", "thread")]
ENDS += [(busy, n) for busy in ("deaf", "in_a_thread") for n in (signal.SIGINT, signal.SIGTERM)]


@pytest.mark.parametrize("busy,number", ENDS)
def test_a_signal_ends_a_command_whatever_it_is_at(
    tmp_path: Path, busy: str, number: signal.Signals
) -> None:
    make_files(tmp_path)
    with child("-c", BUSY, busy, str(tmp_path)) as process:
        hear(process, "busy")
        process.send_signal(number)
        _, errors = process.communicate(timeout=PATIENCE)
    by_force = busy == "deaf"
    assert process.returncode == (128 + number if by_force else 130), errors
    assert "Traceback" not in errors
    with SqliteDatabase(tmp_path / "own.db", {}) as database, database.write(budget=0.0) as tx:
        assert tx.one(Sql("SELECT count(*) FROM t")) == (0,)


# Something in the place of `threadkeep status` that leaves more to do when it has ended.
LAST = """
import atexit, sys, threading
from threadkeep.cli import main
from threadkeep.home.home import Home

def behind():
    threading.main_thread().join()
    print("thread")

def status(*_, **__):
    print("command")
    atexit.register(print, "registered")
    if sys.argv[0] == "waits":
        threading.Thread(target=behind).start()
    raise KeyboardInterrupt

Home.status = status
sys.argv[:] = [sys.argv[1], "status"]
sys.exit(main())
"""


@pytest.mark.parametrize("name,said", [("ends", []), ("waits", ["thread"])])
def test_a_process_ends_when_all_is_said(home: Path, name: str, said: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LAST, name], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.split()) == (130, ["command", *said, "registered"])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_a_help_page_that_cannot_be_printed_is_told_in_one_line() -> None:
    command = [sys.executable, "-m", "threadkeep", "--help"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done.stderr
    assert "No space left" in done.stderr


def test_serve_goes_on_beside_a_database_without_an_end(tmp_path: Path) -> None:
    user, home = tmp_path / "user", tmp_path / "home"
    good_log(user)
    bad = user / ".local" / "share" / "opencode" / "opencode.db"
    bad.parent.mkdir(parents=True)
    with closing(sqlite3.connect(bad)) as database:
        database.execute(f"CREATE VIEW session AS {ENDLESS.replace('count(*)', 'i AS id')}")
    words = ("-m", "threadkeep", "--home", str(home), "serve", "--no-web", "--no-socket")
    with child(*words, "--user-home", str(user), errors=subprocess.STDOUT) as process:
        hear(process, "'session' in")
        with SqliteDatabase(home / "knowledge.db", {}, must_exist=True) as store:
            with store.write() as tx:  # the lock is free
                tx.run(Sql("CREATE TABLE other (a)"))
            with store.read() as tx:
                asked = "SELECT harness, error IS NULL FROM tk_logs WHERE item = '' ORDER BY 1"
                assert tx.all(Sql(asked)) == [("claude-code", 1), ("opencode", 0)]
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, said.splitlines()[-1]) == (0, "ended"), said


def test_a_signal_in_the_middle_of_waiting_for_it_is_heard() -> None:
    with ended_by_signals() as stop:
        with stop._cond:  # type: ignore[attr-defined]  # as inside `stop.wait()`
            signal.raise_signal(signal.SIGTERM)
        assert stop.wait(PATIENCE)
