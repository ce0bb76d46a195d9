"""Mailroom: all mailboxes of one host, from the index that knows them to the loop that serves them.

<root>/mailbox.db                          the index
<root>/mailbox/<agent group>/<session>/    the folder of each session
"""

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, TypeVar

import msgspec

from threadkeep.base.clock import Clock, find_zone, known_zone, now_ms
from threadkeep.errors import NotFound
from threadkeep.mailbox import agent_mail, inbound
from threadkeep.mailbox.adapters import Adapter
from threadkeep.mailbox.agent_mail import RoomPost
from threadkeep.mailbox.context import DEFAULT, MailContext, Policy
from threadkeep.mailbox.folder import Folder, session_dir
from threadkeep.mailbox.host import sweep as sweeping
from threadkeep.mailbox.host.delivery import DeliveryReport, IsOver, drain
from threadkeep.mailbox.host.host import Host
from threadkeep.mailbox.host.post_office import Handler
from threadkeep.mailbox.host.sweep import SweepReport, sweep_session
from threadkeep.mailbox.index import MailIndex
from threadkeep.mailbox.index_records import AgentGroup, MailboxSession, MessagingGroup, SessionMode
from threadkeep.mailbox.records import Place
from threadkeep.mailbox.runner import Runner

# ------------------------------------------------------------------------------
# The regular work of a mailroom: all sessions side by side, none held up by another.

log = logging.getLogger(__name__)
R = TypeVar("R")
Timer = Callable[[], float]
_REST: Final = 10
SIDE_BY_SIDE: Final = 32
_DRAIN, _SWEEP = "drain", "sweep"


class ServeReport(msgspec.Struct, frozen=True):
    """What one turn of `serve` did, by session; `errors` are what stopped it there.

    `busy` are the sessions that took longer; a later turn tells what became of them.
    """

    delivered: dict[str, DeliveryReport]
    swept: dict[str, SweepReport]
    errors: dict[str, str]
    busy: tuple[str, ...] = ()


class Rest(NamedTuple):
    """Until when a session is left alone, and what for.

    An agent can lock its files, and each look at them then waits for seconds: without a rest one
    session would take all the time there is.
    """

    until: float
    trouble: str


class LookResult(NamedTuple):
    """What became of one look at a session: a result, or what stopped it and for how long."""

    result: Any = None
    rest: Rest | None = None


def serve(
    room: "Mailroom",
    stop: threading.Event,
    *,
    every: float = 1.0,
    sweep_every: float = 60.0,
    side_by_side: int = SIDE_BY_SIDE,
    patience: float = 1.0,
    on_report: Callable[[ServeReport], None] | None = None,
) -> None:
    """Deliver and sweep at intervals in seconds, until `stop` is set.

    Up to `side_by_side` sessions are served at once, each by one thread for its deliveries and one
    for its sweeps; with 1 there is one for all. A turn waits `patience` seconds for them: a channel
    that takes longer delays nobody else. Trouble with a session is logged when it begins and when
    it changes. A session that took its time to fail rests ten times as long.

    After `stop` every channel ends the message it has at hand, and begins no other.
    """
    known: dict[str, str] = {}
    next_sweep = time.monotonic()

    def tell(report: ServeReport) -> None:
        for session_id, trouble in report.errors.items():
            if known.get(session_id) != trouble:
                log.error("session %s: %s", session_id, trouble)
        known.clear()
        known.update(report.errors)
        if on_report is not None:
            on_report(report)

    with _Crew(room, side_by_side) as crew:
        while not stop.is_set():
            is_due = time.monotonic() >= next_sweep
            if is_due:
                next_sweep = time.monotonic() + sweep_every
            tell(crew.turn(sweeping=is_due, patience=patience))
            stop.wait(every)
        last = crew.finish()
    if last.delivered or last.swept or last.errors:
        tell(last)


def turn(
    room: "Mailroom",
    *,
    sweeping: bool,
    resting: dict[str, Rest] | None = None,
    timer: Timer = time.monotonic,
) -> ServeReport:
    """Serve every active session once, but for those that are `resting`."""
    with _Crew(room, SIDE_BY_SIDE, resting, timer) as crew:
        return crew.turn(sweeping=sweeping, patience=None)


class _Crew:
    """The threads that serve; the same is never done twice at once for one session."""

    def __init__(
        self,
        room: "Mailroom",
        side_by_side: int,
        resting: dict[str, Rest] | None = None,
        timer: Timer = time.monotonic,
    ) -> None:
        self._room = room
        self._timer = timer
        self._resting = {} if resting is None else resting
        self._over = threading.Event()
        self._running: dict[tuple[str, str], Future[LookResult]] = {}
        self._threads = ThreadPoolExecutor(side_by_side, thread_name_prefix="threadkeep-mail")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._threads.shutdown()

    def turn(self, *, sweeping: bool, patience: float | None) -> ServeReport:
        """Begin to serve who is not being served; tell what is done when patience ends."""
        sessions = self._room.index.sessions(status="active")
        resting = self._who_rests(sessions)
        begun = [
            future
            for verb in ((_SWEEP, _DRAIN) if sweeping else (_DRAIN,))
            for session in sessions
            if session.id not in resting and (future := self._begin(verb, session)) is not None
        ]
        wait(begun, patience)
        return self._collect(resting)

    def finish(self) -> ServeReport:
        """Wait for what is at hand, and tell what became of it."""
        self._over.set()
        self._threads.shutdown()
        return self._collect({})

    def _who_rests(self, sessions: Iterable[MailboxSession]) -> dict[str, str]:
        now = self._timer()
        rests = {one.id: rest for one in sessions if (rest := self._resting.get(one.id))}
        return {one: rest.trouble for one, rest in rests.items() if now < rest.until}

    def _begin(self, verb: str, session: MailboxSession) -> Future[LookResult] | None:
        key = (verb, session.id)
        if key in self._running:
            return None
        job = self._room.sweep_one if verb == _SWEEP else self._drain
        future = self._running[key] = self._threads.submit(attempt, job, session, self._timer)
        return future

    def _drain(self, session: MailboxSession) -> DeliveryReport:
        return self._room.drain(session, self._over.is_set)

    def _collect(self, errors: dict[str, str]) -> ServeReport:
        done: dict[str, dict[str, Any]] = {_DRAIN: {}, _SWEEP: {}}
        for key, future in list(self._running.items()):
            if not future.done():
                continue
            del self._running[key]
            verb, session_id = key
            found = future.result()
            if found.rest is None:
                done[verb][session_id] = found.result
            else:
                self._resting[session_id] = found.rest
                errors[session_id] = found.rest.trouble
        busy = tuple(dict.fromkeys(session_id for _, session_id in self._running))
        return ServeReport(done[_DRAIN], done[_SWEEP], errors, busy)


def attempt(
    verb: Callable[[MailboxSession], R], session: MailboxSession, timer: Timer
) -> LookResult:
    """Do something for a session; what fails is told, with how long the session shall rest."""
    began = timer()
    try:
        return LookResult(verb(session))
    except Exception as error:  # noqa: BLE001  (one session must not stop the others)
        now = timer()
        return LookResult(
            rest=Rest(now + (now - began) * _REST, f"{type(error).__name__}: {error}")
        )


def for_each(room: "Mailroom", verb: Callable[[MailboxSession], R]) -> dict[str, R]:
    """Do something for every active session in turn; failures are logged, the others continue."""
    done: dict[str, R] = {}
    for session in room.index.sessions(status="active"):
        found = attempt(verb, session, time.monotonic)
        if found.rest is None:
            done[session.id] = found.result
        else:
            log.error("session %s: %s", session.id, found.rest.trouble)
    return done


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
        """Open all mailboxes of a folder, which is created if it is missing.

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
        """Close the index; running agents continue."""
        self.index.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------------ sessions

    def folder(self, session: Which) -> Folder:
        """Return the folder of a session."""
        found = self._session(session)
        return Folder(session_dir(self.root / "mailbox", found.agent_group_id, found.id))

    def host(self, session: Which) -> Host:
        """Return the host's side of a session; its folder is created if it is missing."""
        found = self._session(session)
        host = self._hosts.get(found.id)
        if host is None:  # not under a lock: one folder that hangs must not keep the others shut
            host = self._hosts.setdefault(found.id, self._open_host(found))
        zone = self._zone_of(found)
        if host.zone != zone:
            host.use_zone(zone)
        return host

    def _zone_of(self, session: MailboxSession) -> str:
        return known_zone(self.index.zone(session.agent_group_id), self._options["zone"])

    def set_zone(self, agent_group: str, zone: str | None) -> None:
        """Set the zone of an agent group's tasks; None for the mailroom's own."""
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
        """Return the surroundings of a session, for verbs that take them."""
        return self.host(session).context

    def _ready(self, session: MailboxSession) -> MailContext:
        """Return the surroundings of a session that gets mail: its agent may want to answer."""
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
        """Create a session for an agent group, given by id or name; anything missing is created.

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
        """Update the agent's destinations and routing, if they have changed.

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

    receive = agent_mail.receive
    answer = agent_mail.answer

    # ------------------------------------------------------------------ agents

    def is_running(self, session: Which) -> bool:
        """Return whether an agent is running for a session, whoever started it."""
        found = self._session(session)
        return sweeping.is_running(self.context(found), self._runner_of(found))

    def wake(self, session: Which) -> bool:
        """Make sure that the agent of a session runs; False if it does not, and its mail waits.

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
        """Return the lock under which one thread at a time changes what a session is about."""
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
        """Send what is due, for one session or all active ones; returns what was done."""
        if session is not None:
            found = self._session(session)
            return {found.id: self.drain(found)}
        return for_each(self, self.drain)

    def sweep(self, session: Which | None = None) -> dict[str, SweepReport]:
        """Process answers, stop hung agents and wake those with mail, in one session or in all."""
        if session is not None:
            found = self._session(session)
            return {found.id: self.sweep_one(found)}
        return for_each(self, self.sweep_one)

    serve = serve

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
        """Return whether the agent of the session is running."""
        return self._runner.is_running(self._session.id)

    def start(self) -> bool:
        """Wake the agent."""
        return self._room.wake(self._session)

    def stop(self, reason: str) -> None:
        """Stop the agent."""
        self._runner.stop(self._session.id, reason)
