"""A home with its spool, what shells append to it, and its files as bytes: for hostile reports."""

import json
from pathlib import Path
from typing import Any

from tests.support.knowledge import ask
from threadkeep import Home
from threadkeep.base.spool import Spool
from threadkeep.home.home import spool_folder

SESSION = "22222222-2222-4222-8222-222222222222"
AT = 1_780_000_000  # seconds; in the past, whatever the clock of the machine says
AWS = "AKIA" + "Q3EGWTZ5XLN7RBVD"


def record(kind: str, *fields: object) -> bytes:
    """Write what a hook appends."""
    return "\x1e{}\x1d\n".format("\x1f".join(map(str, (kind, *fields)))).encode()


def end(seq: int, command: str = "make", **given: Any) -> bytes:
    """Write the record of a command that ended."""
    at = given.get("at", AT + 9 * seq)
    session, pid, cwd = (given.get(name) or default for name, default in _DEFAULTS.items())
    head = (session, pid, seq, "zsh", "vm", "me", at, at + 0.25, given.get("code", 0))
    return record("end1", *head, cwd, len(command), command)


def begin(seq: int, command: str = "make", **given: Any) -> bytes:
    """Write the record of a command that begins."""
    at = given.get("at", AT + 9 * seq)
    session, pid, cwd = (given.get(name) or default for name, default in _DEFAULTS.items())
    return record(*("start1", session, pid, seq, "zsh", "vm", "me", at, cwd, len(command), command))


_DEFAULTS: dict[str, Any] = {"session": SESSION, "pid": 7, "cwd": "/u/app"}


def shell_line(number: int = 1, stamp: str = "2026-01-01T00:00:00Z", **changed: Any) -> bytes:
    """Write a line of the spool, in the shape of the contract."""
    data = {"session_id": SESSION, "command": "ls", "cwd": "/u", "exit_code": 0} | changed
    payload = {"type": "Shell", "data": data}
    name = f"11111111-0000-4000-8000-{number:012}"
    value = {"envelope_id": name, "timestamp": stamp, "payload": payload}
    return json.dumps(value).encode() + b"\n"


def visit_line(number: int = 1, **changed: Any) -> bytes:
    """Write a line of the spool with a visit."""
    page = {"url": "https://docs.rs/x", "domain": "docs.rs", "title": "X", "dwell_ms": 5000}
    name = f"33333333-0000-5000-8000-{number:012}"
    payload = {"type": "Browser", "data": page | changed}
    value = {"envelope_id": name, "timestamp": "2026-01-01T00:00:00Z", "payload": payload}
    return json.dumps(value).encode() + b"\n"


class World:
    """A home, and whoever leaves something in its spool."""

    def __init__(self, folder: Path, config: str = "") -> None:
        folder.mkdir(mode=0o700, parents=True)
        (folder / "config.toml").write_text(config)
        self.home = Home(folder, environ={})
        self.folder = folder
        self.spool = Spool(spool_folder(self.home))
        self.spool.folder.mkdir(mode=0o700)

    def append(self, data: bytes, name: str = "zsh-7-1.tk") -> None:
        """Do what a shell does: open, append, close."""
        with (self.spool.folder / name).open("ab") as file:
            file.write(data)

    def collect(self) -> Any:
        """Collect as a command of its own does."""
        with self.home.observations() as observations:
            return observations.collect()

    def rows(self, sql: str, *params: object) -> list[tuple[Any, ...]]:
        """Ask the database."""
        return ask(self.home.knowledge_path(), sql, *params)

    def commands(self) -> list[str]:
        """Return all commands, in the order in which they were stored."""
        return [row[0] for row in self.rows("SELECT command FROM events ORDER BY id")]

    def bytes_of_store(self) -> bytes:
        """Return all bytes of the database and of what lies beside it."""
        file = self.home.knowledge_path()
        return b"".join(path.read_bytes() for path in file.parent.glob(f"{file.name}*"))
