"""What the contract's nine tools give back: the names and shapes of its own server.

Lists stand in `result`, as that server sends them; what we add stands beside it.
"""

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from threadkeep.knowledge.agent_views import AgentEntityView, AgentNodeView, EventView, ProjectView
from threadkeep.knowledge.lessons import Lesson
from threadkeep.knowledge.workflow_runs import Job, RunDetails
from threadkeep.mcp.tools import NOTICE, cut
from threadkeep.memory.records import Hit

_SUMMARY = 2_000
_WORDS = 3_000
_MESSAGE = 1_000
_MOST_ANNOTATIONS = 10
_MOST_JOBS = 40


class Knowledge(msgspec.Struct, frozen=True):
    """A piece of knowledge, as `search_knowledge` gives it."""

    uuid: str
    score: float | None
    summary: str
    intent: str
    outcome: str
    tags: list[str]
    embed_text: str
    cwd: str
    git_branch: str
    captured_at: int
    linked_event_ids: list[int]
    linked_claude_session_ids: list[int]
    linked_browser_event_ids: list[int]


class HybridHit(msgspec.Struct, frozen=True):
    """A piece of knowledge, as `search_hybrid` gives it."""

    uuid: str
    score: float
    summary: str
    embed_text: str
    outcome: str
    tags: list[str]
    cwd: str
    git_branch: str
    captured_at: int
    design_decisions: list[Any]
    linked_event_ids: list[int]
    linked_source_ids: list[str]
    entities: list[str]


class CiAnnotation(msgspec.Struct, frozen=True):
    """What a job said about a line of code."""

    level: str
    tool: str | None
    rule_id: str | None
    path: str | None
    start_line: int | None
    message: str


class CiJob(msgspec.Struct, frozen=True):
    """A job of a run."""

    id: int
    name: str
    conclusion: str | None
    started_at: int | None
    completed_at: int | None
    annotations: list[CiAnnotation]


class CiStatus(msgspec.Struct, frozen=True):
    """The latest run with its jobs; nothing at all where there is none."""

    run_id: int | UnsetType = UNSET
    repo: str | UnsetType = UNSET
    head_sha: str | UnsetType = UNSET
    head_branch: str | UnsetType | None = UNSET
    status: str | UnsetType = UNSET
    conclusion: str | UnsetType | None = UNSET
    started_at: int | UnsetType | None = UNSET
    completed_at: int | UnsetType | None = UNSET
    html_url: str | UnsetType = UNSET
    jobs: list[CiJob] | UnsetType = UNSET


class KnowledgeList(msgspec.Struct, frozen=True):
    """What `search_knowledge` answers."""

    result: list[Knowledge]
    notice: str = NOTICE
    left_out: str = ""


class RankedList(msgspec.Struct, frozen=True):
    """What `search_hybrid` answers."""

    result: list[HybridHit]
    notice: str = NOTICE
    left_out: str = ""


class EventList(msgspec.Struct, frozen=True):
    """What `search_events` answers."""

    result: list[EventView]
    notice: str = NOTICE
    left_out: str = ""


class EntityList(msgspec.Struct, frozen=True):
    """What `get_entities` answers."""

    result: list[AgentEntityView]
    notice: str = NOTICE
    left_out: str = ""


class ProjectList(msgspec.Struct, frozen=True):
    """What `list_projects` answers."""

    result: list[ProjectView]
    notice: str = NOTICE
    left_out: str = ""


class LessonList(msgspec.Struct, frozen=True):
    """What `get_lessons` answers."""

    result: list[Lesson]
    notice: str = NOTICE
    left_out: str = ""


def knowledge_of(hit: Hit, node: AgentNodeView, *, scored: bool) -> Knowledge:
    """Shape a node as `search_knowledge` gives it; found by words alone it has no score."""
    return Knowledge(
        uuid=node.uuid,
        score=round(hit.score, 4) if scored else None,
        summary=_summary(node),
        intent=cut(str(node.content.get("intent") or ""), _SUMMARY),
        outcome=node.outcome,
        tags=list(node.tags),
        embed_text=cut(node.embed_text, _WORDS),
        cwd=hit.cwd or "",
        git_branch=hit.branch or "",
        captured_at=hit.at or node.created_at,
        linked_event_ids=list(node.events),
        linked_claude_session_ids=list(node.segments),
        linked_browser_event_ids=list(node.visits),
    )


def ranked_of(hit: Hit, node: AgentNodeView) -> HybridHit:
    """Shape a node as `search_hybrid` gives it."""
    decisions = node.content.get("design_decisions")
    return HybridHit(
        uuid=node.uuid,
        score=round(hit.score, 4),
        summary=_summary(node),
        embed_text=cut(node.embed_text, _WORDS),
        outcome=node.outcome,
        tags=list(node.tags),
        cwd=hit.cwd or "",
        git_branch=hit.branch or "",
        captured_at=hit.at or node.created_at,
        design_decisions=decisions if isinstance(decisions, list) else [],
        linked_event_ids=list(node.events),
        linked_source_ids=list(node.sources),
        entities=list(node.entities),
    )


def _summary(node: AgentNodeView) -> str:
    return cut(str(node.content.get("summary") or ""), _SUMMARY)


def status_of(found: RunDetails) -> CiStatus:
    """Shape a run as `get_ci_status` gives it."""
    run = found.run
    return CiStatus(
        run_id=run.id,
        repo=run.repo,
        head_sha=run.head_sha,
        head_branch=run.head_branch,
        status=run.status,
        conclusion=run.conclusion,
        started_at=run.started_at,
        completed_at=run.completed_at,
        html_url=run.html_url,
        jobs=[_job(job) for job in found.jobs[:_MOST_JOBS]],
    )


def _job(job: Job) -> CiJob:
    said = [
        CiAnnotation(a.level, a.tool, a.rule_id, a.path, a.start_line, cut(a.message, _MESSAGE))
        for a in (job.annotations or ())[:_MOST_ANNOTATIONS]
    ]
    return CiJob(job.id, job.name, job.conclusion, job.started_at, job.completed_at, said)
