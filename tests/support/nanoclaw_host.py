"""NanoClaw's host, as far as it touches a session folder; see `nanoclaw.py`."""

import json
from base64 import b64decode
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests.support.nanoclaw import Clock, Files, Row, compact, in_iso, in_sql, migrate
from threadkeep.mailbox.recurrence import next_due

# Sends one message with its files, and gives the channel's name for it; raises if it cannot.
Send = Callable[[Row, dict[str, bytes]], str]

TRIES: Final = 5
ATTEMPTS: Final = 3
_LIVE: Final = "(id = :id OR series_id = :id) AND kind = 'task'"


class NanoHost:
    """The host: one session, without the part of it that knows of chats and containers."""

    def __init__(self, folder: Path, clock: Clock, zone: str = "UTC") -> None:
        self.files = Files(folder, clock)
        self.folder = folder
        self.zone = zone
        self.attempts: dict[str, int] = {}

    def inbound(self, sql: str, **values: object) -> list[Row]:
        """Run a statement on inbound.db; columns that are missing are added first."""
        migrate(self.files)
        return self.files.run("inbound", sql, values)

    def outbound(self, sql: str, **values: object) -> list[Row]:
        """Read outbound.db."""
        return self.files.run("outbound", sql, values, readonly=True)

    # ------------------------------------------------------------------ mail to the agent

    def _next_seq(self) -> int:
        top = self.files.top("inbound", "messages_in")
        return 2 if top < 2 else top + 2 - top % 2

    def post(self, row_id: str, said: Row | str, *, kind: str = "chat", **more: object) -> None:
        """Write mail; attachments with data become files."""
        row = {
            "platform": "C1",
            "channel": "slack",
            "thread": "T1",
            "after": None,
            "recurrence": None,
            "trigger": 1,
            "source": None,
            "on_wake": 0,
            **more,
        }
        text = said if isinstance(said, str) else compact(self._staged(row_id, said))
        self.inbound(
            """INSERT INTO messages_in (id, seq, kind, timestamp, status, platform_id, channel_type,
                 thread_id, content, process_after, recurrence, series_id, trigger,
                 source_session_id, on_wake)
               VALUES (:id, :seq, :kind, :said_at, 'pending', :platform, :channel, :thread, :text,
                 :after, :recurrence, :id, :trigger, :source, :on_wake)""",
            id=row_id,
            seq=self._next_seq(),
            kind=kind,
            said_at=in_iso(self.files.clock()),
            text=text,
            **row,
        )

    def _staged(self, row_id: str, said: Row) -> Row:
        for file in said.get("attachments", ()):
            if "data" in file:
                place = self.folder / "inbox" / row_id
                place.mkdir(parents=True, exist_ok=True)
                (place / file["name"]).write_bytes(b64decode(file.pop("data")))
                file["localPath"] = f"inbox/{row_id}/{file['name']}"
        return said

    def post_task(self, said: Row) -> None:
        """Write the task that an agent asked for."""
        self.inbound(
            """INSERT INTO messages_in (id, seq, timestamp, status, tries, process_after,
                 recurrence, kind, platform_id, channel_type, thread_id, content, series_id)
               VALUES (:id, :seq, :now, 'pending', 0, :after, :recurrence, 'task', :platform,
                 :channel, :thread, :text, :id)""",
            id=said["taskId"],
            seq=self._next_seq(),
            after=said.get("processAfter"),
            recurrence=said.get("recurrence") or None,
            platform=said.get("platformId"),
            channel=said.get("channelType"),
            thread=said.get("threadId"),
            text=compact({key: said[key] for key in ("prompt", "script") if key in said}),
        )

    def answer(self, question_id: str, option: str) -> None:
        """Write the answer to a question."""
        said = {
            "type": "question_response",
            "questionId": question_id,
            "selectedOption": option,
            "userId": "u1",
        }
        self.post(f"qr-{question_id}-{self.files.clock()}", said, kind="system")

    def name_places(self, *rows: tuple[str, str, str | None, str | None, str | None]) -> None:
        """Replace the names the agent may write to."""
        self.inbound("DELETE FROM destinations")
        for name, kind, channel, platform, group in rows:
            self.inbound(
                """INSERT INTO destinations (name, display_name, type, channel_type, platform_id,
                     agent_group_id) VALUES (:name, NULL, :kind, :channel, :platform, :grp)""",
                name=name,
                kind=kind,
                channel=channel,
                platform=platform,
                grp=group,
            )

    def route(self, channel: str, platform: str, thread: str | None = None) -> None:
        """Set where mail goes that names nobody."""
        self.inbound(
            """INSERT INTO session_routing (id, channel_type, platform_id, thread_id)
               VALUES (1, :channel, :platform, :thread) ON CONFLICT (id) DO UPDATE SET
               channel_type = excluded.channel_type, platform_id = excluded.platform_id,
               thread_id = excluded.thread_id""",
            channel=channel,
            platform=platform,
            thread=thread,
        )

    # ------------------------------------------------------------------ the sweep

    def due(self) -> int:
        """Count what wants the agent's attention."""
        found = self.inbound(
            """SELECT COUNT(*) AS n FROM messages_in WHERE status = 'pending' AND trigger = 1
               AND (process_after IS NULL OR datetime(process_after) <= :now)"""
        )
        return int(found[0]["n"])

    def sweep(self, *, alive: bool = False) -> None:
        """Take over answers, let go of claims if no container runs, and go on with series."""
        for ack in self.outbound(
            "SELECT message_id FROM processing_ack WHERE status IN ('completed', 'failed')"
        ):
            self.inbound(
                """UPDATE messages_in SET status = 'completed'
                   WHERE id = :id AND status != 'completed'""",
                id=ack["message_id"],
            )
        if not alive:
            self.reset()
        self._rearm()

    def reset(self) -> None:
        """Let go of all claims; each was a try."""
        for claim in self.outbound("SELECT * FROM processing_ack WHERE status = 'processing'"):
            for row in self.inbound(
                "SELECT * FROM messages_in WHERE id = :id AND status = 'pending'",
                id=claim["message_id"],
            ):
                self._try_later(row)
        sql = "DELETE FROM processing_ack WHERE status = 'processing'"
        self.files.run("outbound", sql)

    def _try_later(self, row: Row) -> None:
        after = row["process_after"]
        if after and in_sql(_ms(after)) > in_sql(self.files.clock()):
            return
        if row["tries"] >= TRIES:
            sql = "UPDATE messages_in SET status = 'failed' WHERE id = :id"
            self.inbound(sql, id=row["id"])
            return
        self.inbound(
            """UPDATE messages_in SET tries = tries + 1, process_after = datetime(:now, :pause)
               WHERE id = :id""",
            id=row["id"],
            pause=f"+{5 * 2 ** row['tries']} seconds",
        )

    def _rearm(self) -> None:
        sql = "SELECT * FROM messages_in WHERE status = 'completed' AND recurrence IS NOT NULL"
        for row in self.inbound(sql):
            prefix = "task" if row["kind"] == "task" else "msg"
            due = next_due(row["recurrence"], self.files.clock(), self.zone)
            fields = {**row, "id": f"{prefix}-{self.files.clock()}-{row['seq']}"}
            self.inbound(
                """INSERT INTO messages_in (id, seq, kind, timestamp, status, process_after,
                     recurrence, platform_id, channel_type, thread_id, content, series_id)
                   VALUES (:id, :seq, :kind, :now, 'pending', :after, :recurrence, :platform_id,
                     :channel_type, :thread_id, :content, :series_id)""",
                **{**fields, "seq": self._next_seq(), "after": in_iso(_ms(due.isoformat()))},
            )
            self.inbound("UPDATE messages_in SET recurrence = NULL WHERE id = :id", id=row["id"])

    # ------------------------------------------------------------------ tasks

    def cancel(self, task_id: str) -> None:
        """Drop a task."""
        sql = "UPDATE messages_in SET status = 'completed', recurrence = NULL WHERE "
        self.inbound(f"{sql}{_LIVE} AND status IN ('pending', 'paused')", id=task_id)

    def move(self, task_id: str, before: str, after: str) -> None:
        """Hold a task, or go on with it."""
        sql = f"UPDATE messages_in SET status = :after WHERE {_LIVE} AND status = :before"
        self.inbound(sql, id=task_id, before=before, after=after)

    def update(self, said: Row) -> int:
        """Change a task; give how many rows."""
        sql = f"SELECT * FROM messages_in WHERE {_LIVE} AND status IN ('pending', 'paused')"
        rows = self.inbound(sql, id=said["taskId"])
        for row in rows:
            content = json.loads(row["content"])
            content.update({key: said[key] for key in ("prompt", "script") if key in said})
            self.inbound(
                """UPDATE messages_in SET content = :content, process_after = :after,
                     recurrence = :recurrence WHERE id = :id""",
                id=row["id"],
                content=compact(content),
                after=said.get("processAfter", row["process_after"]),
                recurrence=said.get("recurrence", row["recurrence"]),
            )
        return len(rows)

    # ------------------------------------------------------------------ deliveries

    def undelivered(self) -> list[Row]:
        """Return what is to be sent now: all that is due and has no row in `delivered`."""
        known = {row["message_out_id"] for row in self.inbound("SELECT * FROM delivered")}
        due = self.outbound(
            """SELECT * FROM messages_out WHERE deliver_after IS NULL OR deliver_after <= :now
               ORDER BY timestamp ASC"""
        )
        return [row for row in due if row["id"] not in known]

    def drain(self, send: Send) -> None:
        """Deliver; what cannot be sent is tried three times."""
        for row in self.undelivered():
            try:
                name = self._deliver(row, send)
            except Exception:  # noqa: BLE001  (so does the original)
                self.attempts[row["id"]] = self.attempts.get(row["id"], 0) + 1
                if self.attempts[row["id"]] >= ATTEMPTS:
                    self.mark(row["id"], None, "failed")
            else:
                self.mark(row["id"], name, "delivered")

    def _deliver(self, row: Row, send: Send) -> str | None:
        said = json.loads(row["content"])
        if row["kind"] == "system":
            self._act(said)
            return None
        if not row["channel_type"] or not row["platform_id"]:
            return None
        outbox = self.folder / "outbox" / row["id"]
        files = {name: (outbox / name).read_bytes() for name in said.get("files", ())}
        return send(row, files)

    def _act(self, said: Row) -> None:
        task_id = said.get("taskId", "")
        match said["action"]:
            case "schedule_task":
                self.post_task(said)
            case "cancel_task":
                self.cancel(task_id)
            case "pause_task":
                self.move(task_id, "pending", "paused")
            case "resume_task":
                self.move(task_id, "paused", "pending")
            case "update_task" if not self.update(said):
                text = f'update_task: no live task matched id "{task_id}".'
                self.post(f"sys-{self.files.clock()}-nobody", {"text": text, "sender": "system"})
            case "cli_request":  # which it answers, but knows no command for tasks
                request = said["requestId"]
                error = {"code": "unknown-command", "message": f"no command {said['command']}"}
                frame = {"id": request, "ok": False, "error": error}
                answer = {"type": "cli_response", "requestId": request, "frame": frame}
                place = dict.fromkeys(("platform", "channel", "thread"))
                name = f"cli-resp-{request}"
                self.post(name, answer, kind="system", trigger=0, **place)

    def mark(self, out_id: str, name: str | None, status: str) -> None:
        """Write what became of a message; the first word counts."""
        self.inbound(
            """INSERT OR IGNORE INTO delivered (message_out_id, platform_message_id, status,
                 delivered_at) VALUES (:id, :name, :status, :now)""",
            id=out_id,
            name=name,
            status=status,
        )


def _ms(text: str) -> int:
    moment = datetime.fromisoformat(text)
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(zoned.timestamp() * 1000)
