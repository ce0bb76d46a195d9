"""The queues of enrichment: each waiting row has a ticket that one worker at a time has in hand.

A ticket is `pending`, `processing` while a worker has it, then `done`, `skipped` or `failed`. A
lock is lost when the process of its worker has ended, which the worker's name tells, or when it is
too old: `reap` gives the ticket back and counts a try. A worker that reaps before it takes tickets
never tries one forever.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from threadkeep.base.json import decode, encode
from threadkeep.base.processes import has_ended, my_place
from threadkeep.base.text import pattern
from threadkeep.base.tx import Row, Tx
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
QUEUES: Final[Mapping[Queue, TicketTable]] = {
    one.queue: one for one in _ALL if one.queue != "claude"
}


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
    """Return those tickets that are still in the hands of the worker that took them.

    Asked in the transaction that writes what came of them, it keeps two workers from writing twice.
    """
    return [one for one in tickets if tx.one(f"is_held_{one.queue}", _this(one)) is not None]


def _this(ticket: Ticket) -> dict[str, Any]:
    return {"id": ticket.id, "locked_at": ticket.locked_at}


def finish(tx: Tx, queue: Queue, ids: Iterable[int], now: int) -> None:
    """Mark tickets as done, by their own numbers."""
    tx.run(f"end_tickets_{queue}", _done(ids, now))


def finish_targets(tx: Tx, queue: Queue, targets: Sequence[int], now: int) -> None:
    """Mark rows as enriched and their tickets as done, by the numbers of the rows."""
    tx.run(f"mark_{queue}", {"ids": encode(list(targets)), "now": now})
    tx.run(f"end_rows_{queue}", _done(targets, now))


def _done(ids: Iterable[int], now: int) -> dict[str, Any]:
    return {"ids": encode(list(ids)), "status": "done", "message": None, "now": now}


def give_back(tx: Tx, ticket: Ticket, message: str, now: int) -> None:
    """Count a try that went wrong: the ticket waits again, or is failed after the last one."""
    values = {**_this(ticket), "message": message, "now": now}
    for target, status in tx.all(f"retry_{ticket.queue}", values):
        if ticket.queue == "agentic" and status == "failed":
            tx.run("note_learned", {"id": target, "hash": ticket.content_hash})
        elif ticket.queue == "memory":
            tx.run("memory_has_failed", {"revision": target, "message": message, "now": now})


def skip(tx: Tx, ticket: Ticket, reason: str, now: int) -> None:
    """Pass over a row that tells nothing; a segment that grew meanwhile is looked at again."""
    grew = ticket.queue == "agentic" and not _is_unchanged(tx, ticket)
    values = {
        **_this(ticket),
        "status": "pending" if grew else "skipped",
        "message": None if grew else reason,
        "now": now,
    }
    if not tx.count(f"end_{ticket.queue}", values) or grew:
        return
    tx.run(f"mark_{ticket.queue}", {"ids": encode([ticket.target]), "now": now})
    if ticket.queue == "agentic":
        tx.run("note_learned", {"id": ticket.target, "hash": ticket.content_hash})


def skip_told(tx: Tx, reason: str, now: int) -> int:
    """Pass over all commands that the node of an agent's session tells of; give how many."""
    told = [row[0] for row in tx.all("skip_told", {"message": reason, "now": now})]
    if told:
        tx.run("mark_shell", {"ids": encode(told)})
    return len(told)


def put_back(tx: Tx, tickets: Iterable[Ticket]) -> None:
    """Let tickets wait again that were taken and not looked at; it counts as no try."""
    for ticket in tickets:
        tx.run(f"release_{ticket.queue}", _this(ticket))


def worker_name(uuid: str) -> str:
    """Name a worker of this process, so that anybody can tell whether it still runs."""
    return f"{_OURS}{my_place()}/{uuid}"


def release(tx: Tx, worker: str) -> int:
    """Give back all that a worker has in hand, at its end; it counts as no try."""
    return _release(tx, worker)


def release_own(tx: Tx) -> int:
    """Give back all that workers of this process have in hand, at its end; it counts as no try."""
    return sum(release(tx, one) for one in holders(tx) if _place_of(one) == my_place())


def take_back(tx: Tx) -> int:
    """Take every ticket from whoever has it: what was read for it may be forgotten by now.

    It counts as no try. The worker finds that it holds nothing any more, and writes nothing.
    """
    return _release(tx, None)


def _release(tx: Tx, worker: str | None) -> int:
    return sum(tx.count(f"release_all_{queue}", {"worker": worker}) for queue in _present(tx))


# ---------------------------------------------------------------------- looking after the queues


class Locks(NamedTuple):
    """The tickets of a queue that somebody has in hand, and those of them whose lock is lost."""

    held: int
    lost: int


def locks(tx: Tx, now: int, timeout_ms: int = LOCK_TIMEOUT_MS) -> dict[str, Locks]:
    """Count the locks of each queue, as `reap` would judge them."""
    values = _lost(tx, now, timeout_ms)
    return {queue: Locks(*(tx.one(f"locks_{queue}", values) or ())) for queue in _present(tx)}


def holders(tx: Tx) -> list[str]:
    """Name the workers that have a ticket in hand, whoever's they are."""
    found = {row[0] for queue in _present(tx) for row in tx.all(f"holders_{queue}")}
    return sorted(one for one in found if isinstance(one, str))


def reap(tx: Tx, now: int, timeout_ms: int = LOCK_TIMEOUT_MS) -> int:
    """Take tickets back from workers that died or never came back; give how many.

    A segment whose last try ended so counts as learned from, unless it grew meanwhile: it must not
    come back forever.
    """
    values = _lost(tx, now, timeout_ms) | {"now": now}
    reaped, given_up = 0, tx.all("segments_given_up", values)
    for which, message in (
        ("dead", "the process that had it ended"),
        ("stale", f"stale lock reaped (>={timeout_ms // 1000}s)"),
    ):
        told = values | {"message": message}
        reaped += sum(len(tx.all(f"retry_{which}_{queue}", told)) for queue in _present(tx))
    for target, hashed in given_up:
        tx.run("note_learned", {"id": target, "hash": hashed})
    for queue in queues_of(tx):
        _drop_lost(tx, queue)
    return reaped


def requeue(tx: Tx, queue: Queue, targets: Iterable[int], now: int) -> int:
    """Let rows be enriched again, all tries before them; give how many tickets wait now."""
    ids = encode(list(targets))
    if queue == "agentic":
        tx.run("unlearn_segments", {"ids": ids})
    return tx.count(f"requeue_{queue}", {"ids": ids, "now": now})


def retry_lost(tx: Tx, now: int) -> int:
    """Let every ticket that failed, or whose worker is gone, be tried again; give how many."""
    count = reap(tx, now)
    for queue in queues_of(tx):
        targets = {int(row[0]) for row in tx.all(f"failed_{queue}")}
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
    tx.run(f"wait_again_{queue}", {"ids": ids})


def depths(tx: Tx) -> dict[str, dict[str, int]]:
    """Count the tickets of each queue by their state; the frozen queue is there as `claude`."""
    return {queue: dict(tx.all(f"depths_{queue}")) for queue in _present(tx)}


def queues_of(tx: Tx) -> list[Queue]:
    """Name the queues that the file has and that tickets are taken from."""
    there = tx.tables()
    return [queue for queue, table in QUEUES.items() if table.name in there]


def present(tx: Tx, queue: Queue, targets: Iterable[int]) -> list[int]:
    """Return those of a queue's rows that are there, probes aside."""
    return [row[0] for row in tx.all(f"present_{queue}", {"ids": encode(list(targets))})]


def _drop_lost(tx: Tx, queue: Queue) -> None:
    """Drop tickets that nobody can ever use: the row is gone, or only a probe."""
    tx.run(f"drop_lost_{queue}")


def _present(tx: Tx) -> list[str]:
    """Name the queues that the file has; `claude` is only freed of its locks."""
    there = tx.tables()
    return [table.queue for table in _ALL if table.name in there]


def _place_of(worker: str) -> str:
    """Return the place of the process that a worker is of; empty if its name does not tell."""
    return worker.removeprefix(_OURS).rpartition("/")[0] if worker.startswith(_OURS) else ""


def _lost(tx: Tx, now: int, timeout_ms: int) -> dict[str, str | int]:
    """Return what tells lost locks from others."""
    dead = encode([one for one in holders(tx) if has_ended(_place_of(one))])
    return {"stale": now - timeout_ms, "ahead": now + timeout_ms, "dead": dead}


def _hashes(tx: Tx, segments: Sequence[int]) -> dict[int, str | None]:
    return dict(tx.all("hashes_of_segments", {"ids": encode(list(segments))})) if segments else {}


def _is_unchanged(tx: Tx, ticket: Ticket) -> bool:
    return _hashes(tx, [ticket.target]).get(ticket.target) == ticket.content_hash


# ------------------------------------------------------------------------------
# Why a row tells nothing and is passed over: a trivial command, a short session, a glance.

_TRIVIAL: Final = pattern(r"clear|exit|true|:|exec\s+[\w/.-]+|")
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
