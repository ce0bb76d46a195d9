"""OpenCode's database: sessions, messages and their parts, which are rewritten while they grow."""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from threadkeep.base.sqlite.foreign import ForeignDatabase, open_foreign
from threadkeep.errors import Busy, ThreadkeepError
from threadkeep.knowledge.records import Entry
from threadkeep.sources.common import number, table, text
from threadkeep.sources.files import one_line, stored_object, wrap
from threadkeep.sources.folders import database_stamp, listed
from threadkeep.sources.opencode.messages import AGENT, OpencodeParser, read_record
from threadkeep.sources.records import DocumentItem, Log, UserHome

# ------------------------------------------------------------------------------
# The records OpenCode's stores are turned into: the same ones from the database and the files.


class MessageAbout(msgspec.Struct, omit_defaults=True):
    """What a part must know about its message."""

    message: str
    role: str = ""
    model: str = ""
    created: int = 0
    summary: bool = False


def session_line(session: dict[str, Any]) -> bytes:
    """Write a session's own record; columns that are empty are left out."""
    told = {name: value for name, value in session.items() if value is not None}
    model = stored_object(told["model"]) if text(told.get("model"))[:1] == "{" else {}
    if model:
        told["model"] = text(model.get("id")) or text(model.get("modelID"))
    for name, value in told.items():
        if isinstance(value, bytes):
            told[name] = value.decode("utf-8", "replace")
    return msgspec.json.encode({"type": "session", "id": session.get("id"), "data": told})


def message_line(message: str, stored: object) -> tuple[bytes, MessageAbout]:
    """Write a message's record, and give what its parts have to repeat of it."""
    data = stored_object(stored)
    about = MessageAbout(
        message,
        role=text(data.get("role")),
        model=text(data.get("modelID")) or text(table(data.get("model")).get("modelID")),
        created=number(table(data.get("time")).get("created")),
        summary=data.get("summary") is True,
    )
    return wrap({"type": "message", "id": message}, "data", _stored(stored)), about


def part_line(part: str, about: MessageAbout, stored: object) -> bytes:
    """Write a part's record."""
    told = msgspec.to_builtins(about)
    return wrap({"type": "part", "id": part, **told}, "data", _stored(stored))


def _stored(stored: object) -> bytes:
    return one_line(stored) if isinstance(stored, (str, bytes)) else b"null"


# The columns come and go with the releases. The project's own row is not read: it changes
# whenever the program starts, and nothing of it is kept.
_SESSION: Final = (
    *("id", "slug", "title", "directory", "parent_id", "agent", "model", "version"),
    *("summary_additions", "summary_deletions", "summary_files", "time_created", "time_updated"),
    *("time_archived", "revert", "share_url"),
)
_VARIABLE: Final = "OPENCODE_DB"
_DIFFS: Final = "summary_diffs"  # can be large, and never changes alone


class OpencodeDatabases:
    """Reads `opencode.db` and its like; relatives of OpenCode keep the same under another name."""

    kind: Literal["lines", "document"] = "document"

    def __init__(self, agent: str = AGENT, variable: str = "") -> None:
        """Take the program's name, and the variable that may name a database of it."""
        self.agent = agent
        self._variable = variable

    def roots(self, user: UserHome) -> list[Path]:
        """Name the folders and files to look into and to watch."""
        named = _named_database(user, self._variable)
        return [data_root(user, self.agent), *([named] if named else [])]

    def find(self, user: UserHome) -> Iterator[Log]:
        """Yield the databases of every channel."""
        named = _named_database(user, self._variable)
        for path in databases(user, self.agent, self._variable):
            stamp = database_stamp(path, user, is_root=path == named)
            if stamp is not None:
                yield Log(str(path), stamp)

    def parser(self, log: Log, state: bytes | None) -> OpencodeParser:
        """Make a parser that starts afresh, or continues from a state."""
        return OpencodeParser(log, state)

    def entries(self, record: Any, line: bytes, number: int) -> list[Entry]:  # noqa: ARG002
        """Read one record alone."""
        return read_record(table(record), number)[0]

    def items(self, log: Log) -> Iterable[DocumentItem]:
        """Yield the sessions, with what changes when anything in one of them does.

        Rows are rewritten in place and deleted, so the newest time and the number of each count.
        """
        with open_foreign(Path(log.path), root=log.root) as database:
            columns = database.columns("session")
            if "id" not in columns:
                return
            messages = _newest(database, "message")
            parts = _newest(database, "part")
            wanted = [name for name in _SESSION if name in columns]
            sql = f"SELECT {', '.join(wanted)} FROM session ORDER BY id"  # noqa: S608
            for row in database.rows(sql):
                session = row[wanted.index("id")]
                told = repr((row, messages.get(session), parts.get(session)))
                mark = hashlib.blake2b(told.encode("utf-8", "replace"), digest_size=16)
                yield DocumentItem(str(session), mark.hexdigest())

    def records(self, log: Log, item: str) -> Iterable[tuple[str, bytes]]:
        """Yield a session, its messages in order, and behind each message its parts."""
        with open_foreign(Path(log.path), root=log.root) as database:
            columns = database.columns("session")
            wanted = [name for name in (*_SESSION, _DIFFS) if name in columns]
            sql = f"SELECT {', '.join(wanted)} FROM session WHERE id = ?"  # noqa: S608
            row = next(database.rows(sql, (item,)), None) if "id" in columns else None
            if row is None:
                return
            yield item, session_line(dict(zip(wanted, row, strict=True)))
            yield from _messages(database, item)


def _messages(database: ForeignDatabase, item: str) -> Iterator[tuple[str, bytes]]:
    if not {"message", "part"} <= database.tables():
        return
    order = "time_created, id" if "time_created" in database.columns("message") else "id"
    sql = f"SELECT id, data FROM message WHERE session_id = ? ORDER BY {order}"  # noqa: S608
    for message, data in database.rows(sql, (item,)):
        line, about = message_line(str(message), data)
        yield str(message), line
        parts = "SELECT id, data FROM part WHERE message_id = ? ORDER BY id"
        for part, content in database.rows(parts, (message,)):
            yield str(part), part_line(str(part), about, content)


def _newest(database: ForeignDatabase, name: str) -> dict[str, tuple[Any, ...]]:
    columns = database.columns(name)
    if "session_id" not in columns:
        return {}
    newest = "max(time_updated)" if "time_updated" in columns else "sum(length(data))"
    sql = f"SELECT session_id, count(*), {newest} FROM {name} GROUP BY session_id"  # noqa: S608
    return {row[0]: row[1:] for row in database.rows(sql)}


def data_root(user: UserHome, name: str = AGENT) -> Path:
    """Name the program's data folder; it is the same on every system."""
    named = user.env.get("XDG_DATA_HOME")
    return (Path(named) if named else user.home / ".local" / "share") / name


def _named_database(user: UserHome, variable: str = _VARIABLE) -> Path | None:
    named = text(user.env.get(variable)) if variable else ""
    return data_root(user) / named if named and named != ":memory:" else None


def databases(user: UserHome, name: str = AGENT, variable: str = _VARIABLE) -> list[Path]:
    """Name the databases that are there, of every channel."""
    root = data_root(user, name)
    found = {root / f"{name}.db"}
    for entry in listed(str(root), user, is_root=True):
        if entry.name.startswith(f"{name}-") and entry.name.endswith(".db"):
            found.add(Path(entry.path))
    named = _named_database(user, variable)
    return sorted({*found, *([named] if named else [])})


def stored_sessions(user: UserHome) -> set[str]:
    """Name the sessions that a database has; one that is only locked raises Busy."""
    found: set[str] = set()
    named = _named_database(user)
    for path in databases(user):
        try:
            with open_foreign(path, root="" if path == named else data_root(user)) as database:
                if "id" in database.columns("session"):
                    found.update(str(row[0]) for row in database.rows("SELECT id FROM session"))
        except Busy:
            raise
        except ThreadkeepError:
            continue
    return found


SOURCE = OpencodeDatabases(variable=_VARIABLE)
# Kilo since 7 (its command line and its extensions) and MiMoCode are OpenCode under another name.
KILO = OpencodeDatabases("kilo")
MIMOCODE = OpencodeDatabases("mimocode")
