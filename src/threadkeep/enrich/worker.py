"""Enrichment at work: takes tickets, writes nodes, gives back what did not work.

Tickets are taken in small batches. A batch is read in one transaction, derived (by an author if
there is one) outside of any, and written in another: nodes, links, entities and tickets together.
Whoever is killed leaves locks that the next worker takes back at once.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from threadkeep.base.trouble import is_of_file
from threadkeep.base.tx import Tx
from threadkeep.capture.transcripts import Sources
from threadkeep.enrich.evidence import MemoryNote, RunDone
from threadkeep.enrich.material import Author, Material
from threadkeep.enrich.rules import (
    NodeSubject,
    SkipReason,
    TicketReview,
    make_material,
    read_pieces,
)
from threadkeep.enrich.spans import Spans
from threadkeep.errors import NotFound
from threadkeep.knowledge.context import KnowledgeContext
from threadkeep.knowledge.drafts import BY_RULES, Evidence, NodeDraft
from threadkeep.knowledge.linking import evidence_of_run
from threadkeep.knowledge.memory_publication import publish_memory
from threadkeep.knowledge.nodes import forget_tries, nodes_by_rules, note_tried, write_node
from threadkeep.knowledge.opening import refuse_write
from threadkeep.knowledge.tickets import (
    Queue,
    Ticket,
    claim,
    depths,
    give_back,
    held,
    put_back,
    queues_of,
    reap,
    release,
    requeue,
    skip,
    worker_name,
)
from threadkeep.knowledge.vectors import unlock

# Commands of one session belong together, so that more of them are taken at once. A model may take
# minutes for each piece, and a lock is good for ten.
BATCH: Final[dict[Queue, int]] = {
    "agentic": 10,
    "shell": 100,
    "workflow": 10,
    "browser": 50,
    "memory": 20,
}
BATCH_OF_AUTHOR: Final[dict[Queue, int]] = {
    "agentic": 2,
    "shell": 25,
    "workflow": 2,
    "browser": 25,
    "memory": 2,
}
_FIELD: Final[dict[Queue, str]] = {  # of evidence
    "agentic": "segments",
    "shell": "events",
    "workflow": "runs",
    "browser": "visits",
}
_MESSAGE_LIMIT: Final = 500
# Tries that went wrong: a ticket that ends each of its workers must not take others along.
_SUSPECT: Final = 2
_TRIED_AGAIN_MS: Final = 86_400_000


class QueueCounts(msgspec.Struct):
    """What became of the tickets of one queue."""

    nodes: int = 0  # written
    done: int = 0  # tickets that these nodes are about
    skipped: int = 0  # they tell nothing
    failed: int = 0  # tried again later, unless it was the last time
    waiting: int = 0  # still in the queue
    held: int = 0  # in the hands of another worker


class EnrichReport(msgspec.Struct):
    """What a run of enrichment did, by queue."""

    queues: dict[Queue, QueueCounts] = {}
    by_author: int = 0  # nodes that a model wrote
    errors: list[str] = []  # the first few, in plain words

    @property
    def nodes(self) -> int:
        """How many nodes were written."""
        return sum(counts.nodes for counts in self.queues.values())

    @property
    def taken(self) -> int:
        """How many tickets were dealt with."""
        return sum(one.done + one.skipped + one.failed for one in self.queues.values())


class _Written(NamedTuple):
    """A piece with the draft that its node will be made from."""

    piece: NodeSubject
    draft: NodeDraft
    model: str


class _Course(NamedTuple):
    """What one run was told, and what it has done so far."""

    limit: int | None
    at_once: bool
    report: EnrichReport
    failed: list[tuple[Ticket, str]]
    seen: set[tuple[Queue, int]]  # no ticket is dealt with twice, even if it waits again
    spans: Spans


Show = Callable[[EnrichReport], None]


def silent(_: EnrichReport) -> None:
    """Show nothing."""


class Enricher:
    """Turns what waits in the queues of one store into nodes."""

    def __init__(
        self,
        context: KnowledgeContext,
        sources: Sources,
        *,
        new_uuid: Callable[[], str],
        roots: Sequence[str] = (),
        author: Author | None = None,
    ) -> None:
        self._context = context
        self._sources = sources
        self._new_uuid = new_uuid
        self._roots = tuple(roots)
        self._author = author
        self._worker = worker_name(new_uuid())

    def run(
        self,
        *,
        limit: int | None = None,
        at_once: bool = False,
        stop: Callable[[], bool] = lambda: False,
        show: Show = silent,
    ) -> EnrichReport:
        """Work through the queues, each ticket once; `limit` is how many tickets are taken at most.

        With `at_once` no session is waited for. What failed is given back at the end, so that it is
        not tried five times within a second.
        """
        refuse_write(self._context.access)
        unlock(self._context.db)  # what a new node replaces takes its vector along
        with self._context.db.read() as tx:
            there = queues_of(tx)
        report = EnrichReport({queue: QueueCounts() for queue in BATCH if queue in there})
        course = _Course(limit, at_once, report, [], set(), Spans())
        try:
            with self._context.db.write() as tx:
                reap(tx, self._context.clock())
            for queue in report.queues:
                while not stop() and self._batch(queue, course):
                    show(course.report)
        finally:
            self._end(course)
        return course.report

    def upgrade(
        self,
        limit: int = 20,
        *,
        stop: Callable[[], bool] = lambda: False,
        show: Show = silent,
    ) -> EnrichReport:
        """Let the author write anew what rules alone have written, the newest first."""
        if self._author is None:
            return EnrichReport()
        refuse_write(self._context.access)
        with self._context.db.write() as tx:
            now = self._context.clock()
            forget_tries(tx, now - _TRIED_AGAIN_MS, now)
            found = nodes_by_rules(tx, limit, tried_before=now - _TRIED_AGAIN_MS)
            note_tried(tx, [one.node for one in found], now)
            again = sum(requeue(tx, one.queue, one.targets, now) for one in found)
        return (
            self.run(limit=again, at_once=True, stop=stop, show=show) if again else EnrichReport()
        )

    # ------------------------------------------------------------------ one batch

    def _batch(self, queue: Queue, course: _Course) -> bool:
        """Take a few tickets and deal with them; tell whether there may be more."""
        tickets = self._take(queue, course)
        new = [ticket for ticket in tickets if (queue, ticket.id) not in course.seen]
        if not new:
            return False
        course.seen.update((queue, ticket.id) for ticket in new)
        with self._context.db.read() as tx:
            found = read_pieces(tx, self._sources, course.spans, queue, new)
        written = self._derive(found)
        with self._context.db.write() as tx:
            self._store(tx, queue, written, found, course.report)
        course.failed.extend(found.failed)
        return True

    def _take(self, queue: Queue, course: _Course) -> list[Ticket]:
        size = (BATCH if self._author is None else BATCH_OF_AUTHOR)[queue]
        room = size if course.limit is None else min(size, course.limit - course.report.taken)
        if room <= 0:
            return []
        worker, now = self._worker, self._context.clock()
        with self._context.db.write() as tx:
            taken = claim(tx, queue, worker=worker, now=now, limit=room, at_once=course.at_once)
            wanted = _without_suspects(taken)
            put_back(tx, (ticket for ticket in taken if ticket not in wanted))
            return wanted

    def _derive(self, found: TicketReview) -> list[_Written]:
        """Make drafts; what cannot be derived fails alone, and what says nothing is skipped."""
        written = []
        for piece in found.pieces:
            try:
                material = make_material(piece.subject, self._roots)
                if isinstance(material, SkipReason):
                    found.skipped.extend((ticket, material.reason) for ticket in piece.tickets)
                else:
                    written.append(_Written(piece, *self._write(material)))
            except Exception as error:  # noqa: BLE001  (one piece must not stop the others)
                found.failed.extend((ticket, _told(error)) for ticket in piece.tickets)
        return written

    def _write(self, material: Material) -> tuple[NodeDraft, str]:
        by_author = self._author(material) if self._author is not None else None
        return by_author or (material.rules_draft, BY_RULES)

    # ------------------------------------------------------------------ writing

    def _store(
        self,
        tx: Tx,
        queue: Queue,
        written: Iterable[_Written],
        found: TicketReview,
        report: EnrichReport,
    ) -> None:
        now = self._context.clock()
        counts = report.queues[queue]
        for one in written:
            tickets = one.piece.tickets
            if len(held(tx, tickets)) < len(tickets):
                continue  # it took too long, and another worker has it now
            problem = self._store_one(tx, queue, one, now)
            if problem is not None:
                found.failed.extend((ticket, problem) for ticket in tickets)
                continue
            counts.nodes += 1
            counts.done += len(tickets)
            report.by_author += one.model != BY_RULES
        for ticket, reason in found.skipped:
            skip(tx, ticket, reason, now)
        counts.skipped += len(found.skipped)
        counts.failed += len(found.failed)
        report.errors += [message for _, message in found.failed][: 5 - len(report.errors)]

    def _store_one(self, tx: Tx, queue: Queue, one: _Written, now: int) -> str | None:
        """Write a node with all that belongs to it, or nothing of it; give what went wrong."""
        tx.execute("SAVEPOINT node")
        problem = None
        try:
            self._put_node(tx, queue, one, now)
        except Exception as error:
            if is_of_file(error):
                raise  # no node can be written: that is no fault of this one, and counts as no try
            tx.execute("ROLLBACK TO node")
            problem = _told(error)
        tx.execute("RELEASE node")
        return problem

    def _put_node(self, tx: Tx, queue: Queue, one: _Written, now: int) -> None:
        tickets, subject = one.piece
        targets = tuple(ticket.target for ticket in tickets)
        if isinstance(subject, MemoryNote):
            what = (tx, one.draft, subject.revision)
            publish_memory(*what, model=one.model, now=now, roots=self._roots)
            return
        is_run = isinstance(subject, RunDone)
        write_node(
            *(tx, queue, one.draft),
            evidence_of_run(tx, targets[0]) if is_run else Evidence(**{_FIELD[queue]: targets}),
            model=one.model,
            now=now,
            uuid=self._new_uuid(),
            outcome_column=(subject.conclusion or None) if isinstance(subject, RunDone) else None,
            roots=self._roots,
            hashes={ticket.target: ticket.content_hash for ticket in tickets},
        )

    # ------------------------------------------------------------------ the end

    def _end(self, course: _Course) -> None:
        """Give back what failed, and what an interruption left in hand."""
        with self._context.db.write() as tx:
            now = self._context.clock()
            for ticket, message in course.failed:
                give_back(tx, ticket, message, now)
            release(tx, self._worker)
            left = depths(tx)
        for queue, counts in course.report.queues.items():
            counts.waiting = left.get(queue, {}).get("pending", 0)
            counts.held = left.get(queue, {}).get("processing", 0)


def _without_suspects(taken: list[Ticket]) -> list[Ticket]:
    """Give what is dealt with together: whatever may end the whole process is dealt with alone."""
    safe = [ticket for ticket in taken if ticket.retry_count < _SUSPECT]
    return safe or taken[:1]


def _told(error: Exception) -> str:
    message = str(error) if isinstance(error, NotFound) else f"{type(error).__name__}: {error}"
    return message[:_MESSAGE_LIMIT]
