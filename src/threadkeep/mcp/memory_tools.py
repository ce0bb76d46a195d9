"""The contract's tools that came with memories: one question with its evidence, and the notes."""

from typing import Annotated, Final

import msgspec

from threadkeep.knowledge.memory_documents import MemoryFilter, MemoryPart, MemoryRevision
from threadkeep.knowledge.query import Query
from threadkeep.mcp import reply_text, tools
from threadkeep.mcp.reply_text import told
from threadkeep.memory.agent_query import AgentAnswer, AgentHit, AgentMode, of_contract_source
from threadkeep.memory.fence import FenceItem
from threadkeep.memory.hits import ago

_SHOWN: Final = 2_000

Repository = Annotated[
    str, tools.text("Repository", "Exactly this repository, as an answer names it.")
]
Path = Annotated[str, tools.text("Path", "Exactly this name of a note in its repository.")]
Uuid = Annotated[str, tools.text("Document", "The document_uuid of a note.")]
SourcePath = Annotated[bool, tools.other("Source path", "Include the path of the file.")]


class AgentArguments(msgspec.Struct, frozen=True):
    """What `agent_query` takes."""

    query: Annotated[str, tools.text("Query", "What you want to know, in plain words.")]
    mode: Annotated[
        AgentMode,
        tools.other(
            "Mode",
            "known: summaries; evidence: the rows behind them; recent: the newest; decisions.",
        ),
    ] = "known"
    limit: tools.Limit = 10
    project: tools.Project = ""
    since: tools.Age = ""
    source: tools.Source = ""
    branch: tools.Branch = ""
    include_excluded: tools.Everything = False


class MemoryArguments(msgspec.Struct, frozen=True):
    """What `query_memory` takes."""

    query: Annotated[str, tools.text("Query", "A part of the text. Empty: all notes.")] = ""
    repository: Repository = ""
    category: tools.Category = ""
    logical_path: Path = ""
    document_uuid: Uuid = ""
    since: tools.Age = ""
    limit: tools.Limit = 20
    offset: Annotated[int, tools.other("Offset", "How many to skip.")] = 0
    include_non_queryable: Annotated[
        bool,
        tools.other("Unpublished", "If nothing is found, report notes that are pending or gone."),
    ] = False
    include_source_path: SourcePath = False


class HistoryArguments(msgspec.Struct, frozen=True):
    """What `query_memory_history` takes."""

    repository: Repository = ""
    logical_path: Path = ""
    document_uuid: Uuid = ""
    limit: tools.Limit = 50
    include_source_path: SourcePath = False


class MemoryList(msgspec.Struct, frozen=True):
    """What `query_memory` answers."""

    view: str
    results: list[MemoryPart]
    limit: int
    offset: int
    truncated: bool
    notice: str = tools.NOTICE


class MemoryHistory(msgspec.Struct, frozen=True):
    """What `query_memory_history` answers."""

    view: str
    results: list[MemoryRevision]
    limit: int
    offset: int
    truncated: bool
    notice: str = tools.NOTICE


def agent_query(room: tools.ToolContext, given: AgentArguments) -> tools.ToolReply:
    """Answer with what is known, its evidence, how fresh it is, and how certain."""
    within = Query(
        project=(given.project,) if given.project else (),
        since=tools.younger_than(given.since, room.now()),
        branch=(given.branch,) if given.branch else (),
    )
    within, nodes = of_contract_source(within, given.source)
    nodes = msgspec.structs.replace(nodes, excluded=given.include_excluded)
    asked = {"nodes": nodes, "mode": given.mode, "limit": tools.clamped(given.limit)}
    answer = room.stores.memory().agent_query(given.query, within, **asked)
    now = room.now()
    found = tools.kept(answer.hits, lambda hit: _of_hit(hit, now))
    data = msgspec.structs.replace(
        answer,
        hits=tuple(found.rows),
        truncated=answer.truncated or bool(found.left_out),
    )
    said = [FenceItem("conflicts", data.conflicts.summary)] if data.conflicts.summary else []
    left_out = reply_text.left(found.left_out)
    return tools.ToolReply(reply_text.lead(found.rows, left_out), [*said, *found.items], data)


def _of_hit(hit: AgentHit, now: int) -> FenceItem:
    """Tell a piece of knowledge with the names of what it rests on."""
    sure = f"{hit.confidence.level} confidence"
    refs = ", ".join(one.ref for one in hit.evidence[:5])
    heading = told("knowledge", sure, hit.outcome, hit.cwd, ago(hit.captured_at, now), hit.uuid)
    return FenceItem(heading, tools.cut("\n".join(filter(None, (hit.summary, refs))), _SHOWN))


def query_memory(room: tools.ToolContext, given: MemoryArguments) -> tools.ToolReply:
    """Return the current text of Claude's notes."""
    limit, offset = max(1, tools.clamped(given.limit)), max(0, given.offset)
    asked = MemoryFilter(
        text=given.query,
        repository=given.repository,
        category=given.category,
        logical_path=given.logical_path,
        document_uuid=given.document_uuid,
        since=tools.younger_than(given.since, room.now()),
        limit=limit,
        offset=offset,
        unpublished=given.include_non_queryable,
        paths=given.include_source_path,
    )
    parts, more = room.stores.memory().store.nodes.memories(asked)
    found = tools.kept(parts, _of_part)
    data = MemoryList("current", found.rows, limit, offset, more or bool(found.left_out))
    return tools.ToolReply(reply_text.lead(found.rows, _next(data)), found.items, data)


def _next(data: MemoryList) -> str:
    return f"There is more: offset={data.offset + len(data.results)}." if data.truncated else ""


def _of_part(part: MemoryPart) -> FenceItem:
    """Tell a section of a note."""
    where = told("note", part.repository, part.logical_path, part.heading_path)
    state = part.projection_status if part.document_state == "active" else part.document_state
    return FenceItem(told(where, state), part.evidence_excerpt or "(nothing is published)")


def query_memory_history(room: tools.ToolContext, given: HistoryArguments) -> tools.ToolReply:
    """Return the history of one note."""
    limit = max(1, tools.clamped(given.limit))
    asked = MemoryFilter(
        repository=given.repository,
        logical_path=given.logical_path,
        document_uuid=given.document_uuid,
        limit=limit,
        paths=given.include_source_path,
    )
    revisions, more = room.stores.memory().store.nodes.memory_history(asked)
    now = room.now()
    found = tools.kept(revisions, lambda one: _of_revision(one, now))
    data = MemoryHistory("history", found.rows, limit, 0, more or bool(found.left_out))
    return tools.ToolReply(
        reply_text.lead(found.rows, reply_text.left(found.left_out)), found.items, data
    )


def _of_revision(one: MemoryRevision, now: int) -> FenceItem:
    """Tell a revision of a note."""
    age = ago(one.revision_created_at, now)
    heading = told(f"revision {one.revision_number}", one.change_kind, one.logical_path, age)
    said = "\n".join(filter(None, (one.summary, one.diff_text)))
    return FenceItem(heading, tools.cut(said, _SHOWN) or "(nothing)")


TOOLS: Final = (
    tools.Tool(
        "agent_query",
        "Ask with evidence",
        "Answer a question from summaries of past work, with the evidence behind each, how fresh"
        " it is, how certain the answer is, and what contradicts it.",
        AgentArguments,
        agent_query,
        AgentAnswer,
    ),
    tools.Tool(
        "query_memory",
        "Claude's notes",
        "Read the notes that Claude Code keeps for projects (memory/*.md), as they are now, by a"
        " part of their text, category or name.",
        MemoryArguments,
        query_memory,
        MemoryList,
    ),
    tools.Tool(
        "query_memory_history",
        "History of a note",
        "List the revisions of one of Claude's notes and what changed, newest first.",
        HistoryArguments,
        query_memory_history,
        MemoryHistory,
    ),
)
