"""Claude's notes, and one question with all that its answer rests on."""

from typing import Annotated

import msgspec
from msgspec import Meta

from threadkeep.home.stores import Stores
from threadkeep.knowledge.memory_documents import MemoryFilter, MemoryPart, MemoryRevision
from threadkeep.memory.agent_query import AgentAnswer, AgentMode
from threadkeep.memory.records import Filters
from threadkeep.web.api.opening import reading_memory
from threadkeep.web.api.verb import Empty, Limit, Moment, Name, Strict, Text, Verb, Words, verb

Offset = Annotated[int, Meta(ge=0, le=1_000_000)]


class AgentQuestion(Strict, frozen=True):
    """A question, how it is to be answered, and what a hit must be."""

    query: Text
    mode: AgentMode = "known"
    source: Name | None = None
    since: Moment | None = None
    project: Name | None = None
    branch: Name | None = None
    limit: Limit = 10
    include_excluded: bool = False


class WantedNotes(Strict, frozen=True):
    """Which notes are meant; an empty text means any."""

    query: Words = ""
    repository: Words = ""
    category: Words = ""
    logical_path: Words = ""
    document_uuid: Words = ""
    since: Moment | None = None
    limit: Limit = 20
    offset: Offset = 0
    include_non_queryable: bool = False
    include_source_path: bool = False


class WantedHistory(Strict, frozen=True):
    """Which note is meant: its document, or its repository and its name there."""

    repository: Words = ""
    logical_path: Words = ""
    document_uuid: Words = ""
    limit: Limit = 50
    include_source_path: bool = False


class NoteList(msgspec.Struct, frozen=True):
    """What notes say now."""

    results: list[MemoryPart]
    truncated: bool


class RevisionList(msgspec.Struct, frozen=True):
    """What became of a note, the newest first."""

    results: list[MemoryRevision]
    truncated: bool


def query(stores: Stores, _: Empty, body: AgentQuestion) -> AgentAnswer:
    """Answer with what is known, what that rests on, how fresh and how sure it is."""
    filters = Filters(
        project=body.project,
        source=body.source,
        since=body.since,
        branch=body.branch,
        include_excluded=body.include_excluded,
    )
    with reading_memory(stores) as memory:
        return memory.agent_query(body.query, filters, mode=body.mode, limit=body.limit)


def notes(stores: Stores, _: Empty, body: WantedNotes) -> NoteList:
    """Give what the notes that Claude keeps say now."""
    asked = MemoryFilter(
        text=body.query,
        repository=body.repository,
        category=body.category,
        logical_path=body.logical_path,
        document_uuid=body.document_uuid,
        since=body.since,
        limit=body.limit,
        offset=body.offset,
        unpublished=body.include_non_queryable,
        paths=body.include_source_path,
    )
    with reading_memory(stores) as memory:
        return NoteList(*memory.memories(asked))


def revisions(stores: Stores, _: Empty, body: WantedHistory) -> RevisionList:
    """Give the revisions of one of Claude's notes."""
    asked = MemoryFilter(
        repository=body.repository,
        logical_path=body.logical_path,
        document_uuid=body.document_uuid,
        limit=body.limit,
        paths=body.include_source_path,
    )
    with reading_memory(stores) as memory:
        return RevisionList(*memory.memory_history(asked))


VERBS: tuple[Verb, ...] = (
    verb("POST", "/agent/query", query),
    verb("POST", "/memory/query", notes),
    verb("POST", "/memory/history", revisions),
)
