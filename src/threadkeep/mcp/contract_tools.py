"""The nine tools of the contract's own server, with its arguments, defaults and shapes."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, Literal

import msgspec

from threadkeep.home.opening import answering
from threadkeep.knowledge.agent_views import (
    EventView,
)
from threadkeep.knowledge.query import Kind, Query
from threadkeep.mcp import contract_answers, reply_text, tools
from threadkeep.mcp.reply_text import NOTHING, SHOWN, told
from threadkeep.memory.agent_query import of_contract_source
from threadkeep.memory.ask import Citation
from threadkeep.memory.fence import FenceItem
from threadkeep.memory.records import Hit

# ------------------------------------------------------------------------------
# The arguments of the contract's nine tools, with its names and defaults.


class AskArguments(msgspec.Struct, frozen=True):
    """What `ask` takes."""

    question: Annotated[str, tools.text("Question", "A question in plain words.")]
    limit: tools.Limit = 10
    project: tools.Project = ""
    since: tools.Age = ""
    source: tools.Source = ""
    branch: tools.Branch = ""
    include_excluded: tools.Everything = False


class KnowledgeArguments(msgspec.Struct, frozen=True):
    """What `search_knowledge` takes."""

    query: Annotated[str, tools.text("Query", "Words to look for; empty: the newest.")]
    mode: Annotated[
        Literal["semantic", "lexical", "hybrid"],
        tools.other("Mode", "semantic or hybrid: by meaning and words; lexical: by words alone."),
    ] = "semantic"
    limit: tools.Limit = 10
    project: tools.Project = ""
    since: tools.Age = ""
    source: tools.Source = ""
    branch: tools.Branch = ""
    category: tools.Category = ""
    include_excluded: tools.Everything = False


class HybridArguments(msgspec.Struct, frozen=True):
    """What `search_hybrid` takes."""

    query: Annotated[str, tools.text("Query", "Words to look for.")]
    mode: Annotated[
        Literal["hybrid", "semantic", "lexical", "recent"],
        tools.other("Mode", "How to rank; recent gives the newest, whatever the words."),
    ] = "hybrid"
    limit: tools.Limit = 10
    project: tools.Project = ""
    since: tools.Age = ""
    source: tools.Source = ""
    branch: tools.Branch = ""
    entity: Annotated[str, tools.text("Entity", "Only what mentions this file, tool or name.")] = ""


class EventArguments(msgspec.Struct, frozen=True):
    """What `search_events` takes."""

    query: Annotated[
        str, tools.text("Query", "A part of the command, summary, title or address.")
    ] = ""
    source: Annotated[
        Literal["all", "shell", "claude", "browser"],
        tools.other("Source", "Which events; claude: sessions of any agent."),
    ] = "all"
    since: tools.Age = ""
    project: Annotated[str, tools.text("Project", "A part of the folder or the repository.")] = ""
    branch: tools.Branch = ""
    limit: tools.Limit = 20


class EntityArguments(msgspec.Struct, frozen=True):
    """What `get_entities` takes."""

    type: Annotated[
        str,
        tools.text("Type", "project, file, tool, service, concept, domain or env_var. Empty: all."),
    ] = ""
    query: Annotated[str, tools.text("Query", "A part of the name.")] = ""
    limit: tools.Limit = 50
    project: Annotated[str, tools.text("Project", "A part of the folder or the repository.")] = ""
    since: tools.Age = ""


class ProjectArguments(msgspec.Struct, frozen=True):
    """What `list_projects` takes."""

    limit: tools.Limit = 50


class ContextArguments(msgspec.Struct, frozen=True):
    """What `get_context` takes."""

    query: Annotated[str, tools.text("Query", "What the context is for, in plain words.")]
    limit: tools.Limit = 5
    project: tools.Project = ""
    since: tools.Age = ""
    source: tools.Source = ""


class CiArguments(msgspec.Struct, frozen=True):
    """What `get_ci_status` takes."""

    repo: Annotated[str, tools.text("Repository", "owner/name")]
    sha: Annotated[str, tools.text("Commit", "The whole hash of the commit.")] | None = None
    branch: Annotated[str, tools.text("Branch", "The branch, where no commit is given.")] | None = (
        None
    )


class LessonArguments(msgspec.Struct, frozen=True):
    """What `get_lessons` takes."""

    repo: Annotated[str, tools.text("Repository", "owner/name")] | None = None
    path: (
        Annotated[str, tools.text("Path", "The file or folder you are about to change.")] | None
    ) = None
    tool: Annotated[str, tools.text("Tool", "Such as ruff, clippy or pytest.")] | None = None
    limit: tools.Limit = 10


_CONTEXT: Final = 900  # characters for each thing in a context block
_LONGEST_CONTEXT: Final = 50_000


def ask(room: tools.ToolContext, given: AskArguments) -> tools.ToolReply:
    """Answer a question with passages, each with the place it stands at."""
    memory = room.stores.memory()
    answer = memory.ask(
        given.question,
        **_asked(room, given, branch=given.branch),
        limit=tools.clamped(given.limit),
        answer_with=answering(room.stores.home, memory),
        zone=room.zone,
    )
    if not answer.citations:
        return tools.ToolReply(answer.text)
    sources = [FenceItem(_place(one), one.quote) for one in answer.citations]
    written = [FenceItem("answer, written by a model from the passages above", answer.text)]
    notes = [FenceItem("notes", "\n".join(answer.notes))] if answer.notes else []
    lead = f"Evidence: {answer.confidence}.\n\nSources:"
    return tools.ToolReply(lead, [*sources, *(written if answer.by_model else ()), *notes])


def _place(one: Citation) -> str:
    return told(one.label, one.day, one.title, one.contract_ref, one.ref)


def search_knowledge(room: tools.ToolContext, given: KnowledgeArguments) -> tools.ToolReply:
    """Find pieces of knowledge."""
    by_words = given.mode == "lexical"
    hits = _hits(room, given, given.query, by_words=by_words, branch=given.branch)
    nodes = room.stores.memory().store.nodes.nodes([number for _, number in hits])
    rows = [
        contract_answers.knowledge_of(hit, nodes[number], scored=not by_words)
        for hit, number in hits
        if number in nodes
    ]
    return _listing(room, rows, reply_text.of_node, contract_answers.KnowledgeList)


def search_hybrid(room: tools.ToolContext, given: HybridArguments) -> tools.ToolReply:
    """Find pieces of knowledge, ranked by words and meaning together."""
    query = "" if given.mode == "recent" else given.query
    narrowed = {"branch": given.branch, "entity": given.entity}
    hits = _hits(room, given, query, by_words=given.mode == "lexical", **narrowed)
    nodes = room.stores.memory().store.nodes.nodes([number for _, number in hits])
    rows = [
        contract_answers.ranked_of(hit, nodes[number]) for hit, number in hits if number in nodes
    ]
    return _listing(room, rows, reply_text.of_node, contract_answers.RankedList)


def _hits(
    room: tools.ToolContext, given: Any, query: str, *, by_words: bool, **more: str
) -> list[tuple[Hit, int]]:
    """Recall nodes alone, each with its number."""
    memory = room.stores.memory()
    if by_words:
        memory = memory.without_meaning()
    asked = _asked(room, given, kind=("node",), **more)
    found = memory.recall(query, **asked, limit=tools.clamped(given.limit)).hits
    return [(hit, int(hit.ref.partition(":")[2])) for hit in found]


def search_events(room: tools.ToolContext, given: EventArguments) -> tools.ToolReply:
    """Find commands, sessions and pages by a part of their text."""
    query, limit = (
        _narrowed(room, given, given.branch, text=given.query),
        tools.clamped(given.limit),
    )
    found = room.stores.memory().store.nodes.events(given.source, query, limit)
    rows = [_short(one) for one in found]
    return _listing(room, rows, reply_text.of_event, contract_answers.EventList)


def get_entities(room: tools.ToolContext, given: EntityArguments) -> tools.ToolReply:
    """List what knowledge mentions."""
    query, limit = _narrowed(room, given, text=given.query), tools.clamped(given.limit)
    rows = room.stores.memory().store.nodes.entities(given.type or None, query, limit)
    return _listing(room, rows, reply_text.of_entity, contract_answers.EntityList)


def list_projects(room: tools.ToolContext, given: ProjectArguments) -> tools.ToolReply:
    """List the places where something was done."""
    rows = room.stores.memory().store.nodes.projects(tools.clamped(given.limit))
    return _listing(room, rows, reply_text.of_project, contract_answers.ProjectList)


def get_context(room: tools.ToolContext, given: ContextArguments) -> tools.ToolReply:
    """Return a block for a prompt."""
    limit = tools.clamped(given.limit)
    room_for = min(_LONGEST_CONTEXT, 400 + limit * _CONTEXT)
    asked = _asked(room, given)
    block = room.stores.memory().context(
        given.query, **asked, limit=limit, max_chars=room_for, new_id=room.fence_id
    )
    return tools.ToolReply(f"# Context from threadkeep\n\n{block}" if block else NOTHING)


def get_ci_status(room: tools.ToolContext, given: CiArguments) -> tools.ToolReply:
    """Tell how the latest run of CI went."""
    evidence = room.stores.memory().store.evidence
    run = evidence.latest_run(given.repo, given.sha or None, given.branch or None)
    if run is None:
        known = "CI is followed when [github] watched_repos names the repository."
        return tools.ToolReply(f"No such run is known. {known}", data=contract_answers.CiStatus())
    status = contract_answers.status_of(run)
    jobs = status.jobs if isinstance(status.jobs, list) else []
    found = tools.kept(jobs, reply_text.of_job)
    data = msgspec.structs.replace(status, jobs=found.rows)
    items = [reply_text.of_run(run.run), *found.items]
    return tools.ToolReply(reply_text.lead(items, reply_text.left(found.left_out)), items, data)


def get_lessons(room: tools.ToolContext, given: LessonArguments) -> tools.ToolReply:
    """List what went wrong more than once."""
    named = (given.repo or None, given.path or None, given.tool or None)
    rows = room.stores.memory().store.evidence.lessons(*named, tools.clamped(given.limit))
    return _listing(room, rows, reply_text.of_lesson, contract_answers.LessonList)


# ---------------------------------------------------------------------- asking


def _asked(
    room: tools.ToolContext,
    given: Any,
    *,
    branch: str = "",
    entity: str = "",
    kind: tuple[Kind, ...] = (),
) -> dict[str, Any]:
    """Read the filters that nearly all of these tools have, as recall takes them."""
    narrowed = _narrowed(room, given, branch=branch, entity=entity or None, kind=kind)
    within, nodes = of_contract_source(narrowed, given.source)
    nodes = msgspec.structs.replace(
        nodes,
        category=getattr(given, "category", "") or None,
        excluded=getattr(given, "include_excluded", False),
    )
    return {"within": within, "nodes": nodes}


def _narrowed(room: tools.ToolContext, given: Any, branch: str = "", **more: Any) -> Query:
    return Query(
        project=(given.project,) if given.project else (),
        since=tools.younger_than(given.since, room.now()),
        branch=(branch,) if branch else (),
        **more,
    )


def _listing(
    room: tools.ToolContext,
    rows: Sequence[Any],
    tell: Callable[[Any, int], FenceItem],
    shape: Callable[..., Any],
) -> tools.ToolReply:
    """Answer with a list, as much of it as fits."""
    now = room.now()
    found = tools.kept(rows, lambda row: tell(row, now))
    left_out = reply_text.left(found.left_out)
    data = shape(found.rows, left_out=left_out)
    return tools.ToolReply(reply_text.lead(found.rows, left_out), found.items, data)


def _short(one: EventView) -> EventView:
    return msgspec.structs.replace(one, summary=tools.cut(one.summary, SHOWN))


TOOLS: Final = (
    tools.Tool(
        "ask",
        "Ask the history",
        "Answer a question about past work on this machine (any agent, shell, browser, CI) from"
        " quoted passages with their sources. Use it for 'why', 'how did we', 'what did I do'.",
        AskArguments,
        ask,
    ),
    tools.Tool(
        "search_knowledge",
        "Search knowledge",
        "Search short summaries of past work, by meaning or by words. Returns uuid, summary,"
        " outcome, tags and evidence. For the exact words of a conversation use recall.",
        KnowledgeArguments,
        search_knowledge,
        contract_answers.KnowledgeList,
    ),
    tools.Tool(
        "search_hybrid",
        "Search knowledge, ranked",
        "Search summaries of past work by words and meaning together, with filters for branch and"
        " for an entity (a file, tool or name). mode=recent lists the newest.",
        HybridArguments,
        search_hybrid,
        contract_answers.RankedList,
    ),
    tools.Tool(
        "search_events",
        "Search raw events",
        "Search single events by a part of their text: shell commands, agent sessions, web pages."
        " Newest first. Use it for 'which command did I run'.",
        EventArguments,
        search_events,
        contract_answers.EventList,
    ),
    tools.Tool(
        "get_entities",
        "List entities",
        "List files, tools, services, errors and other names that past work mentions, most"
        " recent first.",
        EntityArguments,
        get_entities,
        contract_answers.EntityList,
    ),
    tools.Tool(
        "list_projects",
        "List projects",
        "List the repositories and folders that were worked in, most recent first. Use it to find"
        " the value for a project filter.",
        ProjectArguments,
        list_projects,
        contract_answers.ProjectList,
    ),
    tools.Tool(
        "get_context",
        "Get context for a task",
        "Get what is remembered about a task as one block to read before you start.",
        ContextArguments,
        get_context,
    ),
    tools.Tool(
        "get_ci_status",
        "CI status",
        "Get the result of the latest CI run of a repository, for a commit or a branch: jobs with"
        " their errors. Use it after a push.",
        CiArguments,
        get_ci_status,
        contract_answers.CiStatus,
    ),
    tools.Tool(
        "get_lessons",
        "Lessons",
        "List recurring failures with their fixes. Use it before you change a file or run a tool"
        " that failed before.",
        LessonArguments,
        get_lessons,
        contract_answers.LessonList,
    ),
)
