"""Session folders with a long history: one exchange by the real verbs, its rows many times over.

So the tables hold what the verbs leave, in every column and in our own tables too, and 50,000
exchanges take a second to make. Beside each folder of ours stands one without our tables and
indexes: NanoClaw's own.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from threadkeep.base.sql import load_text
from threadkeep.mailbox.adapters import Outgoing
from threadkeep.mailbox.container.container import Container
from threadkeep.mailbox.folder import inbound_queries, outbound_queries
from threadkeep.mailbox.host.host import Host
from threadkeep.mailbox.host.sweep import sync
from threadkeep.mailbox.records import Place
from threadkeep.mailbox.rows import CAP, in_hash, mail_of, out_hash, out_of

CHAT: Final = Place("test", "chat-1")
QUESTION: Final = "could you look at the log of last night and tell me what went wrong there? " * 3
REPLY: Final = "it says that the disk was full at two, and that all is well again since three. " * 3
_IN_ID, _OUT_ID = "said-0", "reply-0"  # of the exchange whose rows are multiplied
_FILES: Final = ("inbound", "outbound")
_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table'"
_NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < :size)"
_FURTHER = "UPDATE tk_cursor SET seq = seq + :more * CASE name WHEN 'out_rowid' THEN 1 ELSE 2 END"
_KEEP_HASH = "INSERT INTO tk_row_hash(message_id, hash) VALUES (?, ?)"


class Channel:
    """A channel that takes everything at once, and knows a message again by its key."""

    honours_key = True

    def send(self, mail: Outgoing) -> str:
        """Take a message; the platform's name for it is made of ours."""
        return f"sent-{mail.id}"


CHANNELS: Final = {"test": Channel()}


class Sides(NamedTuple):
    """Both sides of one session folder."""

    host: Host
    container: Container

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.container.stop()


def new_folder(path: Path) -> Sides:
    """Make an empty session folder and open both sides of it."""
    host = Host.create(path)
    host.write_routing(CHAT)
    container = Container(path)
    container.start()
    return Sides(host, container)


def exchange(sides: Sides, **ids: str | None) -> None:
    """Let one message go all the way: sent, taken, answered, done with, delivered, settled."""
    host, container = sides
    host.send(QUESTION, id=ids.get("said"))
    mails = container.poll()
    container.claim(mails)
    container.send(REPLY, in_reply_to=mails[0].id, id=ids.get("reply"))
    container.complete(mails)
    host.drain(CHANNELS)
    sync(host.context)


def folder_with_history(path: Path, size: int) -> Sides:
    """Make a folder with so many finished exchanges."""
    sides = new_folder(path)
    exchange(sides, said=_IN_ID, reply=_OUT_ID)
    for name in _FILES:
        with closing(sqlite3.connect(path / f"{name}.db")) as connection, connection:
            _multiply(connection, size)
            _hash_again(connection, name)
    return sides


def plain_copy(ours: Path, plain: Path) -> None:
    """Make a folder with the same mail and nothing of ours."""
    plain.mkdir()
    for name in _FILES:
        with closing(sqlite3.connect(plain / f"{name}.db")) as connection:
            connection.executescript(load_text("threadkeep.mailbox", f"{name}.sql"))
            connection.execute("ATTACH ? AS ours", (str(ours / f"{name}.db"),))
            for (table,) in connection.execute(_TABLES).fetchall():
                connection.execute(f"INSERT INTO {table} SELECT * FROM ours.{table}")
            connection.commit()


# ------------------------------------------------------------------ many times the same


def _multiply(connection: sqlite3.Connection, size: int) -> None:
    """Write the rows of the one exchange again, with other ids and the numbers that follow."""
    for (table,) in connection.execute(_TABLES).fetchall():
        rows = connection.execute(f"SELECT * FROM {table}")
        columns = [column[0] for column in rows.description]
        if any(_speaks_of_it(row) for row in rows.fetchall()):
            values = ", ".join(map(_varied, columns))
            again = f"{_NUMBERS} INSERT INTO {table} SELECT {values} FROM {table}, n"
            connection.execute(again, {"size": size})
        elif table == "tk_cursor":
            connection.execute(_FURTHER, {"more": size - 1})


def _speaks_of_it(row: Sequence[Any]) -> bool:
    words = [value for value in row if isinstance(value, str)]
    return any(_IN_ID in word or _OUT_ID in word for word in words)


def _varied(column: str) -> str:
    if column == "seq":
        return "seq + 2 * i"
    replaced = column
    for one in (_IN_ID, _OUT_ID):
        replaced = f"replace({replaced}, '{one}', '{one[:-1]}' || i)"
    return f"CASE typeof({column}) WHEN 'text' THEN {replaced} ELSE {column} END"


def _hash_again(connection: sqlite3.Connection, name: str) -> None:
    connection.execute("DELETE FROM tk_row_hash")
    asked = {"limit": -1, "status": None, "kind": None, "cap": CAP}
    if name == "inbound":
        mails = map(mail_of, connection.execute(inbound_queries()["newest_mail"], asked))
        hashes = [(mail.id, in_hash(mail)) for mail in mails]
    else:
        sent = map(out_of, connection.execute(outbound_queries()["out_newest"], asked))
        hashes = [(mail.id, out_hash(mail)) for mail in sent]
    connection.executemany(_KEEP_HASH, hashes)
