"""The host's side of one session folder: puts mail in, hears what became of it, hands mail on."""

from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from threadkeep.base.clock import Clock, now_ms
from threadkeep.mailbox import content as shapes
from threadkeep.mailbox import inbound, posting
from threadkeep.mailbox.context import Context
from threadkeep.mailbox.folder import Folder, Owner, bring_up_inbound, provision
from threadkeep.mailbox.policy import DEFAULT, Policy
from threadkeep.mailbox.records import Destination, Json, Mail, OutMail, Place
from threadkeep.mailbox.rows import CAP, mail_of, out_of

Moment = datetime | str | int


class Host:
    """The host's side of one session; safe to use from several threads and processes."""

    def __init__(
        self,
        folder: str | Path | Folder,
        *,
        clock: Clock = now_ms,
        zone: str = "UTC",
        policy: Policy = DEFAULT,
        running: Callable[[], bool] | None = None,
    ) -> None:
        """Open the host's side of a folder that is there; older ones get what they lack.

        `running` tells whether a container works in the folder: while it does, a commit that it
        left unfinished is its own to finish. Give it when agents run in virtual machines.
        """
        place = (folder if isinstance(folder, Folder) else Folder(folder)).need()
        bring_up_inbound(place)
        agent_group, session = _names(place)
        self.context = Context(place, clock, zone, policy, agent_group, session, running)

    @classmethod
    def create(
        cls,
        folder: str | Path,
        *,
        agent_group: str | None = None,
        session: str | None = None,
        owner: Owner | None = None,
        **options: Any,
    ) -> "Host":
        """Make a session folder, or complete one, and open the host's side of it.

        Agent group and session are known by the names of the folders unless they are given.
        """
        place = provision(folder, owner)
        names = {
            "agent_group": agent_group or place.path.parent.name,
            "session": session or place.path.name,
        }
        with place.inbound.write() as tx:
            for key, value in names.items():
                if value and (agent_group or session or tx.value("meta", {"key": key}) is None):
                    tx.run("set_meta", {"key": key, "value": value})
        return cls(place, **options)

    # ------------------------------------------------------------------ mail to the agent

    def send(
        self,
        text: str,
        *,
        sender: str = "user",
        sender_id: str = "user",
        attachments: Iterable[Json] = (),
        **more: Any,
    ) -> Mail:
        """Send the agent a chat message; see `insert_message` for what else may be given."""
        said = shapes.chat(text, sender=sender, sender_id=sender_id)
        files = list(attachments)
        return self.insert_message("chat", {**said, "attachments": files} if files else said, **more)

    def insert_message(
        self,
        kind: str,
        content: Json | str,
        *,
        id: str | None = None,  # noqa: A002  (the column's name)
        place: Place | None = None,
        timestamp: Moment | None = None,
        process_after: Moment | None = None,
        trigger: bool = True,
        on_wake: bool = False,
        source_session_id: str | None = None,
        hops: int = 0,
    ) -> Mail:
        """Put a message into the agent's inbox; it is on the disk when this returns.

        Attachments with `data` (base64) become files of `inbox/`. The same id with the same
        content is written once. Without a `place` it comes from where the session's mail goes.
        """
        return posting.insert_message(
            self.context,
            kind,
            content,
            message_id=id,
            place=place,
            timestamp=timestamp,
            process_after=process_after,
            trigger=trigger,
            on_wake=on_wake,
            source_session_id=source_session_id,
            hops=hops,
        )

    def insert_task(
        self,
        prompt: str,
        *,
        process_after: Moment | None = None,
        recurrence: str | None = None,
        script: str | None = None,
        id: str | None = None,  # noqa: A002  (the column's name)
        place: Place | None = None,
    ) -> Mail:
        """Give the agent a task, at once or later, once or again and again (cron)."""
        return posting.insert_task(
            self.context, prompt, process_after, recurrence, script, task_id=id, place=place
        )

    def note(self, text: str, *, trigger: bool = False) -> Mail:
        """Tell the agent something in the host's own name; by itself it wakes nobody."""
        return posting.note(self.context, text, trigger=trigger)

    def answer(
        self,
        question_id: str,
        option: str,
        *,
        user_id: str = "user",
        place: Place | None = None,
        asked_ms: int | None = None,
    ) -> Mail:
        """Answer a question of the agent's; the same question is answered once."""
        return posting.answer(self.context, question_id, option, user_id, place, asked_ms)

    # ------------------------------------------------------------------ places

    def write_destinations(self, destinations: Iterable[Destination]) -> int:
        """Replace all names the agent may write to."""
        rows = list(destinations)
        with self.context.folder.inbound.write() as tx:
            return inbound.write_destinations(tx, rows)

    def destinations(self) -> list[Destination]:
        """List the names the agent may write to."""
        with self.context.folder.inbound.read() as tx:
            return [Destination(*row) for row in tx.all("destinations")]

    def write_routing(self, place: Place) -> None:
        """Set where mail goes that names no destination."""
        with self.context.folder.inbound.write() as tx:
            inbound.write_routing(tx, place)

    def routing(self) -> Place:
        """Give where mail goes that names no destination."""
        with self.context.folder.inbound.read() as tx:
            return Place(*(tx.one("routing") or ()))

    # ------------------------------------------------------------------ looking

    def due(self) -> int:
        """Count the mail that wants the agent's attention now."""
        with self.context.folder.inbound.read() as tx:
            return int(tx.value("count_due", {"now": self.context.now_sql()}))

    def mail(self, which: str | int) -> Mail:
        """Give inbound mail by its id or number."""
        with self.context.folder.inbound.read() as tx:
            return inbound.look_up(tx, which)

    def inbox(
        self, status: str | None = None, *, kind: str | None = None, limit: int = 50
    ) -> list[Mail]:
        """List inbound mail, the newest `limit` in the order of their numbers."""
        with self.context.folder.inbound.read() as tx:
            asked = {"status": status, "kind": kind, "limit": limit}
            return [mail_of(row) for row in tx.all("newest_mail", asked)][::-1]

    def outbox(self, limit: int = 50) -> list[OutMail]:
        """List outbound mail, the newest `limit` in the order of their numbers."""
        with self._outbound() as tx:
            rows = tx.all("out_newest", {"limit": limit, "cap": CAP})
            return [out_of(row) for row in rows][::-1]

    def _outbound(self) -> Any:
        ctx = self.context
        return ctx.folder.outbound.read(lenient=True, owner_runs=ctx.running)


def _names(folder: Folder) -> tuple[str | None, str]:
    with folder.inbound.read() as tx:
        group = tx.value("meta", {"key": "agent_group"})
        session = tx.value("meta", {"key": "session"})
    return group or folder.path.parent.name or None, session or folder.path.name
