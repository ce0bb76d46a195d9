"""How what was found is told to an agent: a heading of facts, and the stored text below it."""

from datetime import UTC
from typing import Any, Final

from threadkeep.home.desk import EntityView, EventView, ProjectView
from threadkeep.home.fenced import Item, ago, day_of
from threadkeep.home.observed_ci import Lesson, RunRow
from threadkeep.mcp.contract_answers import CiJob, Knowledge, Ranked
from threadkeep.mcp.replies import cut

SHOWN: Final = 4_000  # characters of one thing
NOTHING: Final = "Nothing was found. Use other words, or fewer filters."


def told(*facts: object) -> str:
    """Put facts in a line, those that are known."""
    return " · ".join(str(fact) for fact in facts if fact)


def lead(rows: list[Any], left_out: str) -> str:
    """Say how many were found, and what did not fit."""
    return f"{len(rows)} found. {left_out}".strip() if rows else NOTHING


def left(count: int) -> str:
    """Say that some did not fit into the answer, and how to have them."""
    return f"{count} more did not fit: ask with more filters, or a smaller limit." if count else ""


def plain(snippet: str) -> str:
    """Give a snippet without the marks around the words that were found."""
    return snippet.replace(">>>", "").replace("<<<", "")


def of_node(row: Knowledge | Ranked, now: int) -> Item:
    """Tell a piece of knowledge."""
    age = ago(row.captured_at, now)
    heading = told("summary", row.outcome, row.cwd, row.git_branch, age, row.uuid)
    return Item(heading, cut(f"{row.summary}\n{row.embed_text}", SHOWN))


def of_event(one: EventView, now: int) -> Item:
    """Tell a command, a session or a visit."""
    name, age = f"{one.source}-{one.id}", ago(one.timestamp, now)
    return Item(told(name, one.detail, one.cwd, one.git_branch, age), one.summary or "(nothing)")


def of_entity(one: EntityView, now: int) -> Item:
    """Tell what is mentioned."""
    return Item(told(one.type, f"last seen {ago(one.last_seen, now)}"), one.name)


def of_project(one: ProjectView, now: int) -> Item:
    """Tell a place."""
    last = f"last seen {ago(one.last_seen, now)}"
    return Item(told("project", last), told(one.git_repo, one.cwd_root) or "(nameless)")


def of_lesson(one: Lesson, now: int) -> Item:
    """Tell what went wrong more than once."""
    last = ago(one.last_seen_at, now)
    heading = told(f"lesson:{one.id}", one.repo, f"{one.occurrences} times", f"last {last}")
    return Item(heading, "\n".join(filter(None, (one.summary, one.fix_hint))) or "(nothing)")


def of_run(run: RunRow) -> Item:
    """Tell a run of CI."""
    when = day_of(run.started_at, UTC)
    facts = (run.status, run.conclusion, run.head_branch, run.head_sha, when, run.html_url)
    return Item(f"run {run.id} of {run.repo}", told(*facts))


def of_job(job: CiJob) -> Item:
    """Tell a job with what it said."""
    lines = [f"{a.level} {a.path or ''}:{a.start_line or ''} {a.message}" for a in job.annotations]
    return Item(told("job", job.name), "\n".join([job.conclusion or "not finished", *lines]))
