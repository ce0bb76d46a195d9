"""The queues of enrichment: each waiting row has a ticket that one worker at a time has in hand.

A ticket is `pending`, `processing` while a worker has it, then `done`, `skipped` or `failed`. A
lock is lost when the process of its worker has ended, which the worker's name tells, or when it is
too old: `reap` gives the ticket back and counts a try. A worker that reaps before it takes tickets
never tries one for ever.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from threadkeep.base.json import decode, encode
from threadkeep.base.processes import has_ended, my_place
from threadkeep.base.tx import Row, Sql, Tx
from threadkeep.errors import Invalid
from threadkeep.knowledge.kinds import KINDS, Queue, TicketTable

LOCK_TIMEOUT_MS: Final = 600_000
# How long a row must be older than now: a session that still grows is not cut into pieces.
QUIET_MS: Final[Mapping[Queue, int]] = {
    "shell": 120_000,
    "agentic": 0,
    "browser": 60_000,
    "workflow": 0,
    "memory": 0,
}
_OURS: Final = "threadkeep-"  # how the names of our own workers begin
_LATER: Final = 2**62  # after everything
_FRONT: Final = 1000


class Ticket(NamedTuple):
    """One row that waits for enrichment, in the hands of a worker."""

    queue: Queue
    id: int  # of the ticket
    target: int  # the row that it stands for
    priority: int
    retry_count: int
    max_retries: int
    content_hash: str | None = None  # of a segment, as it was when the ticket was taken
    locked_at: int | None = None  # which claim this is; None stands for any


_ALL: Final = tuple(kind.tickets._replace(rows=kind.table) for kind in KINDS if kind.tickets)
QUEUES: Final[Mapping[Queue, TicketTable]] = {one.queue: one for one in _ALL if one.queue}

# What is the same in every queue: {0} is the table, {1} says which of its tickets.
_THIS_CLAIM: Final = "{0.id} = :id AND (:locked_at IS NULL OR locked_at = :locked_at)"
_THESE: Final = "{0.id} IN (SELECT value FROM json_each(:ids))"
_OF_THESE_ROWS: Final = "{0.target} IN (SELECT value FROM json_each(:ids))"
# A lock from the future is one of a clock that was put back: its time may not come for years.
_TOO_OLD: Final = "(coalesce(locked_at, 0) <= :stale OR locked_at > :ahead)"
_OF_DEAD: Final = "locked_by IN (SELECT value FROM json_each(:dead))"
_RETRY: Final = """
UPDATE {0.name} SET retry_count = retry_count + 1, error_message = :message, updated_at = :now,
  status = CASE WHEN retry_count + 1 >= max_retries THEN 'failed' ELSE 'pending' END,
  locked_at = NULL, locked_by = NULL
WHERE status = 'processing' AND {1} RETURNING {0.target}, status"""
_END: Final = """
UPDATE {0.name} SET status = :status, error_message = :message, updated_at = :now,
  locked_at = NULL, locked_by = NULL
WHERE {1}"""
_MARK: Final = """
UPDATE {0.rows} SET {0.enriched} WHERE id IN (SELECT value FROM json_each(:ids))"""
_RELEASE: Final = """
UPDATE {0.name} SET status = 'pending', updated_at = coalesce(locked_at, updated_at),
  locked_at = NULL, locked_by = NULL
WHERE status = 'processing' AND {1}"""
_AGAIN: Final = """
UPDATE {0.name} SET status = 'pending', retry_count = 0, error_message = NULL
WHERE {1} AND status != 'processing'"""
_REQUEUE: Final = """
INSERT INTO {0.name} ({0.target}, status, priority, max_retries, {0.since}, updated_at)
SELECT id, 'pending', 5, 5, :now, :now FROM {0.rows}
WHERE id IN (SELECT value FROM json_each(:ids)) AND {1}
ON CONFLICT ({0.target}) DO UPDATE SET status = 'pending', retry_count = 0, error_message = NULL,
  locked_at = NULL, locked_by = NULL, updated_at = excluded.updated_at
WHERE status != 'processing'"""
_DROP_LOST: Final = """
DELETE FROM {0.name}
WHERE (status IN ('pending', 'processing') OR locked_by = 'threadkeep') AND NOT EXISTS (
  SELECT 1 FROM {0.rows} WHERE {0.rows}.id = {0.name}.{0.target} AND {1})"""
_HOLDERS: Final = "SELECT DISTINCT locked_by FROM {0.name} WHERE status = 'processing'"
_LOCKS: Final = """
SELECT count(*), coalesce(sum({1}), 0) FROM {0.name} WHERE status = 'processing'"""
_HELD: Final = "SELECT 1 FROM {0.name} WHERE status = 'processing' AND {1}"
_PRESENT: Final = """
SELECT id FROM {0.rows}
WHERE id IN (SELECT value FROM json_each(:ids)) AND {0.is_real} ORDER BY id"""
# What is skipped for Hippo's brain alone waits for us.
_DEPTHS: Final = """
SELECT iif(status = 'skipped' AND locked_by = 'threadkeep', 'pending', status) AS told, count(*)
FROM {0.name} GROUP BY told ORDER BY told"""


# ---------------------------------------------------------------------- taking and giving back


def claim(
    tx: Tx,
    queue: Queue,
    *,
    worker: str,
    now: int,
    limit: int = 10,
    lock_timeout_ms: int = LOCK_TIMEOUT_MS,
    at_once: bool = False,
) -> list[Ticket]:
    """Take tickets in hand, in the order of their queue; `at_once` waits for no session to end.

    Segments in which nothing is new are done without being given out. Of a long queue only the
    front is put in order; all of it only if the front has nothing for now.
    """
    values = {
        "now": now,
        "worker": worker,
        "stale": now - lock_timeout_ms,
        "limit": max(limit, 0),
        "quiet_since": _LATER if at_once else now - QUIET_MS[queue],
        "front": _FRONT,
    }
    short = queue in {"workflow", "memory"}
    looks = (f"claim_{queue}",) if short else (f"claim_{queue}_front", f"claim_{queue}")
    for look in looks:
        while taken := tx.all(look, values):
            tickets = _in_order(tx, queue, taken, now)
            if tickets:
                return tickets
    _drop_lost(tx, queue)
    return []


def _in_order(tx: Tx, queue: Queue, taken: Sequence[Row], now: int) -> list[Ticket]:
    """Make tickets of what was taken; those without news are done."""
    rows = {row[0]: row for row in taken}
    hashes: dict[int, str | None] = {}
    if queue == "agentic":
        targets = [row[1] for row in taken]
        hashes = _hashes(tx, targets)
        known = [n for (n,) in tx.all("segments_without_news", {"ids": encode(targets)})]
        finish_targets(tx, queue, known, now)
        rows = {number: row for number, row in rows.items() if row[1] not in known}
    order = tx.all(f"claimed_{queue}", {"ids": encode(list(rows))})
    return [
        Ticket._make((queue, *rows[number], hashes.get(rows[number][1]), now))
        for (number,) in order
    ]


def held(tx: Tx, tickets: Iterable[Ticket]) -> list[Ticket]:
    """Give those tickets that are still in the hands of the worker that took them.

    Asked in the transaction that writes what came of them, it keeps two workers from writing twice.
    """
    return [ticket for ticket in tickets if _is_held(tx, ticket)]


def _is_held(tx: Tx, ticket: Ticket) -> bool:
    sql = _HELD.format(QUEUES[ticket.queue], _on(ticket.queue, _THIS_CLAIM))
    values = {"id": ticket.id, "locked_at": ticket.locked_at}
    return tx.one(Sql(sql), values) is not None


def finish(tx: Tx, queue: Queue, ids: Iterable[int], now: int) -> None:
    """Mark tickets as done, by their own numbers."""
    _end(tx, queue, _THESE, ids, now)


def finish_targets(tx: Tx, queue: Queue, targets: Sequence[int], now: int) -> None:
    """Mark rows as enriched and their tickets as done, by the numbers of the rows."""
    tx.run(Sql(_MARK.format(QUEUES[queue])), {"ids": encode(list(targets)), "now": now})
    _end(tx, queue, _OF_THESE_ROWS, targets, now)


def give_back(tx: Tx, ticket: Ticket, message: str, now: int) -> None:
    """Count a try that went wrong: the ticket waits again, or is failed after the last one."""
    values = {"id": ticket.id, "locked_at": ticket.locked_at, "message": message, "now": now}
    sql = _RETRY.format(QUEUES[ticket.queue], _on(ticket.queue, _THIS_CLAIM))
    for target, status in tx.all(Sql(sql), values):
        if ticket.queue == "agentic" and status == "failed":
            tx.run("note_learned", {"id": target, "hash": ticket.content_hash})
        elif ticket.queue == "memory":
            tx.run("memory_has_failed", {"revision": target, "message": message, "now": now})


def skip(tx: Tx, ticket: Ticket, reason: str, now: int) -> None:
    """Pass over a row that tells nothing; a segment that grew meanwhile is looked at again."""
    table = QUEUES[ticket.queue]
    grew = ticket.queue == "agentic" and not _is_unchanged(tx, ticket)
    values = {
        "id": ticket.id,
        "locked_at": ticket.locked_at,
        "status": "pending" if grew else "skipped",
        "message": None if grew else reason,
        "now": now,
    }
    sql = _END.format(table, "status = 'processing' AND " + _on(ticket.queue, _THIS_CLAIM))
    if not tx.count(Sql(sql), values) or grew:
        return
    tx.run(Sql(_MARK.format(table)), {"ids": encode([ticket.target]), "now": now})
    if ticket.queue == "agentic":
        tx.run("note_learned", {"id": ticket.target, "hash": ticket.content_hash})


def put_back(tx: Tx, tickets: Iterable[Ticket]) -> None:
    """Let tickets wait again that were taken and not looked at; it counts as no try."""
    for ticket in tickets:
        sql = _RELEASE.format(QUEUES[ticket.queue], _on(ticket.queue, _THIS_CLAIM))
        tx.run(Sql(sql), {"id": ticket.id, "locked_at": ticket.locked_at})


def worker_name(uuid: str) -> str:
    """Name a worker of this process, so that anybody can tell whether it still runs."""
    return f"{_OURS}{my_place()}/{uuid}"


def release(tx: Tx, worker: str) -> int:
    """Give back all that a worker has in hand, at its end; it counts as no try."""
    return _release(tx, "locked_by = :worker", {"worker": worker})


def release_own(tx: Tx) -> int:
    """Give back all that workers of this process have in hand, at its end; it counts as no try."""
    return sum(release(tx, one) for one in holders(tx) if _place_of(one) == my_place())


def take_back(tx: Tx) -> int:
    """Take every ticket from whoever has it: what was read for it may be forgotten by now.

    It counts as no try. The worker finds that it holds nothing any more, and writes nothing.
    """
    return _release(tx, "true", {})


def _release(tx: Tx, which: str, values: Mapping[str, str]) -> int:
    return sum(tx.count(Sql(_RELEASE.format(table, which)), values) for _, table in _present(tx))


# ---------------------------------------------------------------------- looking after the queues


class Locks(NamedTuple):
    """The tickets of a queue that somebody has in hand, and those of them whose lock is lost."""

    held: int
    lost: int


def locks(tx: Tx, now: int, timeout_ms: int = LOCK_TIMEOUT_MS) -> dict[str, Locks]:
    """Count the locks of each queue, as `reap` would judge them."""
    lost, values = f"({_OF_DEAD} OR {_TOO_OLD})", _lost(tx, now, timeout_ms)
    return {
        queue: Locks(*(tx.one(Sql(_LOCKS.format(table, lost)), values) or ()))
        for queue, table in _present(tx)
    }


def holders(tx: Tx) -> list[str]:
    """Name the workers that have a ticket in hand, whoever's they are."""
    found = {row[0] for _, table in _present(tx) for row in tx.all(Sql(_HOLDERS.format(table)))}
    return sorted(one for one in found if isinstance(one, str))


def reap(tx: Tx, now: int, timeout_ms: int = LOCK_TIMEOUT_MS) -> int:
    """Take tickets back from workers that died or never came back; give how many.

    A segment whose last try ended so counts as learned from, unless it grew meanwhile: it must not
    come back for ever.
    """
    values = _lost(tx, now, timeout_ms) | {"now": now}
    reaped, given_up = 0, tx.all("segments_given_up", values)
    for which, message in (
        (_OF_DEAD, "the process that had it ended"),
        (_TOO_OLD, f"stale lock reaped (>={timeout_ms // 1000}s)"),
    ):
        told = values | {"message": message}
        for _, table in _present(tx):
            reaped += len(tx.all(Sql(_RETRY.format(table, which)), told))
    for target, hashed in given_up:
        tx.run("note_learned", {"id": target, "hash": hashed})
    for each in queues_of(tx):
        _drop_lost(tx, each)
    return reaped


def requeue(tx: Tx, queue: Queue, targets: Iterable[int], now: int) -> int:
    """Let rows be enriched anew, all tries before them; give how many tickets wait now."""
    ids = encode(list(targets))
    if queue == "agentic":
        tx.run("unlearn_segments", {"ids": ids})
    sql = _REQUEUE.format(QUEUES[queue], QUEUES[queue].is_real)
    return tx.count(Sql(sql), {"ids": ids, "now": now})


def retry_lost(tx: Tx, now: int) -> int:
    """Let every ticket that failed, or whose worker is gone, be tried again; give how many."""
    count = reap(tx, now)
    for queue in queues_of(tx):
        table = QUEUES[queue]
        failed = f"SELECT {table.target} FROM {table.name} WHERE status = 'failed'"  # noqa: S608  (names of our own)
        targets = {int(row[0]) for row in tx.all(Sql(failed))}
        count += requeue(tx, queue, targets, now) if targets else 0
    return count


def tickets_wait(tx: Tx) -> bool:
    """Tell whether anything waits to be made a node of."""
    return bool(tx.value("tickets_wait"))


def learn_again(tx: Tx, queue: Queue, targets: Iterable[int]) -> None:
    """Let rows that have a ticket wait again, since the node that told of them is gone."""
    ids = encode(list(targets))
    if queue == "agentic":
        tx.run("unlearn_segments", {"ids": ids})
    tx.run(Sql(_AGAIN.format(QUEUES[queue], _on(queue, _OF_THESE_ROWS))), {"ids": ids})


def depths(tx: Tx) -> dict[str, dict[str, int]]:
    """Count the tickets of each queue by their state; the frozen queue is there as `claude`."""
    return {queue: dict(tx.all(Sql(_DEPTHS.format(table)))) for queue, table in _present(tx)}


def queues_of(tx: Tx) -> list[Queue]:
    """Name the queues that the file has and that tickets are taken from."""
    there = tx.tables()
    return [queue for queue, table in QUEUES.items() if table.name in there]


def present(tx: Tx, queue: Queue, targets: Iterable[int]) -> list[int]:
    """Give those of a queue's rows that are there, probes aside."""
    rows = tx.all(Sql(_PRESENT.format(QUEUES[queue])), {"ids": encode(list(targets))})
    return [row[0] for row in rows]


def _drop_lost(tx: Tx, queue: Queue) -> None:
    """Drop tickets that nobody can ever use: the row is gone, or only a probe."""
    tx.run(Sql(_DROP_LOST.format(QUEUES[queue], QUEUES[queue].is_real)))


def _end(tx: Tx, queue: Queue, which: str, ids: Iterable[int], now: int) -> None:
    values = {"ids": encode(list(ids)), "status": "done", "message": None, "now": now}
    tx.run(Sql(_END.format(QUEUES[queue], _on(queue, which))), values)


def _present(tx: Tx) -> list[tuple[str, TicketTable]]:
    """Give the queues that the file has; `claude` is only freed of its locks."""
    there = tx.tables()
    return [(table.queue or "claude", table) for table in _ALL if table.name in there]


def _place_of(worker: str) -> str:
    """Give the place of the process that a worker is of; empty if its name does not tell."""
    return worker.removeprefix(_OURS).rpartition("/")[0] if worker.startswith(_OURS) else ""


def _lost(tx: Tx, now: int, timeout_ms: int) -> dict[str, str | int]:
    """Give what tells lost locks from others."""
    dead = encode([one for one in holders(tx) if has_ended(_place_of(one))])
    return {"stale": now - timeout_ms, "ahead": now + timeout_ms, "dead": dead}


def _on(queue: Queue, condition: str) -> str:
    return condition.format(QUEUES[queue])


def _hashes(tx: Tx, segments: Sequence[int]) -> dict[int, str | None]:
    return dict(tx.all("hashes_of_segments", {"ids": encode(list(segments))})) if segments else {}


def _is_unchanged(tx: Tx, ticket: Ticket) -> bool:
    return _hashes(tx, [ticket.target]).get(ticket.target) == ticket.content_hash


# ------------------------------------------------------------------------------
# Why a row tells nothing and is passed over: a trivial command, a short session, a glance.

_TRIVIAL: Final = re.compile(r"clear|exit|true|:|exec\s+[\w/.-]+|")
_TRIVIAL_MS: Final = 100
_FEW_MESSAGES: Final = 3
_GLANCE_MS: Final = 1000
_SCROLLED: Final = 0.15
_READING_MS: Final = 120_000


def why_skip_shell(
    *, command: str, stdout: str | None, stderr: str | None, duration_ms: int
) -> str | None:
    """Say why a command tells nothing, None if it may."""
    if stdout or stderr or duration_ms >= _TRIVIAL_MS or not _TRIVIAL.fullmatch(command.strip()):
        return None
    return f"{command.strip()!r} without output, over after {duration_ms} ms"


def why_skip_agentic(
    *,
    harness: str,
    message_count: int,
    tool_calls_json: str | None,
    snapshot_diffs_json: str | None = None,
    commit_messages_json: str | None = None,
) -> str | None:
    """Say why a segment tells nothing, None if it may; opencode keeps its work elsewhere."""
    if message_count >= _FEW_MESSAGES:
        return None
    if harness == "opencode":
        idle = not (_says_something(snapshot_diffs_json) or _says_something(commit_messages_json))
        without = "diffs and commits"
    else:
        idle, without = not _says_something(tool_calls_json), "tool calls"
    return f"{message_count} messages are under 3, and no {without}" if idle else None


def why_skip_browser(
    *, dwell_ms: int, scroll_depth: float | None, search_query: str | None
) -> str | None:
    """Say why a visit tells nothing, None if it may."""
    if dwell_ms < _GLANCE_MS:
        return f"looked at for {dwell_ms} ms only"
    if search_query or dwell_ms >= _READING_MS or (scroll_depth or 0) >= _SCROLLED:
        return None
    return f"hardly scrolled ({scroll_depth or 0:.2f}) within {dwell_ms} ms, and not searched for"


def _says_something(text: str | None) -> bool:
    """Tell whether JSON holds anything; what is no JSON holds nothing."""
    try:
        return bool(text and decode(text))
    except Invalid:
        return False
