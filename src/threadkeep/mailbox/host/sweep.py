"""When a container counts as stuck: a pure function of what it showed and what it said."""

import logging
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, NamedTuple, Protocol

import msgspec

from threadkeep.base.clock import is_due
from threadkeep.base.presence import is_held, was_left
from threadkeep.base.tx import Sql, Tx
from threadkeep.errors import Conflict, Damaged, Invalid, ThreadkeepError
from threadkeep.mailbox import inbound, tasks
from threadkeep.mailbox.arguments import need_whole
from threadkeep.mailbox.container.inbox import TOO_OFTEN
from threadkeep.mailbox.context import DEFAULT, MailContext, Policy, backoff_seconds
from threadkeep.mailbox.folder import take_checks_out
from threadkeep.mailbox.notices import tell_failed
from threadkeep.mailbox.records import Claim, Mail, ToolState
from threadkeep.mailbox.rows import read_moment, sqlite_form, whole_iso

StuckReason = Literal["absolute-ceiling", "claim-stuck"]
# The one tool whose caller says beforehand how long it may take.
_PATIENT_TOOL: Final = "Bash"


def stuck_reason(
    now_ms: int,
    heartbeat_ms: int | None,
    tool: ToolState | None,
    claims: Iterable[Claim],
    policy: Policy = DEFAULT,
) -> StuckReason | None:
    """Tell why a running container should be ended, None if it should not.

    Either it showed no heartbeat for too long, or none since it took a message that it has
    had for too long. A shell command may take as long as it was announced to.
    """
    declared = declared_ms(tool)
    if heartbeat_ms is not None and now_ms - heartbeat_ms > max(policy.ceiling_ms, declared):
        return "absolute-ceiling"
    longest = max(policy.claim_ms, declared)
    taken = (read_moment(claim.claimed_at) for claim in claims)
    if any(_is_stuck(now_ms, heartbeat_ms, at, longest) for at in taken):
        return "claim-stuck"
    return None


def _is_stuck(now_ms: int, heartbeat_ms: int | None, claimed: int | None, longest: float) -> bool:
    if claimed is None:  # no time at all: it proves nothing
        return False
    alive_since = heartbeat_ms is not None and heartbeat_ms > claimed
    return now_ms - claimed > longest and not alive_since


def declared_ms(tool: ToolState | None) -> float:
    """Return how long the tool that runs now may take by its own word, 0 if that does not count."""
    if tool is None or tool.current_tool != _PATIENT_TOOL:
        return 0
    declared: object = tool.declared_timeout_ms
    if isinstance(declared, float):
        return declared if math.isfinite(declared) else 0
    return declared if isinstance(declared, int) and not isinstance(declared, bool) else 0


# ------------------------------------------------------------------------------
# What the container said of mail, taken over by the host; and claims that it left behind.

NO_REASON: Final = "the agent gave no reason"
_MOST_CLAIMS: Final = 10_000
_MOST_TRIES: Final = 1000  # what the other side counted is believed up to here


class SettleReport(msgspec.Struct, frozen=True):
    """The mail that the container was done with, and the next runs that follow from it."""

    completed: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    rearmed: tuple[str, ...] = ()


class ResetReport(msgspec.Struct, frozen=True):
    """What became of claims without a container: tried again later, given up, and let go in all."""

    retried: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    released: int = 0
    rearmed: tuple[str, ...] = ()


class _Answer(NamedTuple):
    """An end by the container's word; `reason` is None if the mail was dealt with."""

    message_id: str
    tries: int
    reason: str | None


# ------------------------------------------------------------------ answers


def sync(ctx: MailContext) -> SettleReport:
    """Take over what the container said of its mail; without news nothing is written.

    What failed stays failed, with the reason, and the agent is told. A recurring task gets its
    next run in the same transaction, whether this one went well or not.
    """
    answers = _answers(ctx)
    if not answers:
        return SettleReport()
    with ctx.folder.inbound.write() as tx:
        settled = [(mail, one) for one in answers if (mail := _settle(ctx, tx, one)) is not None]
        failures = [(mail, one.reason) for mail, one in settled if one.reason is not None]
        tell_failed(ctx, tx, failures)
        return SettleReport(
            completed=tuple(mail.id for mail, one in settled if one.reason is None),
            failed=tuple(mail.id for mail, _ in failures),
            rearmed=_rearm(ctx, tx, [mail for mail, _ in settled]),
        )


def _answers(ctx: MailContext) -> list[_Answer]:
    folder = ctx.folder
    with folder.inbound.read(folder.beside_inbound, owner_runs=ctx.running) as tx:
        counts = "tk_claim" in tables_beside(ctx, tx)
        found = tx.all("answered")
        words = [_word(ctx, tx, message_id, counts=counts) for message_id, _ in found]
    return [
        _Answer(message_id, tries or 0, _reason(status, told))
        for (message_id, status), (tries, told) in zip(found, words, strict=True)
    ]


def _reason(status: str, told: str | None) -> str | None:
    """Return why mail failed, None if it did not; a word that is not known here is itself why."""
    if status == "completed":
        return None
    return told or (NO_REASON if status == "failed" else status)


def _settle(ctx: MailContext, tx: Tx, answer: _Answer) -> Mail | None:
    """Settle one row; give it as it was before, None if another host was quicker."""
    mail = inbound.find(tx, answer.message_id)
    if mail is None or mail.status not in ("pending", "paused"):
        return None
    if answer.reason is None:
        tx.run("settle", {"id": mail.id, "status": "completed", "tries": answer.tries})
    else:
        inbound.bury(tx, mail, answer.reason, answer.tries, ctx.now_sql())
    return mail


def _rearm(ctx: MailContext, tx: Tx, mails: Sequence[Mail]) -> tuple[str, ...]:
    runs = [tasks.rearm_one(ctx, tx, mail) for mail in mails if mail.recurrence is not None]
    return tuple(run.id for run in runs if run is not None)


def tables_beside(ctx: MailContext, tx: Tx) -> frozenset[str]:
    """Return the tables of the outbound.db read beside; refuse one that lacks what is needed."""
    found = frozenset(name for (name,) in tx.all("tables_beside"))
    if not {"processing_ack", "messages_out"} <= found:
        msg = f"{ctx.folder.outbound_path} lacks one of its tables, and was not read"
        raise Damaged(
            msg, hint="run `threadkeep mail verify` for details; the agent may have changed it"
        )
    return found


def _word(
    ctx: MailContext, tx: Tx, message_id: str, *, counts: bool
) -> tuple[int | None, str | None]:
    """Return how often the container says it claimed a message, and why it gave up."""
    # Only one of the two files has this table, so its name alone will do.
    sql = ctx.folder.outbound.queries["claim_of"]
    row = tx.one(Sql(sql), {"id": message_id}) if counts else None
    if row is None:
        return None, None
    return _tries(row[0]), row[1]


def _tries(counted: int | None) -> int | None:
    return None if counted is None else min(max(counted, 0), _MOST_TRIES)


# ------------------------------------------------------------------ claims


def open_claims(ctx: MailContext) -> list[Claim]:
    """List the mail that the container has in hand."""
    folder = ctx.folder
    with folder.inbound.read(folder.beside_inbound, owner_runs=ctx.running) as tx:
        counts = "tk_claim" in tables_beside(ctx, tx)
        sql = folder.outbound.queries["claims"]
        rows = tx.all(Sql(sql), {"limit": _MOST_CLAIMS})
        return [Claim(id_, at, _word(ctx, tx, id_, counts=counts)[0]) for id_, at in rows]


def claims_are_ours(ctx: MailContext) -> bool:
    """Tell whether a container of ours made all the claims there are, and there are any.

    It counts each claim as it makes it; another one that claims the same mail does not.
    """
    folder = ctx.folder
    with folder.inbound.read(folder.beside_inbound, owner_runs=ctx.running) as tx:
        if "tk_claim" not in tables_beside(ctx, tx):
            return False
        made, counted = tx.one("claims_by_us") or (0, 0)
    return bool(made == counted > 0)


def reset_claims(ctx: MailContext) -> ResetReport:
    """Let go of all claims, once no container runs: each spent a try, and waits its turn again.

    Mail that was claimed as often as allowed is given up. Doing this twice after a crash between
    the two files counts no claim twice, if the container counts its claims.
    """
    _need_no_agent(ctx)
    left = open_claims(ctx)
    if not left:
        return ResetReport()
    _need_no_agent(ctx)  # one that began meanwhile may own what was just read
    counted = _count(ctx, left)
    with ctx.folder.outbound.write() as tx:
        gone = [_release(tx, claim) for claim in left]
    return msgspec.structs.replace(counted, released=sum(gone))


def _need_no_agent(ctx: MailContext) -> None:
    if is_held(ctx.folder.agent_lock_path):
        msg = f"an agent is running in {ctx.folder.path}, and its claims belong to it"
        raise Conflict(msg, hint="stop it first; then its claims can be released")


def _release(tx: Tx, claim: Claim) -> int:
    """Take a claim away, unless an agent that began just now has claimed the mail again.

    The time of a claim is in whole seconds and may be the same; the count of claims is not.
    """
    if (
        claim.tries is not None
        and _tries(tx.value("claim_of", {"id": claim.message_id})) != claim.tries
    ):
        return 0
    return tx.count("release_claim", {"id": claim.message_id, "claimed_at": claim.claimed_at})


def _uncounted(ctx: MailContext, tx: Tx, left: Sequence[Claim]) -> list[tuple[Claim, Mail]]:
    """Return the claims that have yet to be counted, with their mail."""
    now = ctx.clock()
    found = [(claim, inbound.find(tx, claim.message_id)) for claim in left]
    return [
        (claim, mail)
        for claim, mail in found
        if mail is not None and mail.status == "pending" and not is_counted(claim, mail, now)
    ]


def is_counted(claim: Claim, mail: Mail, now: int) -> bool:
    """Tell whether an earlier reset has counted a claim: then its message waits already.

    A claim is made when a message is due, and a reset sets it to a later time. So a claim from
    before that time was counted, unless the container has counted on since.
    """
    due = read_moment(mail.process_after)
    if due is None:
        return False
    if due > now:
        return True
    claimed = read_moment(claim.claimed_at)
    told = claim.tries is not None and claim.tries <= mail.tries
    return told and claimed is not None and claimed // 1000 < due // 1000


def _count(ctx: MailContext, left: Sequence[Claim]) -> ResetReport:
    with ctx.folder.inbound.read() as tx:
        if not _uncounted(ctx, tx, left):
            return ResetReport()
    with ctx.folder.inbound.write() as tx:
        tried = [
            (mail, _try_later(ctx, tx, mail, claim)) for claim, mail in _uncounted(ctx, tx, left)
        ]
        failures = [(mail, reason) for mail, reason in tried if reason is not None]
        tell_failed(ctx, tx, failures)
        return ResetReport(
            retried=tuple(mail.id for mail, reason in tried if reason is None),
            failed=tuple(mail.id for mail, _ in failures),
            rearmed=_rearm(ctx, tx, [mail for mail, _ in failures]),
        )


def _try_later(ctx: MailContext, tx: Tx, mail: Mail, claim: Claim) -> str | None:
    """Set unfinished mail to a later time; give the reason if that was its last try."""
    tries = max(mail.tries + 1, claim.tries or 0)
    pause = backoff_seconds(ctx.policy, tries)
    if pause is None:
        reason = TOO_OFTEN.format(tries=tries)
        inbound.bury(tx, mail, reason, tries, ctx.now_sql())
        return reason
    due = whole_iso(ctx.clock() + pause * 1000)
    tx.run("retry_later", {"id": mail.id, "tries": tries, "due": due})
    return None


# ------------------------------------------------------------------------------
# The host's regular look at a session: take over answers, end what is stuck, wake who has mail.

log = logging.getLogger(__name__)
_LONGEST_TOOL_MS: Final = 24 * 60 * 60_000  # nobody can be asked, and no word holds forever


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
    """Bring the session up to date: answers, stuck containers, claims, series, and waking.

    Without a runner nothing is started or ended.

    A container that this sweep starts is not judged by it: it had no time yet to show life.
    """
    settled = sync(ctx)
    running = is_running(ctx, runner)
    stuck = _stuck(ctx) if running else None
    if stuck is not None and runner is not None:
        runner.stop(stuck)
        running = is_running(ctx, runner)
        settled = _both(settled, sync(ctx))  # what it said last, before it ended
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
    nothing about a container of another kind. If nobody can tell of that one, a recent heartbeat
    counts, and a tool that may still take its time; but not if one of ours died here, and all mail
    that is in anybody's hands was in its.
    """
    if is_held(ctx.folder.agent_lock_path):
        return True
    if runner is not None:
        return runner.is_running()
    if ctx.running is not None:
        return ctx.running()
    if was_left(ctx.folder.agent_lock_path) and claims_are_ours(ctx):
        return False
    return _beat_lately(ctx) or _has_tool_in_hand(ctx)


def _reset(ctx: MailContext) -> ResetReport | None:
    """Let go of claims; None if a container has begun since we looked, which owns them now."""
    try:
        return reset_claims(ctx)
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
    """Tell whether a tool runs that was announced to take this long; it shows no heartbeat."""
    tool = tool_state(ctx)
    started, declared = read_moment(tool.started_at if tool else None), declared_ms(tool)
    if started is None or declared <= 0:
        return False
    patience = int(min(declared, _LONGEST_TOOL_MS))
    return not is_due(started + patience, ctx.clock(), patience)


def tool_state(ctx: MailContext) -> ToolState | None:
    """Return the tool that the container says it runs, None if it says nothing."""
    with ctx.folder.outbound.read(owner_runs=ctx.running) as tx:
        there = tx.one(Sql("SELECT 1 FROM sqlite_master WHERE name = 'container_state'"))
        row = None if there is None else tx.one("tool_state")
    return None if row is None else ToolState(*row)


def _stuck(ctx: MailContext) -> str | None:
    claims = open_claims(ctx)
    return stuck_reason(ctx.clock(), _heartbeat(ctx), tool_state(ctx), claims, ctx.policy)


def _heartbeat(ctx: MailContext) -> int | None:
    """Return the last heartbeat; one from the future counts from now on, or it would for days."""
    heartbeat, now = ctx.folder.heartbeat_ms(), ctx.clock()
    if heartbeat is not None and heartbeat > now + ctx.policy.ceiling_ms:
        ctx.folder.beat(now)
        return now
    return heartbeat


def _due(ctx: MailContext) -> int:
    with ctx.folder.inbound.read() as tx:
        return int(tx.value("count_due", {"now": ctx.now_sql()}))


def _start(ctx: MailContext, runner: SessionRunner) -> bool:
    """Start a container; the old heartbeat goes first, or it would count as a new one."""
    ctx.folder.forget_heartbeat()
    return runner.start()


def _both(first: SettleReport, second: SettleReport) -> SettleReport:
    return SettleReport(
        first.completed + second.completed,
        first.failed + second.failed,
        first.rearmed + second.rearmed,
    )


# ------------------------------------------------------------------------------
# Old mail of the agent, removed from outbound.db: only what no host and no container needs.
#
# A row goes when its delivery is over for good and nothing refers to it; the newest one stays, for
# numbering continues from it. So every version may work in the folder before and after. The host's
# word that a message was delivered stays in inbound.db: should an old copy of outbound.db come
# back, nothing is sent twice.

_BATCH: Final = 500  # rows in one commit, so that whoever else writes gets a turn
_HIGHEST: Final = 2**63 - 1


class PrunedMail(msgspec.Struct, frozen=True):
    """How many rows were removed, or would be: messages, and answers for inbound mail."""

    messages: int
    answers: int


class _Old(NamedTuple):
    messages: list[str]
    answers: list[str]
    highest: int


def prune_as_host(
    ctx: MailContext,
    *,
    older_than_ms: int | None = None,
    keep: int | None = None,
    dry_run: bool = False,
) -> PrunedMail:
    """Remove old mail of the agent that is delivered, while no container works in the folder.

    By age, by how many of the newest stay, or by both; what is still needed is kept. The file is
    the container's to write, so it is refused while one works.
    """
    if not dry_run and is_running(ctx):
        msg = f"an agent is running in {ctx.folder.path}, and only it writes outbound.db"
        raise Conflict(msg, hint="stop it first, or let it prune the file itself")
    return prune(ctx, older_than_ms=older_than_ms, keep=keep, dry_run=dry_run)


def prune(
    ctx: MailContext,
    *,
    older_than_ms: int | None = None,
    keep: int | None = None,
    dry_run: bool = False,
) -> PrunedMail:
    """Remove old mail of ours that is delivered: by age, by how many stay, or by both.

    What waits for its delivery, failed and may be tried again, or answers mail that is not settled
    yet is kept, however old it is.
    """
    old = _old(ctx, older_than_ms, keep)
    if not dry_run:
        for ids in _batches(old.messages):
            _remove(ctx, ids, ("delete_out", "delete_out_hash"), old.highest)
        for ids in _batches(old.answers):
            _remove(ctx, ids, ("delete_ack", "delete_claim"))
    return PrunedMail(len(old.messages), len(old.answers))


def _batches(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for begin in range(0, len(ids), _BATCH):
        yield ids[begin : begin + _BATCH]


def _old(ctx: MailContext, older_than_ms: int | None, keep: int | None) -> _Old:
    if older_than_ms is None and keep is None:
        hint = "say from which age on, or how many of the newest stay"
        raise Invalid("pruning needs a limit", hint=hint)
    age = need_whole(older_than_ms or 0, "age", at_least=0)
    newest = need_whole(keep or 0, "number to keep", at_least=0)
    folder = ctx.folder
    with folder.inbound.read(folder.beside_inbound, owner_runs=ctx.running) as tx:
        before = None if older_than_ms is None else sqlite_form(ctx.clock() - age)
        below_out = tx.value("nth_newest_out", {"keep": newest}) if newest else _HIGHEST
        below_in = tx.value("nth_newest_in", {"keep": newest}) if newest else _HIGHEST
        rows = tx.all("prunable_out", {"before": before, "below": below_out})
        open_ = _unfinished(tx)
        messages = [(row_id, seq) for row_id, seq in rows if row_id not in open_]
        acks = tx.all("prunable_acks", {"before": before, "below": below_in})
    highest = max((seq for _, seq in messages), default=0)
    return _Old([row_id for row_id, _ in messages], [row_id for (row_id,) in acks], highest)


def _unfinished(tx: Tx) -> set[str]:
    """Return what a host of ours has yet to deliver, or would try again if asked to."""
    there = "SELECT 1 FROM main.sqlite_master WHERE name = 'tk_delivery'"
    if tx.one(Sql(there)) is None:
        return set()
    return {row_id for (row_id,) in tx.all("unfinished_deliveries")}


def _remove(
    ctx: MailContext, ids: Sequence[str], queries: tuple[str, ...], highest: int | None = None
) -> None:
    with ctx.folder.outbound.write() as tx:
        tables = {name for (name,) in tx.all(Sql("SELECT name FROM sqlite_master"))}
        for row_id in ids:
            tx.run(queries[0], {"id": row_id})
            if {"tk_claim", "tk_row_hash"} <= tables:  # a container of ours was here
                tx.run(queries[1], {"id": row_id})
        if highest is not None:
            # So that `verify` knows why messages that were delivered are not there.
            tx.run(Sql("CREATE TABLE IF NOT EXISTS tk_pruned (seq INTEGER NOT NULL)"))
            tx.run(Sql("INSERT INTO tk_pruned (seq) VALUES (?)"), (highest,))
            tx.run(Sql("DELETE FROM tk_pruned WHERE seq < (SELECT max(seq) FROM tk_pruned)"))
