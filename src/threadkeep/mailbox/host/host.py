"""The host's side of one session folder: puts mail in, hears what became of it, hands mail on."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from threadkeep.base.clock import Clock, find_zone, known_zone, now_ms
from threadkeep.base.tx import Tx
from threadkeep.base.verbs import calls
from threadkeep.mailbox import content as shapes, inbound, letters, tasks as tasks_, verification
from threadkeep.mailbox.adapters import Adapter
from threadkeep.mailbox.arguments import need_each
from threadkeep.mailbox.container import outbound
from threadkeep.mailbox.context import DEFAULT, MailContext, Policy
from threadkeep.mailbox.folder import Folder, Owner, bring_up_inbound, provision
from threadkeep.mailbox.host import delivery, sweep as sweeps, trace as traces
from threadkeep.mailbox.host.delivery import DeliveryReport
from threadkeep.mailbox.host.post_office import Handler, LocalPost
from threadkeep.mailbox.records import (
    Destination,
    Json,
    Mail,
    OutMail,
    Place,
)
from threadkeep.mailbox.rows import CAP, destination_of, mail_of, out_of

Moment = datetime | str | int
_ZONE: Final = "zone"


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
        left unfinished is its own to finish. Give it when agents run in virtual machines. Tasks are
        meant in the zone that the folder has of its own (`set_zone`), else in `zone`.
        """
        place = (folder if isinstance(folder, Folder) else Folder(folder)).need()
        bring_up_inbound(place)
        agent_group, session, own = _names(place)
        given = MailContext(place, clock, zone, policy, agent_group, session, running).checked()
        self._given_zone = zone
        self.context = given._replace(zone=known_zone(own, zone))

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
        names = (
            ("agent_group", agent_group, place.path.parent.name),
            ("session", session, place.path.name),
        )
        with place.inbound.write() as tx:
            for key, given, folder_name in names:
                known = tx.value("meta", {"key": key})
                if given or not known:
                    tx.run("set_meta", {"key": key, "value": given or folder_name})
        return cls(place, **options)

    # ------------------------------------------------------------------ mail to the agent

    @property
    def session(self) -> str:
        """The session whose mail this is."""
        return self.context.session

    @property
    def path(self) -> Path:
        """The folder of the session."""
        return self.context.folder.path

    @property
    def zone(self) -> str:
        """The zone in which times without one are interpreted."""
        return self.context.zone

    def use_zone(self, zone: str) -> None:
        """Interpret times without a zone in this one, whatever the folder's own is."""
        self.context = self.context._replace(zone=zone)

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
        files = need_each(attachments, (dict,), "attachments")
        return self.insert_message(
            "chat", {**said, "attachments": files} if files else said, **more
        )

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
        """Send a message to the agent's inbox; it is on the disk when this returns.

        Attachments with `data` (base64) become files of `inbox/`. The same id with the same
        content is written once. Without a `place` it comes from where the session's mail goes.
        """
        return inbound.insert_message(
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

    insert_task = calls(inbound.insert_task)
    note = calls(inbound.note)
    answer = calls(inbound.answer)

    # ------------------------------------------------------------------ places

    def write_destinations(self, destinations: Iterable[Destination]) -> int:
        """Replace all destinations of the agent."""
        rows = need_each(destinations, (Destination,), "destinations")
        with self.context.folder.inbound.write() as tx:
            return inbound.write_destinations(tx, rows)

    def destinations(self) -> list[Destination]:
        """List the destinations of the agent."""
        with self.context.folder.inbound.read() as tx:
            return [destination_of(row) for row in tx.all("destinations")]

    def write_routing(self, place: Place) -> None:
        """Set where mail without a destination is sent."""
        with self.context.folder.inbound.write() as tx:
            inbound.write_routing(tx, place)

    def routing(self) -> Place:
        """Return where mail without a destination is sent."""
        with self.context.folder.inbound.read() as tx:
            return Place(*(tx.one("routing") or ()))

    def own_zone(self) -> str | None:
        """Return the session's own time zone, None if it has none."""
        with self.context.folder.inbound.read() as tx:
            zone: str | None = tx.value("meta", {"key": _ZONE})
            return zone

    def set_zone(self, zone: str | None) -> None:
        """Set the session's own time zone for its tasks; None removes it."""
        if zone is not None:
            find_zone(zone)
        with self.context.folder.inbound.write() as tx:
            if zone is None:
                tx.run("forget_meta", {"key": _ZONE})
            else:
                tx.run("set_meta", {"key": _ZONE, "value": zone})
        self.context = self.context._replace(zone=zone or self._given_zone)

    # ------------------------------------------------------------------ answers and sweeps

    sync = calls(sweeps.sync)
    claims = calls(sweeps.open_claims)
    reset_claims = calls(sweeps.reset_claims)
    sweep = calls(sweeps.sweep_session)

    # ------------------------------------------------------------------ tasks

    tasks = calls(tasks_.live)
    cancel_task = calls(tasks_.cancel)
    pause_task = calls(tasks_.pause)
    resume_task = calls(tasks_.resume)

    def update_task(self, task_id: str, **changes: Any) -> int:
        """Change prompt, script, process_after or recurrence of a task; return the row count."""
        return tasks_.update(self.context, task_id, changes)

    rearm = calls(tasks_.rearm)

    # ------------------------------------------------------------------ dead letters and checks

    dead_letters = calls(letters.dead_letters)
    retry = calls(letters.retry)
    purge = calls(letters.purge)
    prune = calls(sweeps.prune_as_host)
    trace = calls(traces.trace)
    verify = calls(verification.verify)

    # ------------------------------------------------------------------ mail from the agent

    def drain(
        self, adapters: Mapping[str, Adapter], actions: Mapping[str, Handler] | None = None
    ) -> DeliveryReport:
        """Send what is due through the given channels, and carry out the agent's requests."""
        return delivery.drain(self.context, LocalPost(self.context, adapters, actions))

    # ------------------------------------------------------------------ looking

    def due(self) -> int:
        """Count the mail that the agent should process now."""
        with self.context.folder.inbound.read() as tx:
            return int(tx.value("count_due", {"now": self.context.now_sql()}))

    def mail(self, which: str | int) -> Mail:
        """Return inbound mail by its id or number."""
        with self.context.folder.inbound.read() as tx:
            return inbound.look_up(tx, which)

    target = calls(outbound.target_of)

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

    def _outbound(self) -> AbstractContextManager[Tx]:
        ctx = self.context
        return ctx.folder.outbound.read(owner_runs=ctx.running)


def _names(folder: Folder) -> tuple[str | None, str, str | None]:
    with folder.inbound.read() as tx:
        group, session, zone = (
            tx.value("meta", {"key": key}) for key in ("agent_group", "session", _ZONE)
        )
    return group or folder.path.parent.name or None, session or folder.path.name, zone
