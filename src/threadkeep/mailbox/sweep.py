"""The host's regular look at a session: take over answers, end what is stuck, wake who has mail."""

import logging
from typing import Final, Protocol

import msgspec

from threadkeep.base.clock import is_due
from threadkeep.base.presence import is_held, was_left
from threadkeep.errors import Conflict, ThreadkeepError
from threadkeep.mailbox import settling, tasks
from threadkeep.mailbox.context import MailContext
from threadkeep.mailbox.folder import take_checks_out
from threadkeep.mailbox.records import ToolState
from threadkeep.mailbox.settling import ResetReport, SettleReport
from threadkeep.mailbox.stuck import declared_ms, stuck_reason
from threadkeep.mailbox.times import read_moment

log = logging.getLogger(__name__)
_LONGEST_TOOL_MS: Final = 24 * 60 * 60_000  # nobody can be asked, and no word holds for ever


class SessionRunner(Protocol):
    """Starts and ends the container of one session."""

    def is_running(self) -> bool:
        """Tell whether the container of the session runs."""

    def start(self) -> bool:
        """Start a container; False if that failed, and the mail waits."""

    def stop(self, reason: str) -> None:
        """End the container, and return when it is gone."""


class SweepReport(msgspec.Struct, frozen=True, kw_only=True):
    """What one sweep of a session found and did."""

    settled: SettleReport
    stuck: str | None = None
    """Why the container was ended, or should be if nobody here can."""
    reset: ResetReport | None = None
    """What became of its claims; None while a container runs."""
    rearmed: tuple[str, ...] = ()
    """The next runs of recurring tasks, from every step of the sweep."""
    due: int = 0
    """How much mail wanted the agent's attention."""
    started: bool | None = None
    """Whether a container was started; None if none was wanted, False if that failed."""


def sweep_session(ctx: MailContext, runner: SessionRunner | None = None) -> SweepReport:
    """Bring one session up to date; without a runner nothing is started or ended.

    A container that this sweep starts is not judged by it: it had no time yet to show life.
    """
    settled = settling.sync(ctx)
    running = is_running(ctx, runner)
    stuck = _stuck(ctx) if running else None
    if stuck is not None and runner is not None:
        runner.stop(stuck)
        running = is_running(ctx, runner)
        settled = _both(settled, settling.sync(ctx))  # what it said last, before it ended
    reset = None if running else _reset(ctx)
    if not running:
        _take_checks_out(ctx)
    rearmed = tuple(mail.id for mail in tasks.rearm(ctx))
    due = _due(ctx)
    started = None if runner is None or running or due == 0 else _start(ctx, runner)
    return SweepReport(
        settled=settled,
        stuck=stuck,
        reset=reset,
        rearmed=(*settled.rearmed, *(reset.rearmed if reset else ()), *rearmed),
        due=due,
        started=started,
    )


def is_running(ctx: MailContext, runner: SessionRunner | None = None) -> bool:
    """Tell whether a container works in the folder, as far as anybody here knows.

    One of ours holds the lock of the folder, whoever started it; a lock file that nobody holds says
    nothing about a container of another kind. If nobody can tell of that one, a recent sign of life
    counts, and a tool that may still take its time; but not if one of ours died here, and all mail
    that is in anybody's hands was in its.
    """
    if is_held(ctx.folder.agent_lock_path):
        return True
    if runner is not None:
        return runner.is_running()
    if ctx.running is not None:
        return ctx.running()
    if was_left(ctx.folder.agent_lock_path) and settling.claims_are_ours(ctx):
        return False
    return _beat_lately(ctx) or _has_tool_in_hand(ctx)


def _reset(ctx: MailContext) -> ResetReport | None:
    """Let go of claims; None if a container has begun since we looked, which owns them now."""
    try:
        return settling.reset_claims(ctx)
    except Conflict:
        return None


def _take_checks_out(ctx: MailContext) -> None:
    """Make an older outbound.db take every number; one that cannot be remade serves as it is."""
    try:
        take_checks_out(ctx.folder)
    except ThreadkeepError as error:
        log.info("%s was not remade: %s", ctx.folder.outbound_path, error)


def _beat_lately(ctx: MailContext) -> bool:
    heartbeat = ctx.folder.heartbeat_ms()
    patience = ctx.policy.claim_ms
    return heartbeat is not None and not is_due(heartbeat + patience + 1, ctx.clock(), patience)


def _has_tool_in_hand(ctx: MailContext) -> bool:
    """Tell whether a tool runs that was announced to take this long; it shows no sign of life."""
    tool = tool_state(ctx)
    started, declared = read_moment(tool.started_at if tool else None), declared_ms(tool)
    if started is None or declared <= 0:
        return False
    patience = int(min(declared, _LONGEST_TOOL_MS))
    return not is_due(started + patience, ctx.clock(), patience)


def tool_state(ctx: MailContext) -> ToolState | None:
    """Give the tool that the container says it runs, None if it says nothing."""
    with ctx.folder.outbound.read(owner_runs=ctx.running) as tx:
        there = tx.execute("SELECT 1 FROM sqlite_master WHERE name = 'container_state'").fetchone()
        row = None if there is None else tx.one("tool_state")
    return None if row is None else ToolState(*row)


def _stuck(ctx: MailContext) -> str | None:
    claims = settling.claims(ctx)
    return stuck_reason(ctx.clock(), _heartbeat(ctx), tool_state(ctx), claims, ctx.policy)


def _heartbeat(ctx: MailContext) -> int | None:
    """Give the last sign of life; one from the future counts from now on, or it would for days."""
    heartbeat, now = ctx.folder.heartbeat_ms(), ctx.clock()
    if heartbeat is not None and heartbeat > now + ctx.policy.ceiling_ms:
        ctx.folder.beat(now)
        return now
    return heartbeat


def _due(ctx: MailContext) -> int:
    with ctx.folder.inbound.read() as tx:
        return int(tx.value("count_due", {"now": ctx.now_sql()}))


def _start(ctx: MailContext, runner: SessionRunner) -> bool:
    """Start a container; the old sign of life goes first, or it would count as a new one."""
    ctx.folder.forget_heartbeat()
    return runner.start()


def _both(first: SettleReport, second: SettleReport) -> SettleReport:
    return SettleReport(
        first.completed + second.completed,
        first.failed + second.failed,
        first.rearmed + second.rearmed,
    )
