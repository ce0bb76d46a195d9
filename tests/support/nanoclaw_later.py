"""NanoClaw from 2.1 on, as far as it differs from 2.0.64 in a session folder; see `nanoclaw.py`.

Written from what was observed of 2.1.54; not its code.
"""

from typing import Final

from tests.support.nanoclaw import NanoContainer, Row, compact, in_iso
from tests.support.nanoclaw_host import NanoHost, Send
from threadkeep.mailbox.recurrence import next_due

MINUTES: Final = (0, 2, 4, 8, 16, 32, 60)
HELD_AFTER: Final = 8


class LaterHost(NanoHost):
    """The host: times are ISO, a script that failed is a failed run, series back off."""

    def sweep(self, *, alive: bool = False) -> None:
        """Take over answers; only one word for a failure is known, and others are passed over."""
        known = "('completed', 'failed', 'script-skip:error')"
        for ack in self.outbound(f"SELECT * FROM processing_ack WHERE status IN {known}"):
            self.inbound(
                """UPDATE messages_in SET status = :word
                   WHERE id = :id AND status NOT IN ('completed', 'failed')""",
                id=ack["message_id"],
                word="failed" if ack["status"] == "script-skip:error" else "completed",
            )
        if not alive:
            self.reset()
        self._rearm()

    def _rearm(self) -> None:
        done = "status IN ('completed', 'failed')"
        for row in self.inbound(
            f"SELECT * FROM messages_in WHERE {done} AND recurrence IS NOT NULL"
        ):
            sql = f"SELECT status FROM messages_in WHERE series_id = :id AND {done}"
            runs = self.inbound(f"{sql} ORDER BY seq DESC", id=row["series_id"])
            words = [run["status"] for run in runs]
            failures = words.index("completed") if "completed" in words else len(words)
            held = failures >= HELD_AFTER
            now = self.files.clock()
            due = round(next_due(row["recurrence"], now, self.zone).timestamp() * 1000)
            if not held:
                due = max(due, now + MINUTES[min(failures, 6)] * 60_000)
            self._write_run(row, due, "paused" if held else "pending")
            self.inbound("UPDATE messages_in SET recurrence = NULL WHERE id = :id", id=row["id"])

    def _write_run(self, row: Row, due: int, status: str) -> None:
        now = self.files.clock()
        self.inbound(
            """INSERT INTO messages_in (id, seq, kind, timestamp, status, process_after, recurrence,
                 content, series_id) VALUES (:id, :seq, 'task', :at, :status, :after, :cron, :text,
                 :series)""",
            id=f"{row['series_id']}-{now}-{row['seq']}",
            seq=self._next_seq(),
            at=in_iso(now),
            status=status,
            after=in_iso(due),
            cron=row["recurrence"],
            text=row["content"],
            series=row["series_id"],
        )

    def cancel(self, task_id: str) -> None:
        """Call a task off."""
        self.inbound(
            """UPDATE messages_in SET status = 'cancelled', recurrence = NULL
               WHERE (id = :id OR series_id = :id) AND status IN ('pending', 'paused')""",
            id=task_id,
        )

    def undelivered(self) -> list[Row]:
        """Return what is to be sent now, sorted by the text of its time."""
        known = {row["message_out_id"] for row in self.inbound("SELECT * FROM delivered")}
        due = self.outbound(
            """SELECT * FROM messages_out
               WHERE deliver_after IS NULL OR datetime(deliver_after) <= :now
               ORDER BY timestamp ASC"""
        )
        return [row for row in due if row["id"] not in known]

    def drain(self, send: Send) -> None:
        """Deliver; what goes to nobody is delivered as well."""
        for row in self.undelivered():
            name = self._deliver(row, send)
            self.inbound(
                """INSERT OR IGNORE INTO delivered (message_out_id, platform_message_id, status,
                     delivered_at) VALUES (:id, :name, 'delivered', :at)""",
                id=row["id"],
                name=name,
                at=in_iso(self.files.clock()),
            )

    def deny(self, text: str, **place: object) -> None:
        """Say no in the agent's own file; what is refused there is lost without a word."""
        now = self.files.clock()
        self.files.run(
            "outbound",
            """INSERT OR IGNORE INTO messages_out (id, seq, timestamp, kind, platform_id,
                 channel_type, thread_id, content)
               SELECT :id, COALESCE(MAX(seq), 0) + 2, :at, 'chat', :platform_id, :channel_type,
                 :thread_id, :text FROM messages_out""",
            {"id": f"deny-{now}", "at": in_iso(now), "text": compact({"text": text}), **place},
        )


class LaterContainer(NanoContainer):
    """The container: times are ISO, and a script before a task may fail."""

    def mark(self, status: str, *ids: str) -> None:
        """Say something of mail."""
        for message_id in ids:
            self.outbound(
                """INSERT OR REPLACE INTO processing_ack (message_id, status, status_changed)
                   VALUES (:id, :status, :at)""",
                id=message_id,
                status=status,
                at=in_iso(self.files.clock()),
            )

    def write(self, kind: str, said: Row | str, row_id: str | None = None, **more: object) -> str:
        """Write any outbound row."""
        name = super().write(kind, said, row_id, **more)
        sql = "UPDATE messages_out SET timestamp = :at WHERE id = :id"
        self.outbound(sql, id=name, at=in_iso(self.files.clock()))
        return name
