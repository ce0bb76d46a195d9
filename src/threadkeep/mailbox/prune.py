"""Old mail of the agent, removed from outbound.db: only what no host and no container needs.

A row goes when its delivery is over for good and nothing refers to it; the newest one stays, for
numbers go on from it. So every version may work in the folder before and after. The host's word
that a message was delivered stays in inbound.db: should an old copy of outbound.db come back,
nothing is sent twice.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from threadkeep.base.tx import Tx
from threadkeep.errors import Conflict, Invalid
from threadkeep.mailbox.context import MailContext
from threadkeep.mailbox.given import need_whole
from threadkeep.mailbox.sweep import is_running
from threadkeep.mailbox.times import sqlite_form

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
    ctx: MailContext, older_than_ms: int | None, keep: int | None, *, dry_run: bool = False
) -> PrunedMail:
    """Prune while no container works in the folder: the file is the container's to write."""
    if not dry_run and is_running(ctx):
        msg = f"an agent is at work in {ctx.folder.path}: outbound.db is its own"
        raise Conflict(msg, hint="end it first, or let it prune by itself")
    return prune(ctx, older_than_ms, keep, dry_run=dry_run)


def prune(
    ctx: MailContext, older_than_ms: int | None, keep: int | None, *, dry_run: bool = False
) -> PrunedMail:
    """Remove what is older than `older_than_ms`, beyond the newest `keep`, or both if both are set.

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
    """Give what a host of ours has yet to deliver, or would try again if asked to."""
    there = "SELECT 1 FROM main.sqlite_master WHERE name = 'tk_delivery'"
    if tx.execute(there).fetchone() is None:
        return set()
    return {row_id for (row_id,) in tx.all("unfinished_deliveries")}


def _remove(
    ctx: MailContext, ids: Sequence[str], queries: tuple[str, ...], highest: int | None = None
) -> None:
    with ctx.folder.outbound.write() as tx:
        tables = {name for (name,) in tx.execute("SELECT name FROM sqlite_master")}
        for row_id in ids:
            tx.run(queries[0], {"id": row_id})
            if {"tk_claim", "tk_row_hash"} <= tables:  # a container of ours was here
                tx.run(queries[1], {"id": row_id})
        if highest is not None:
            # So that `verify` knows why messages that were delivered are not there.
            tx.execute("CREATE TABLE IF NOT EXISTS tk_pruned (seq INTEGER NOT NULL)")
            tx.execute("INSERT INTO tk_pruned (seq) VALUES (?)", (highest,))
            tx.execute("DELETE FROM tk_pruned WHERE seq < (SELECT max(seq) FROM tk_pruned)")
