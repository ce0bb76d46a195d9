"""The arguments of the contract's nine tools, with its names and defaults."""

from typing import Annotated, Literal

import msgspec

from threadkeep.mcp.arguments import (
    Age,
    Branch,
    Category,
    Everything,
    Limit,
    Project,
    Source,
    other,
    text,
)


class AskArguments(msgspec.Struct, frozen=True):
    """What `ask` takes."""

    question: Annotated[str, text("Question", "A question in plain words.")]
    limit: Limit = 10
    project: Project = ""
    since: Age = ""
    source: Source = ""
    branch: Branch = ""
    include_excluded: Everything = False


class KnowledgeArguments(msgspec.Struct, frozen=True):
    """What `search_knowledge` takes."""

    query: Annotated[str, text("Query", "Words to look for; empty: the newest.")]
    mode: Annotated[
        Literal["semantic", "lexical", "hybrid"],
        other("Mode", "semantic or hybrid: by meaning and words; lexical: by words alone."),
    ] = "semantic"
    limit: Limit = 10
    project: Project = ""
    since: Age = ""
    source: Source = ""
    branch: Branch = ""
    category: Category = ""
    include_excluded: Everything = False


class HybridArguments(msgspec.Struct, frozen=True):
    """What `search_hybrid` takes."""

    query: Annotated[str, text("Query", "Words to look for.")]
    mode: Annotated[
        Literal["hybrid", "semantic", "lexical", "recent"],
        other("Mode", "How to rank; recent: the newest, whatever the words."),
    ] = "hybrid"
    limit: Limit = 10
    project: Project = ""
    since: Age = ""
    source: Source = ""
    branch: Branch = ""
    entity: Annotated[str, text("Entity", "Only what mentions this file, tool or name.")] = ""


class EventArguments(msgspec.Struct, frozen=True):
    """What `search_events` takes."""

    query: Annotated[str, text("Query", "A part of the command, summary, title or address.")] = ""
    source: Annotated[
        Literal["all", "shell", "claude", "browser"],
        other("Source", "Which events; claude: sessions of any agent."),
    ] = "all"
    since: Age = ""
    project: Annotated[str, text("Project", "A part of the folder or the repository.")] = ""
    branch: Branch = ""
    limit: Limit = 20


class EntityArguments(msgspec.Struct, frozen=True):
    """What `get_entities` takes."""

    type: Annotated[
        str,
        text("Type", "project, file, tool, service, concept, domain or env_var. Empty: all."),
    ] = ""
    query: Annotated[str, text("Query", "A part of the name.")] = ""
    limit: Limit = 50
    project: Annotated[str, text("Project", "A part of the folder or the repository.")] = ""
    since: Age = ""


class ProjectArguments(msgspec.Struct, frozen=True):
    """What `list_projects` takes."""

    limit: Limit = 50


class ContextArguments(msgspec.Struct, frozen=True):
    """What `get_context` takes."""

    query: Annotated[str, text("Query", "What the context is for, in plain words.")]
    limit: Limit = 5
    project: Project = ""
    since: Age = ""
    source: Source = ""


class CiArguments(msgspec.Struct, frozen=True):
    """What `get_ci_status` takes."""

    repo: Annotated[str, text("Repository", "owner/name")]
    sha: Annotated[str, text("Commit", "The whole hash of the commit.")] | None = None
    branch: Annotated[str, text("Branch", "The branch, where no commit is given.")] | None = None


class LessonArguments(msgspec.Struct, frozen=True):
    """What `get_lessons` takes."""

    repo: Annotated[str, text("Repository", "owner/name")] | None = None
    path: Annotated[str, text("Path", "The file or folder you are about to change.")] | None = None
    tool: Annotated[str, text("Tool", "Such as ruff, clippy or pytest.")] | None = None
    limit: Limit = 10
