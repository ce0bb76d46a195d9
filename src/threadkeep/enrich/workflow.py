"""A run of CI becomes a node: what was checked, what failed, and where."""

from collections.abc import Iterator, Sequence
from typing import Final

from threadkeep.enrich import identifiers as ids
from threadkeep.enrich.composing import counted, dense, joined, listed, project_of
from threadkeep.enrich.evidence import JobDone, Remark, RunDone
from threadkeep.enrich.verbatim import verbatim
from threadkeep.enrich.wording import cut_middle, cut_words, one_line, plain, readable
from threadkeep.knowledge.drafts import Mentions, NodeDraft, Outcome

_SOURCE_LIMIT: Final = 40_000
_SHA: Final = 12
_OUTCOMES: Final[dict[str, Outcome]] = {
    "success": "success",
    "failure": "failure",
    "timed_out": "failure",
    "startup_failure": "failure",
    "cancelled": "unknown",
    "action_required": "partial",
}


def describe_run(run: RunDone) -> str:
    """Write a run down as text: all that a node of it may take names from."""
    lines = [
        f"Run of the workflow {run.name or run.id} in {run.repo}: {run.conclusion or 'not over'}",
        f"Branch: {run.branch}, commit: {run.sha}, started by: {run.event} of {run.actor}",
        *([f"Change: {run.title}"] if run.title else []),
        *(text for job in run.jobs for text in _described(job)),
        run.url,
    ]
    return cut_middle(plain("\n".join(lines), _SOURCE_LIMIT * 2), _SOURCE_LIMIT)


def _described(job: JobDone) -> Iterator[str]:
    yield f"Job {job.name}: {job.conclusion or 'unknown'}"
    for remark in job.remarks:
        yield f"- {_where(remark)} {remark.tool} {remark.rule} {remark.message}"
    if job.excerpt and job.conclusion != "success":
        yield readable(job.excerpt, 8_000)


def _where(remark: Remark) -> str:
    line = f":{remark.line}" if remark.line is not None else ""
    return f"{remark.level}: {remark.path}{line}" if remark.path else remark.level


def run_draft(run: RunDone, source: str) -> NodeDraft:
    """Derive a node from a run of CI."""
    failed = [
        job for job in run.jobs if job.conclusion not in {"success", "skipped", "neutral", ""}
    ]
    remarks = [one for job in run.jobs for one in job.remarks if one.level != "notice"]
    problems = ids.unique(_problems(failed, remarks), 10)
    project = project_of(run.repo)
    draft = NodeDraft(
        summary=joined(_sentences(run, failed, remarks, problems)),
        intent=_intent(run),
        outcome=_OUTCOMES.get(run.conclusion, "unknown"),
        entities=Mentions(
            projects=ids.unique(filter(None, (run.repo, project))),
            tools=ids.unique(remark.tool for remark in remarks if remark.tool),
            files=ids.unique(remark.path for remark in remarks if ids.as_file(remark.path)),
            services=("GitHub",) if "GitHub" in source else (),
            errors=ids.unique(_errors(remarks, problems)),
        ),
        tags=ids.unique(
            ["ci", run.conclusion, project, run.branch, *(one.tool for one in remarks)]
        ),
        problems_encountered=problems,
        embed_text=dense(
            (run.repo, run.branch, run.sha[:_SHA], run.name, run.title, run.conclusion),
            (job.name for job in failed or run.jobs),
            (text for one in remarks for text in (one.tool, one.rule, one.path)),
            problems,
        ),
    )
    return verbatim(draft, source)


def _problems(failed: Sequence[JobDone], remarks: Sequence[Remark]) -> Iterator[str]:
    for remark in remarks:
        where = f"{remark.path}:{remark.line}: " if remark.path and remark.line else ""
        if remark.level == "failure":
            yield cut_words(where + one_line(plain(remark.message, 2_000)), 300)
    for job in failed:
        yield from ids.error_lines(plain(job.excerpt), 4)


def _errors(remarks: Sequence[Remark], problems: Sequence[str]) -> Iterator[str]:
    yield from (remark.rule for remark in remarks if remark.rule)
    for line in problems:
        yield from ids.error_names_in(line)


def _intent(run: RunDone) -> str:
    change = cut_words(one_line(plain(run.title, 400)), 160)
    what = f"“{change}”" if change else f"commit {run.sha[:_SHA]}"
    where = f" on {run.branch}" if run.branch else ""
    return f"Check {what} of {run.repo}{where}" + (f" with {run.name}" if run.name else "")


def _sentences(
    run: RunDone, failed: Sequence[JobDone], remarks: Sequence[Remark], problems: Sequence[str]
) -> Iterator[str]:
    time = f" after {counted(run.seconds, 'second')}" if run.seconds else ""
    branch = f" on {run.branch}" if run.branch else ""
    name = f"{run.name} of " if run.name else "CI of "
    yield f"{name}{run.repo}{branch} ended with {run.conclusion or 'no result'}{time}"
    yield f"It ran at commit {run.sha[:_SHA]}" + (f", “{one_line(run.title)}”" if run.title else "")
    if failed:
        yield f"Failed: {listed([job.name for job in failed], 6)}"
    elif run.jobs:
        yield f"{counted(len(run.jobs), 'job')}: {listed([job.name for job in run.jobs], 6)}"
    rules = ids.unique(f"{one.tool} {one.rule}".strip() for one in remarks if one.tool or one.rule)
    if rules:
        yield f"Reported by {listed(rules, 5)}"
    yield from (f"Problem: {line}" for line in problems[:2])
