"""Enrichment at work: takes tickets, writes nodes, gives back what did not work.

Tickets are taken in small batches. A batch is read in one transaction, derived (by an author if
there is one) outside of any, and written in another: nodes, links, entities and tickets together.
Whoever is killed leaves locks that the next worker takes back at once.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from threadkeep.base.tx import Tx, is_of_store
from threadkeep.errors import NotFound, ThreadkeepError
from threadkeep.knowledge.evidence import (
    CommandEvidence,
    MemoryNote,
    RunDone,
    VisitEvidence,
    read_commands,
    read_note,
    read_run,
    read_visits,
    visits_around,
)
from threadkeep.knowledge.kinds import Queue
from threadkeep.knowledge.nodes import (
    forget_tries,
    nodes_by_rules,
    note_tried,
    publish_memory,
    write_node,
)
from threadkeep.knowledge.opening import refuse_write
from threadkeep.knowledge.queues import (
    Ticket,
    claim,
    depths,
    give_back,
    held,
    put_back,
    release,
    requeue,
    skip,
    skip_told,
    why_skip_agentic,
    why_skip_browser,
    why_skip_shell,
    worker_name,
)
from threadkeep.knowledge.recent_entries import RecentEntries
from threadkeep.knowledge.records import BY_RULES, Evidence, NodeDraft, Readers
from threadkeep.knowledge.segments import Spans
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.knowledge.vectors import unlock
from threadkeep.knowledge.workflow_runs import evidence_of_run
from threadkeep.memory.learn.command_nodes import (
    chunks_of,
    cleaned,
    describe,
    shell_draft,
    shell_project,
)
from threadkeep.memory.learn.conversation_nodes import (
    agentic_draft,
    agentic_project,
    describe_work,
    work_of,
)
from threadkeep.memory.learn.draft_text import project_of
from threadkeep.memory.learn.evidence import Slice, read_slices, with_archive
from threadkeep.memory.learn.evidence_text import Author, Material
from threadkeep.memory.learn.observed_nodes import (
    cleaned_visit,
    describe_note,
    describe_run,
    describe_visits,
    note_draft,
    note_project,
    run_draft,
    visit_chunks,
    visits_draft,
)
from threadkeep.memory.learn.prompts import is_own

# ------------------------------------------------------------------------------
# Tickets become pieces, and pieces become material: what was read, and what rules make of it.


class CommandGroup(NamedTuple):
    """Commands that belong together, and the pages that were looked at meanwhile."""

    commands: list[CommandEvidence]
    visits: list[VisitEvidence]


class Pages(NamedTuple):
    """Pages that were read in a row."""

    visits: list[VisitEvidence]


Subject = CommandGroup | Slice | Pages | RunDone | MemoryNote


class NodeSubject(NamedTuple):
    """What one node will be about: its tickets, and what was read for them."""

    tickets: tuple[Ticket, ...]
    subject: Subject


class TicketReview(NamedTuple):
    """What came of looking at tickets; a reason stands beside each that gives no piece."""

    pieces: list[NodeSubject]
    skipped: list[tuple[Ticket, str]]
    failed: list[tuple[Ticket, str]]


_GONE: Final = "its row is not there any more"
_OWN: Final = "it was written by enrichment itself"
# Of all nodes 45 % were such, and each said again what the node of its session says.
_TOLD: Final = "the node of its session tells of it"
_NEWER: Final = "a newer revision of it came"
_NOTHING: Final = "nothing was asked, said or done in it"
# Other programs that let an agent write summaries of sessions: what these say was said before.
_SUMMARISERS: Final = (
    "You are a Claude-Mem",
    "Context: This summary will be shown in a list",
    "Please write a concise summary of this conversation",
)


# ---------------------------------------------------------------------- reading


def read_pieces(
    tx: Tx, sources: Readers, spans: Spans, queue: Queue, tickets: Sequence[Ticket]
) -> TicketReview:
    """Read what tickets of one queue stand for, cut into pieces of one node each."""
    found = TicketReview([], [], [])
    if queue == "shell":
        _read_commands(tx, tickets, found)
    elif queue == "browser":
        _read_visits(tx, tickets, found)
    elif queue == "agentic":
        for ticket in tickets:
            _read_slice(tx, sources, spans, ticket, found)
    elif queue == "memory":
        for ticket in tickets:
            _read_note(tx, ticket, found)
    else:
        for ticket in tickets:
            _read_run(tx, ticket, found)
    _skip_missing(tickets, found)
    return found


def _read_commands(tx: Tx, tickets: Sequence[Ticket], found: TicketReview) -> None:
    of = {ticket.target: ticket for ticket in tickets}
    telling = []
    for one in read_commands(tx, list(of)):
        reason = why_skip_shell(
            command=one.command, stdout=one.output, stderr=None, duration_ms=one.duration_ms
        )
        if reason is None:
            telling.append(cleaned(one))
        else:
            found.skipped.append((of[one.id], reason))
    for commands in chunks_of(telling):
        visits = visits_around(tx, commands[0].at, commands[-1].at)
        chunk = CommandGroup(
            commands, [] if commands[0].by_agent else list(map(cleaned_visit, visits))
        )
        found.pieces.append(NodeSubject(tuple(of[one.id] for one in commands), chunk))


def _read_visits(tx: Tx, tickets: Sequence[Ticket], found: TicketReview) -> None:
    of = {ticket.target: ticket for ticket in tickets}
    telling = []
    for visit, scrolled in read_visits(tx, list(of)):
        reason = why_skip_browser(
            dwell_ms=visit.dwell_ms, scroll_depth=scrolled, search_query=visit.query
        )
        if reason is None:
            telling.append(cleaned_visit(visit))
        else:
            found.skipped.append((of[visit.id], reason))
    for visits in visit_chunks(telling):
        found.pieces.append(NodeSubject(tuple(of[visit.id] for visit in visits), Pages(visits)))


def _read_slice(
    tx: Tx, sources: Readers, spans: Spans, ticket: Ticket, found: TicketReview
) -> None:
    for row in read_slices(tx, [ticket.target]):
        reason = why_skip_agentic(
            harness=row.piece.harness,
            message_count=row.message_count,
            tool_calls_json=row.tool_calls_json,
            snapshot_diffs_json=row.snapshot_diffs_json,
            commit_messages_json=row.commit_messages_json,
        )
        if reason is not None:
            found.skipped.append((ticket, reason))
            continue
        try:
            piece = with_archive(tx, sources, spans, row)
        except ThreadkeepError as error:  # a damaged block: the other tickets continue
            found.failed.append((ticket, error.message))
            continue
        found.pieces.append(NodeSubject((ticket,), piece))


def _read_run(tx: Tx, ticket: Ticket, found: TicketReview) -> None:
    run = read_run(tx, ticket.target)
    if run is not None:
        found.pieces.append(NodeSubject((ticket,), run))


def _read_note(tx: Tx, ticket: Ticket, found: TicketReview) -> None:
    note = read_note(tx, ticket.target)
    if note is not None and not note.is_current:
        found.skipped.append((ticket, _NEWER))
    elif note is not None:
        found.pieces.append(NodeSubject((ticket,), note))


def _skip_missing(tickets: Iterable[Ticket], found: TicketReview) -> None:
    known = {ticket.id for piece in found.pieces for ticket in piece.tickets}
    known |= {ticket.id for ticket, _ in (*found.skipped, *found.failed)}
    found.skipped.extend((ticket, _GONE) for ticket in tickets if ticket.id not in known)


# ---------------------------------------------------------------------- deriving


class SkipReason(NamedTuple):
    """A subject that gives no node although it was eligible, and why."""

    reason: str


def make_material(subject: Subject, roots: tuple[str, ...] = ()) -> Material | SkipReason:
    """Write a subject down as text, and let the rules make a draft of it."""
    if isinstance(subject, Slice):
        return _from_slice(subject, roots)
    if isinstance(subject, CommandGroup):
        source = describe(subject.commands, subject.visits)
        draft = shell_draft(subject.commands, subject.visits, source)
        return Material("shell", "shell", source, shell_project(subject.commands), roots, draft)
    if isinstance(subject, Pages):
        source = describe_visits(subject.visits)
        draft = visits_draft(subject.visits, source)
        return Material("browser", "browser", source, "", roots, draft)
    if isinstance(subject, MemoryNote):
        source = describe_note(subject)
        draft = note_draft(subject, source)
        return Material("memory", "memory", source, note_project(subject), roots, draft)
    source = describe_run(subject)
    draft = run_draft(subject, source)
    return Material("workflow", "workflow", source, project_of(subject.repo), roots, draft)


def _from_slice(piece: Slice, roots: tuple[str, ...]) -> Material | SkipReason:
    opening = next(iter(piece.prompts), "") or piece.began_with
    if is_own(opening) or opening.startswith(_SUMMARISERS):
        return SkipReason(_OWN)
    work = work_of(piece)
    if not (work.prompts or work.texts or work.ran or work.changed or work.read):
        return SkipReason(_NOTHING)
    source = describe_work(piece, work)
    draft = agentic_draft(piece, work, source)
    return Material("agentic", "agentic", source, agentic_project(piece), roots, draft)


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
    """Turns what queueds of one store into nodes."""

    def __init__(
        self,
        store: KnowledgeStore,
        sources: Readers,
        *,
        new_uuid: Callable[[], str],
        roots: Sequence[str] = (),
        author: Author | None = None,
        recent: RecentEntries | None = None,
    ) -> None:
        self._store = store
        self._sources = sources
        self._new_uuid = new_uuid
        self._roots = tuple(roots)
        self._author = author
        self._recent = recent
        self._worker = worker_name(new_uuid())

    def run(
        self,
        *,
        queues: Sequence[Queue] = tuple(BATCH),
        limit: int | None = None,
        at_once: bool = False,
        stop: Callable[[], bool] = lambda: False,
        show: Show = silent,
    ) -> EnrichReport:
        """Work through the queues, each ticket once; `limit` is how many tickets are taken at most.

        With `at_once` no session is waited for. What failed is given back at the end, so that it is
        not tried five times within a second.
        """
        refuse_write(self._store.access)
        unlock(self._store.database)  # what a new node replaces takes its vector along
        there = self._store.queues.names()
        report = EnrichReport({queue: QueueCounts() for queue in queues if queue in there})
        course = _Course(limit, at_once, report, [], set(), Spans(self._recent))
        try:
            self._store.queues.reap(self._store.clock())
            for queue in report.queues:
                self._skip_told(queue, course)
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
        """Let the author rewrite what rules alone have written, the newest first."""
        if self._author is None:
            return EnrichReport()
        refuse_write(self._store.access)
        with self._store.write() as tx:
            now = self._store.clock()
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
        with self._store.read() as tx:
            found = read_pieces(tx, self._sources, course.spans, queue, new)
        written = self._derive(found)
        with self._store.write() as tx:
            self._put_all(tx, queue, written, found, course.report)
        course.failed.extend(found.failed)
        return True

    def _skip_told(self, queue: Queue, course: _Course) -> None:
        """Pass over what the nodes of sessions tell of."""
        if queue == "shell" and self._store.queues.tickets_wait():
            with self._store.write(key=f"tickets:{queue}") as tx:
                course.report.queues[queue].skipped += skip_told(tx, _TOLD, self._store.clock())

    def _take(self, queue: Queue, course: _Course) -> list[Ticket]:
        size = (BATCH if self._author is None else BATCH_OF_AUTHOR)[queue]
        room = size if course.limit is None else min(size, course.limit - course.report.taken)
        if room <= 0:
            return []
        worker, now = self._worker, self._store.clock()
        with self._store.write(key=f"tickets:{queue}") as tx:
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

    def _put_all(
        self,
        tx: Tx,
        queue: Queue,
        written: Iterable[_Written],
        found: TicketReview,
        report: EnrichReport,
    ) -> None:
        now = self._store.clock()
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
        try:
            with tx.step():
                self._put_node(tx, queue, one, now)
        except Exception as error:
            if is_of_store(error):
                raise  # no node can be written: that is no fault of this one, and counts as no try
            return _told(error)
        return None

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
        with self._store.write() as tx:
            now = self._store.clock()
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
