"""NanoClaw's statements by hand, on a folder of its own: what one look costs there.

Its host opens both files for each look, its container the inbound one only; everything that was
ever said is read, and what was dealt with is left out in the program.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from benchmarks.mail_folder import CHAT, REPLY

Row = tuple[Any, ...]

_PROMPT = 10
_PENDING: Final = """
SELECT * FROM messages_in
WHERE status = 'pending' AND (process_after IS NULL OR datetime(process_after) <= datetime('now'))
  AND (on_wake = 0 OR 0 = 1)
ORDER BY seq DESC LIMIT ?
"""
_DUE: Final = """
SELECT * FROM messages_out WHERE deliver_after IS NULL OR deliver_after <= datetime('now')
ORDER BY timestamp
"""
_ANSWERED = "SELECT message_id FROM processing_ack WHERE status IN ('completed', 'failed')"
_SETTLE = "UPDATE messages_in SET status = 'completed' WHERE id = ? AND status <> 'completed'"
_DELIVERED: Final = """
INSERT OR IGNORE INTO delivered(message_out_id, platform_message_id, status, delivered_at)
VALUES (?, ?, 'delivered', datetime('now'))
"""
_NEXT_IN = "SELECT COALESCE(max(seq), 0) / 2 * 2 + 2 FROM messages_in"
_SAY: Final = """
INSERT INTO messages_in(id, seq, kind, timestamp, status, content, series_id)
VALUES (:id, :seq, 'chat', datetime('now'), 'pending', :content, :id)
"""
_ACK = "INSERT OR REPLACE INTO processing_ack VALUES (?, 'completed', datetime('now'))"
_SEND: Final = """
INSERT INTO messages_out(id, seq, timestamp, kind, platform_id, channel_type, content)
VALUES (:id, :seq, datetime('now'), 'chat', :platform_id, :channel_type, :content)
"""
_HIGHEST = "SELECT max(seq) FROM "


class NanoClaw:
    """Both sides of one folder; the container keeps its outbound.db open."""

    def __init__(self, folder: Path) -> None:
        self._inbound = folder / "inbound.db"
        self._outbound_path = folder / "outbound.db"
        self._outbound = _open(self._outbound_path)
        self._looking = _open(self._inbound, "ro")

    def close(self) -> None:
        """Close what the container keeps open."""
        self._outbound.close()
        self._looking.close()

    # ------------------------------------------------------------------ the container

    def poll(self) -> list[Row]:
        """Take the newest that are pending, then leave out all that were ever answered for."""
        with closing(_open(self._inbound, "ro")) as inbound:
            found = inbound.execute(_PENDING, (_PROMPT,)).fetchall()
        answered = {
            id_ for (id_,) in self._outbound.execute("SELECT message_id FROM processing_ack")
        }
        return [row for row in found if row[0] not in answered][::-1]

    def send(self, message_id: str) -> None:
        """Write a reply; its number is looked up first, in statements of their own."""
        highest_in = self._looking.execute(f"{_HIGHEST} messages_in").fetchone()[0] or 0
        highest = self._outbound.execute(f"{_HIGHEST} messages_out").fetchone()[0] or 0
        row = {
            "id": message_id,
            "seq": (max(highest_in, highest) + 1) // 2 * 2 + 1,
            "platform_id": CHAT.platform_id,
            "channel_type": CHAT.channel_type,
            "content": f'{{"text":"{REPLY}"}}',
        }
        self._outbound.execute(_SEND, row)

    def complete(self, message_id: str) -> None:
        """Answer for a message."""
        self._outbound.execute(_ACK, (message_id,))

    # ------------------------------------------------------------------ the host

    def say(self, message_id: str) -> None:
        """Put a message into the inbox."""
        with closing(_open(self._inbound)) as inbound:
            seq = inbound.execute(_NEXT_IN).fetchone()[0]
            content = f'{{"text":"{REPLY}"}}'
            inbound.execute(_SAY, {"id": message_id, "seq": seq, "content": content})

    def drain(self) -> int:
        """Take all that was ever sent, leave out all that was ever delivered, deliver the rest."""
        with (
            closing(_open(self._outbound_path, "ro")) as outbound,
            closing(_open(self._inbound)) as inbound,
        ):
            due = outbound.execute(_DUE).fetchall()
            delivered = {id_ for (id_,) in inbound.execute("SELECT message_out_id FROM delivered")}
            left = [row[0] for row in due if row[0] not in delivered]
            for message_id in left:
                inbound.execute(_DELIVERED, (message_id, f"sent-{message_id}"))
        return len(left)

    def sync(self) -> None:
        """Settle all that was ever answered for."""
        with (
            closing(_open(self._outbound_path, "ro")) as outbound,
            closing(_open(self._inbound)) as inbound,
        ):
            answered = outbound.execute(_ANSWERED).fetchall()
            inbound.execute("BEGIN")
            for row in answered:
                inbound.execute(_SETTLE, row)
            inbound.execute("COMMIT")


def _open(path: Path, mode: str = "rw") -> sqlite3.Connection:
    connection = sqlite3.connect(f"file:{path}?mode={mode}", uri=True, isolation_level=None)
    if mode == "rw":
        connection.execute("PRAGMA journal_mode = DELETE").fetchone()
    connection.execute("PRAGMA busy_timeout = 5000")
    return connection
