"""Mailroom: all mailboxes of one host, from the index that knows them to the loop that serves them.

<root>/mailbox.db                          the index
<root>/mailbox/<agent group>/<session>/    the folder of each session
"""

import logging
import threading
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

from threadkeep.base.clock import Clock, now_ms
from threadkeep.errors import NotFound
from threadkeep.mailbox import inbound, receiving, serving, sweep as sweeping
from threadkeep.mailbox.actions import Handler
from threadkeep.mailbox.adapters import Adapter
from threadkeep.mailbox.context import MailContext
from threadkeep.mailbox.delivery import DeliveryReport, IsOver, drain
from threadkeep.mailbox.folder import Folder, session_dir
from threadkeep.mailbox.host import Host
from threadkeep.mailbox.index import MailIndex
from threadkeep.mailbox.index_records import AgentGroup, MailboxSession, MessagingGroup, SessionMode
from threadkeep.mailbox.policy import DEFAULT, Policy
from threadkeep.mailbox.records import Place
from threadkeep.mailbox.room_post import RoomPost
from threadkeep.mailbox.runner import Runner
from threadkeep.mailbox.sweep import SweepReport, sweep_session
from threadkeep.mailbox.times import find_zone, known_zone

log = logging.getLogger(__name__)
Which = MailboxSession | str
# How long one folder may keep the others waiting, in seconds: its agent can lock its files.
PATIENCE: Final = 5.0


class Mailroom:
    """All mailboxes below one folder; safe to use from several threads."""

    def __init__(
        self,
        root: Path,
        index: MailIndex,
        *,
        adapters: Mapping[str, Adapter],
        runner: Runner | None,
        actions: Mapping[str, Handler],
        clock: Clock,
        zone: str,
        policy: Policy,
    ) -> None:
        """Use `Mailroom.open`."""
        self.root = root
        self.index = index
        self._adapters = adapters
        self._runner = runner
        self._actions = actions
        self.clock = clock
        self._options: dict[str, Any] = {"clock": clock, "zone": zone, "policy": policy}
        self._guard = threading.Lock()
        self._hosts: dict[str, Host] = {}
        self._turns: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    @classmethod
    def open(
        cls,
        root: str | Path,
        *,
        adapters: Mapping[str, Adapter] | None = None,
        runner: Runner | None = None,
        actions: Mapping[str, Handler] | None = None,
        clock: Clock = now_ms,
        zone: str = "UTC",
        policy: Policy = DEFAULT,
    ) -> Self:
        """Open all mailboxes of a folder, which is made if it is missing.

        `adapters` are the channels by their types, `runner` starts agents that have mail, and
        `actions` are what agents may ask of the host besides tasks.
        """
        find_zone(zone)
        place = Path(root)
        index = MailIndex.open(place / "mailbox.db", clock=clock)
        return cls(
            place,
            index,
            adapters={} if adapters is None else adapters,
            runner=runner,
            actions=actions or {},
            clock=clock,
            zone=zone,
            policy=policy,
        )

    def close(self) -> None:
        """Close the index; agents that run go on."""
        self.index.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------------ sessions

    def folder(self, session: Which) -> Folder:
        """Give the folder of a session."""
        found = self._session(session)
        return Folder(session_dir(self.root / "mailbox", found.agent_group_id, found.id))

    def host(self, session: Which) -> Host:
        """Give the host's side of a session; its folder is made if it is missing."""
        found = self._session(session)
        host = self._hosts.get(found.id)
        if host is None:  # not under a lock: one folder that hangs must not keep the others shut
            host = self._hosts.setdefault(found.id, self._open_host(found))
        zone = self._zone_of(found)
        if host.context.zone != zone:
            host.context = host.context._replace(zone=zone)
        return host

    def _zone_of(self, session: MailboxSession) -> str:
        return known_zone(self.index.zone(session.agent_group_id), self._options["zone"])

    def set_zone(self, agent_group: str, zone: str | None) -> None:
        """Set the zone in which an agent group's tasks are meant; None for the mailroom's own."""
        self.index.set_zone(agent_group, zone)
        group = self.index.agent_group(agent_group)
        for session in self.index.sessions(agent_group_id=group.id, status="active"):
            self.refresh(session)

    def _open_host(self, session: MailboxSession) -> Host:
        options: dict[str, Any] = dict(self._options)
        runner = self._runner
        if runner is not None:
            options["running"] = lambda: runner.is_running(session.id)
        folder = Folder(self.folder(session).path, budget=PATIENCE)
        group = session.agent_group_id
        if not (folder.inbound_path.exists() and folder.outbound_path.exists()):
            Host.create(folder.path, agent_group=group, session=session.id, **options)
        host = Host(folder, **options)
        # The folder says who it is, too, but the agent could have written that.
        host.context = host.context._replace(agent_group=group, session=session.id)
        return host

    def context(self, session: Which) -> MailContext:
        """Give the surroundings of a session, for verbs that take them."""
        return self.host(session).context

    def _ready(self, session: MailboxSession) -> MailContext:
        """Give the surroundings of a session that gets mail: its agent may want to answer."""
        self.refresh(session)
        return self.context(session)

    def _siblings(self, session: MailboxSession) -> list[MailContext]:
        """Give the surroundings of the agent's other sessions that are active and have a folder."""
        group = self.index.sessions(agent_group_id=session.agent_group_id, status="active")
        others = [one for one in group if one.id != session.id]
        return [self.context(one) for one in others if self.folder(one).inbound_path.exists()]

    def _session(self, session: Which) -> MailboxSession:
        return session if isinstance(session, MailboxSession) else self.index.session(session)

    def new_session(
        self,
        agent_group: str,
        channel_type: str | None = None,
        platform_id: str | None = None,
        *,
        thread_id: str | None = None,
        mode: SessionMode = "shared",
    ) -> MailboxSession:
        """Give an agent group, by id or name, a session; what is missing for it is made.

        With a channel and a chat the two are wired: mail of the chat comes here from now on. A
        place that has a session keeps it.
        """
        group = self._agent_group(agent_group)
        chat = None
        if channel_type is not None and platform_id is not None:
            chat = self.index.add_messaging_group(channel_type, platform_id)
            self._wire(chat, group, mode)
        chat_id = None if chat is None else chat.id
        session, _ = self.index.resolve_session(group.id, chat_id, thread_id, mode)
        self.refresh(session)
        return session

    def _agent_group(self, reference: str) -> AgentGroup:
        try:
            return self.index.agent_group(reference)
        except NotFound:
            return self.index.add_agent_group(reference)

    def _wire(self, chat: MessagingGroup, group: AgentGroup, mode: SessionMode) -> None:
        for wiring in self.index.agents_of(chat.channel_type, chat.platform_id):
            if (wiring.agent_group_id, wiring.session_mode) == (group.id, mode):
                return
        self.index.wire(chat.id, group.id, session_mode=mode)

    def refresh(self, session: Which) -> None:
        """Tell the agent anew whom it may write to and where its mail goes, if that changed.

        A zone of the agent group is written down in the folder, for whoever opens that alone.
        """
        found = self._session(session)
        rows = self.index.destinations(found.agent_group_id)
        place = self._home_of(found)
        host = self.host(found)
        zone = known_zone(self.index.zone(found.agent_group_id), "") or None
        if host.own_zone() != zone:
            host.set_zone(zone)
        if (host.destinations(), host.routing()) == (rows, place):
            return
        with host.context.folder.inbound.write() as tx:
            inbound.write_destinations(tx, rows)
            inbound.write_routing(tx, place)

    def _home_of(self, session: MailboxSession) -> Place:
        if session.messaging_group_id is None:
            return Place()
        chat = self.index.messaging_group(session.messaging_group_id)
        return Place(chat.channel_type, chat.platform_id, session.thread_id)

    # ------------------------------------------------------------------ mail to agents

    receive = receiving.receive
    answer = receiving.answer

    # ------------------------------------------------------------------ agents

    def is_running(self, session: Which) -> bool:
        """Tell whether an agent works for a session, whoever started it."""
        found = self._session(session)
        return sweeping.is_running(self.context(found), self._runner_of(found))

    def wake(self, session: Which) -> bool:
        """See to it that the agent of a session runs; False if it does not, and its mail waits.

        Several who ask at the same time share one start.
        """
        if self._runner is None:
            return False
        with self.turn(session):
            try:
                found = self._session(session)
                return self.is_running(found) or self._start(self._runner, found)
            except Exception as error:  # noqa: BLE001  (a wake that fails leaves the mail pending)
                log.warning("the agent of %s did not start: %r", session, error)
                return False

    def turn(self, session: Which) -> threading.Lock:
        """Give the lock under which one thread at a time changes what a session is about."""
        with self._guard:
            return self._turns[session if isinstance(session, str) else session.id]

    def _start(self, runner: Runner, session: MailboxSession) -> bool:
        self.refresh(session)
        folder = self.folder(session)
        folder.forget_heartbeat()
        started = runner.start(session.id, folder.path)
        if started:
            self.index.set_container_status(session.id, "running")
        return started

    def _runner_of(self, session: MailboxSession) -> "_OneRunner | None":
        return None if self._runner is None else _OneRunner(self, self._runner, session)

    # ------------------------------------------------------------------ regular work

    def deliver(self, session: Which | None = None) -> dict[str, DeliveryReport]:
        """Send what is due, of one session or of all that are active; gives what was done."""
        if session is not None:
            found = self._session(session)
            return {found.id: self.drain(found)}
        return serving.for_each(self, self.drain)

    def sweep(self, session: Which | None = None) -> dict[str, SweepReport]:
        """Take over answers, end what is stuck and wake who has mail, in one session or in all."""
        if session is not None:
            found = self._session(session)
            return {found.id: self.sweep_one(found)}
        return serving.for_each(self, self.sweep_one)

    serve = serving.serve

    def drain(self, session: MailboxSession, is_over: IsOver = lambda: False) -> DeliveryReport:
        """Send what is due of one session, until that is over."""
        context = self.context(session)
        post = RoomPost(
            session,
            context,
            self.index,
            adapters=self._adapters,
            handlers=self._actions,
            open_session=self._ready,
            siblings=self._siblings,
            wake=self.wake,
        )
        return drain(context, post, is_over)

    def sweep_one(self, session: MailboxSession) -> SweepReport:
        """Bring one session up to date."""
        swept = sweep_session(self.context(session), self._runner_of(session))
        known = self.index.session(session.id).container_status
        if known == "running" and not self.is_running(session):
            self.index.set_container_status(session.id, "stopped")
        return swept


class _OneRunner:
    """The runner of one session, as a sweep needs it."""

    def __init__(self, room: Mailroom, runner: Runner, session: MailboxSession) -> None:
        self._room = room
        self._runner = runner
        self._session = session

    def is_running(self) -> bool:
        """Tell whether the agent of the session runs."""
        return self._runner.is_running(self._session.id)

    def start(self) -> bool:
        """Wake the agent."""
        return self._room.wake(self._session)

    def stop(self, reason: str) -> None:
        """End the agent."""
        self._runner.stop(self._session.id, reason)
