"""What the container said of mail, taken over by the host; and claims that it left behind."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from threadkeep.base.presence import is_held
from threadkeep.base.tx import Tx
from threadkeep.errors import Conflict, Damaged
from threadkeep.mailbox import inbound, tasks
from threadkeep.mailbox.acks import TOO_OFTEN
from threadkeep.mailbox.context import MailContext
from threadkeep.mailbox.policy import backoff_seconds
from threadkeep.mailbox.records import Claim, Mail
from threadkeep.mailbox.telling import tell_failed
from threadkeep.mailbox.times import read_moment, whole_iso

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
    """Give why mail failed, None if it did not; a word that is not known here is itself why."""
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
    """Give the tables of the outbound.db read beside; refuse one that lacks what is needed."""
    found = frozenset(name for (name,) in tx.all("tables_beside"))
    if not {"processing_ack", "messages_out"} <= found:
        msg = f"{ctx.folder.outbound_path} lacks one of its tables, and was not read"
        raise Damaged(msg, hint="`threadkeep mail verify` tells more; the agent may have done it")
    return found


def _word(
    ctx: MailContext, tx: Tx, message_id: str, *, counts: bool
) -> tuple[int | None, str | None]:
    """Give how often the container says it claimed a message, and why it gave up."""
    # Only one of the two files has this table, so its name alone will do.
    sql = ctx.folder.outbound.queries["claim_of"]
    row = tx.execute(sql, {"id": message_id}).fetchone() if counts else None
    if row is None:
        return None, None
    return _tries(row[0]), row[1]


def _tries(counted: int | None) -> int | None:
    return None if counted is None else min(max(counted, 0), _MOST_TRIES)


# ------------------------------------------------------------------ claims


def claims(ctx: MailContext) -> list[Claim]:
    """List the mail that the container has in hand."""
    folder = ctx.folder
    with folder.inbound.read(folder.beside_inbound, owner_runs=ctx.running) as tx:
        counts = "tk_claim" in tables_beside(ctx, tx)
        sql = folder.outbound.queries["claims"]
        rows = tx.execute(sql, {"limit": _MOST_CLAIMS}).fetchall()
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
    left = claims(ctx)
    if not left:
        return ResetReport()
    _need_no_agent(ctx)  # one that began meanwhile may own what was just read
    counted = _count(ctx, left)
    with ctx.folder.outbound.write() as tx:
        gone = [_release(tx, claim) for claim in left]
    return msgspec.structs.replace(counted, released=sum(gone))


def _need_no_agent(ctx: MailContext) -> None:
    if is_held(ctx.folder.agent_lock_path):
        msg = f"an agent is at work in {ctx.folder.path}: its claims are its own"
        raise Conflict(msg, hint="end it first; then its claims can be let go")


def _release(tx: Tx, claim: Claim) -> int:
    """Take a claim away, unless an agent that began just now has claimed the mail anew.

    The time of a claim is in whole seconds and may be the same; the count of claims is not.
    """
    if (
        claim.tries is not None
        and _tries(tx.value("claim_of", {"id": claim.message_id})) != claim.tries
    ):
        return 0
    return tx.run("release_claim", {"id": claim.message_id, "claimed_at": claim.claimed_at})


def _uncounted(ctx: MailContext, tx: Tx, left: Sequence[Claim]) -> list[tuple[Claim, Mail]]:
    """Give the claims that have yet to be counted, with their mail."""
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
