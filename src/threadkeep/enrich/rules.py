"""Tickets become pieces, and pieces become material: what was read, and what rules make of it."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from threadkeep.base.tx import Tx
from threadkeep.capture.transcripts import Sources
from threadkeep.enrich import gathering as read
from threadkeep.enrich.agentic import agentic_draft, agentic_project, describe_work
from threadkeep.enrich.browsing import cleaned_visit, describe_visits, visit_chunks, visits_draft
from threadkeep.enrich.composing import project_of
from threadkeep.enrich.evidence import CommandEvidence, MemoryNote, RunDone, Slice, VisitEvidence
from threadkeep.enrich.material import Material
from threadkeep.enrich.memories import describe_note, note_draft, note_project
from threadkeep.enrich.prompts import is_own
from threadkeep.enrich.shell import chunks_of, cleaned, describe, shell_draft, shell_project
from threadkeep.enrich.spans import Spans
from threadkeep.enrich.work import work_of
from threadkeep.enrich.workflow import describe_run, run_draft
from threadkeep.errors import ThreadkeepError
from threadkeep.knowledge.tickets import Queue, Ticket
from threadkeep.knowledge.why_skip import why_skip_agentic, why_skip_browser, why_skip_shell


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
    tx: Tx, sources: Sources, spans: Spans, queue: Queue, tickets: Sequence[Ticket]
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
    for one in read.read_commands(tx, list(of)):
        reason = (_TOLD if one.told_by_session else None) or why_skip_shell(
            command=one.command, stdout=one.output, stderr=None, duration_ms=one.duration_ms
        )
        if reason is None:
            telling.append(cleaned(one))
        else:
            found.skipped.append((of[one.id], reason))
    for commands in chunks_of(telling):
        visits = read.visits_around(tx, commands[0].at, commands[-1].at)
        chunk = CommandGroup(
            commands, [] if commands[0].by_agent else list(map(cleaned_visit, visits))
        )
        found.pieces.append(NodeSubject(tuple(of[one.id] for one in commands), chunk))


def _read_visits(tx: Tx, tickets: Sequence[Ticket], found: TicketReview) -> None:
    of = {ticket.target: ticket for ticket in tickets}
    telling = []
    for visit, scrolled in read.read_visits(tx, list(of)):
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
    tx: Tx, sources: Sources, spans: Spans, ticket: Ticket, found: TicketReview
) -> None:
    for row in read.read_slices(tx, [ticket.target]):
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
            piece = read.with_archive(tx, sources, spans, row)
        except ThreadkeepError as error:  # a damaged block: the other tickets go on
            found.failed.append((ticket, error.message))
            continue
        found.pieces.append(NodeSubject((ticket,), piece))


def _read_run(tx: Tx, ticket: Ticket, found: TicketReview) -> None:
    run = read.read_run(tx, ticket.target)
    if run is not None:
        found.pieces.append(NodeSubject((ticket,), run))


def _read_note(tx: Tx, ticket: Ticket, found: TicketReview) -> None:
    note = read.read_note(tx, ticket.target)
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
