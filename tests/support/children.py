"""Other processes for tests: they say where they are and wait to be told, so nothing races."""

import os
import select
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Self

from tests.conftest import REPO
from threadkeep.base.sqlite.database import SqliteDatabase
from threadkeep.base.tx import Sql

# Only a test that is broken ever waits this long.
_PATIENCE = 60.0

_PRELUDE = """
import os, sqlite3, sys
from pathlib import Path
from threadkeep.base.sqlite.database import SqliteDatabase
from threadkeep.base.tx import Sql

def say(word):
    print(word, flush=True)

def hear():
    return sys.stdin.readline().strip()
"""


class Child:
    """A Python process that runs a script with `say` and `hear`; killed at the end of its block."""

    def __init__(self, script: str, *args: object, stderr: int | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _PRELUDE + script, *map(str, args)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            bufsize=1,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(REPO / "src"), str(REPO)])},
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def hear(self) -> str:
        """Wait for the next word of the child."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], _PATIENCE)
        assert ready, "the child says nothing"
        return self.process.stdout.readline().strip()

    def expect(self, word: str) -> None:
        assert self.hear() == word

    def tell(self, word: object = "") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")

    def end(self) -> int:
        """Wait until the child is gone; give its exit code."""
        return self.process.wait(_PATIENCE)

    def kill(self) -> None:
        self.process.kill()
        self.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


def fork(action: Callable[[], object]) -> int:
    """Run an action in a forked child, which never comes back; give its pid."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads: that is the point
        pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        action()
        status = 0
    except BaseException:  # noqa: BLE001  (the child ends here, whatever happened)
        traceback.print_exc()
    finally:
        os._exit(status)


def exit_code(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def wait_until(condition: Callable[[], bool]) -> None:
    """Look again and again until another thread or process has done something."""
    for _ in range(10_000_000):
        if condition():
            return
        time.sleep(0)  # let the others run
    raise AssertionError("it never happened")


def time_with_sleep(sleep: Callable[[float], None]) -> SimpleNamespace:
    """A stand-in for the module `time` whose pauses do something else."""
    return SimpleNamespace(monotonic=time.monotonic, monotonic_ns=time.monotonic_ns, sleep=sleep)


def append_row(path: str, body: str) -> None:
    """What a spawned worker does with a database."""
    with SqliteDatabase(path, {}) as database, database.write() as tx:
        tx.run(Sql("INSERT INTO t(body) VALUES(?)"), (body,))


@contextmanager
def table(path: Path) -> Iterator[SqliteDatabase]:
    """Open a database with one table, `t(id, body)`."""
    with SqliteDatabase(path, {}) as database:
        with database.write() as tx:
            tx.run(Sql("CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, body)"))
        yield database


def add(database: SqliteDatabase, body: object, **options: bool | float) -> None:
    with database.write(**options) as tx:  # type: ignore[arg-type]
        tx.run(Sql("INSERT INTO t(body) VALUES(?)"), (body,))


def bodies(database: SqliteDatabase) -> list[object]:
    with database.read() as tx:
        return [row[0] for row in tx.all(Sql("SELECT body FROM t ORDER BY id"))]
