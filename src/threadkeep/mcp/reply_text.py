"""How what was found is told to an agent: a heading of facts, and the stored text below it."""

from datetime import UTC
from typing import Any, Final

from threadkeep.base.clock import iso
from threadkeep.knowledge.agent_views import AgentEntityView, EventView, ProjectView
from threadkeep.knowledge.lessons import Lesson
from threadkeep.knowledge.workflow_runs import RunRow
from threadkeep.mcp.contract_answers import CiJob, HybridHit, Knowledge
from threadkeep.mcp.tools import ReplyRows, cut
from threadkeep.memory.fence import FenceItem
from threadkeep.memory.hits import ago, day_of

SHOWN: Final = 4_000  # characters of one thing
NOTHING: Final = "No matches. Try other words, or fewer filters."


def told(*facts: object) -> str:
    """Put facts in a line, those that are known."""
    return " · ".join(str(fact) for fact in facts if fact)


def lead(rows: list[Any], left_out: str) -> str:
    """Say how many were found, and what did not fit."""
    return f"{len(rows)} found. {left_out}".strip() if rows else NOTHING


def left(count: int) -> str:
    """Say that some did not fit into the answer, and how to have them."""
    return f"{count} more did not fit: narrow the filters or lower the limit." if count else ""


def plain(snippet: str) -> str:
    """Return a snippet without the marks around the words that were found."""
    return snippet.replace(">>>", "").replace("<<<", "")


def of_node(row: Knowledge | HybridHit, now: int) -> FenceItem:
    """Tell a piece of knowledge."""
    age = ago(row.captured_at, now)
    heading = told("summary", row.outcome, row.cwd, row.git_branch, age, row.uuid)
    return FenceItem(heading, cut(f"{row.summary}\n{row.embed_text}", SHOWN))


def of_event(one: EventView, now: int) -> FenceItem:
    """Tell a command, a session or a visit."""
    name, age = f"{one.source}-{one.id}", ago(one.timestamp, now)
    return FenceItem(
        told(name, one.detail, one.cwd, one.git_branch, age), one.summary or "(nothing)"
    )


def of_entity(one: AgentEntityView, now: int) -> FenceItem:
    """Tell what is mentioned."""
    return FenceItem(told(one.type, f"last seen {ago(one.last_seen, now)}"), one.name)


def of_project(one: ProjectView, now: int) -> FenceItem:
    """Tell a place."""
    last = f"last seen {ago(one.last_seen, now)}"
    return FenceItem(told("project", last), told(one.git_repo, one.cwd_root) or "(nameless)")


def of_lesson(one: Lesson, now: int) -> FenceItem:
    """Tell what went wrong more than once."""
    last = ago(one.last_seen_at, now)
    heading = told(f"lesson:{one.id}", one.repo, f"{one.occurrences} times", f"last {last}")
    return FenceItem(heading, "\n".join(filter(None, (one.summary, one.fix_hint))) or "(nothing)")


def of_run(run: RunRow) -> FenceItem:
    """Tell a run of CI."""
    day = day_of(run.started_at, UTC)
    facts = (run.status, run.conclusion, run.head_branch, run.head_sha, day, run.html_url)
    return FenceItem(f"run {run.id} of {run.repo}", told(*facts))


def of_job(job: CiJob) -> FenceItem:
    """Tell a job with what it said."""
    lines = [f"{a.level} {a.path or ''}:{a.start_line or ''} {a.message}" for a in job.annotations]
    return FenceItem(told("job", job.name), "\n".join([job.conclusion or "not finished", *lines]))


# ---------------------------------------------------------------------- what follows


def go_on(more: str | None, what: str = "more") -> str:
    """Say that there is more, and how to have it."""
    return f"There is {what}: ask again with cursor={more}." if more else ""


def left_with(found: ReplyRows, more: str | None) -> str:
    """Say that some did not fit, and how to have them."""
    return go_on(more) if found.left_out else ""


def later(found: ReplyRows) -> str:
    """Say that some did not fit."""
    return f"{found.left_out} more did not fit into the answer." if found.left_out else ""


def when(at: int | None) -> str | None:
    """Write a moment."""
    return None if at is None else iso(at)
