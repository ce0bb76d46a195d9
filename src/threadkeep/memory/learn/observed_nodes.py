"""Pages that were read in a row become a node."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final
from urllib.parse import unquote, urlsplit

from threadkeep.knowledge.evidence import JobDone, MemoryNote, Remark, RunDone, VisitEvidence
from threadkeep.knowledge.records import Mentions, NodeDraft, Outcome
from threadkeep.memory.learn import identifiers as ids
from threadkeep.memory.learn.decisions import telling_sentences, weighed_in
from threadkeep.memory.learn.draft_text import counted, dense, joined, listed, project_of, themes_of
from threadkeep.memory.learn.name_check import verbatim
from threadkeep.memory.learn.text_cleaning import (
    cut_middle,
    cut_words,
    one_line,
    plain,
    readable,
    sentences,
)

GAP_MS: Final = 5 * 60_000
MOST: Final = 25
_TEXT_LIMIT: Final = 3_000
_SOURCE_LIMIT: Final = 40_000
_MINUTE_MS: Final = 60_000


def visit_chunks(visits: Iterable[VisitEvidence]) -> Iterator[list[VisitEvidence]]:
    """Cut visits where nothing was looked at for five minutes."""
    chunk: list[VisitEvidence] = []
    for visit in sorted(visits, key=lambda one: (one.at, one.id)):
        if chunk and (visit.at - chunk[-1].at > GAP_MS or len(chunk) >= MOST):
            yield chunk
            chunk = []
        chunk.append(visit)
    if chunk:
        yield chunk


def cleaned_visit(visit: VisitEvidence) -> VisitEvidence:
    """Return a visit with readable text of bearable length."""
    return VisitEvidence(
        *(visit.id, visit.at, plain(visit.url, 1_000), one_line(plain(visit.title, 300))),
        *(plain(visit.domain, 200), visit.dwell_ms, one_line(plain(visit.query, 300))),
        readable(visit.text, _TEXT_LIMIT),
    )


def describe_visits(chunk: Sequence[VisitEvidence]) -> str:
    """Write visits down as text: all that a node of them may take names from."""
    lines = ["Pages that a person looked at"]
    for visit in chunk:
        lines.append(f"{visit.title or visit.url}\n{visit.url} ({visit.domain})")
        if _path_words(visit) != visit.url:
            lines.append(_path_words(visit))
        if visit.query:
            lines.append(f"Searched for: {visit.query}")
        if visit.text:
            lines.append(visit.text)
    return cut_middle("\n".join(lines), _SOURCE_LIMIT)


def _path_words(visit: VisitEvidence) -> str:
    try:
        return plain(unquote(urlsplit(visit.url).path), 300)
    except ValueError:  # brackets where an address has none
        return ""


def visits_draft(chunk: Sequence[VisitEvidence], source: str) -> NodeDraft:
    """Derive a node from pages that were read in a row."""
    titles = ids.unique((visit.title for visit in chunk if visit.title), 12)
    queries = ids.unique((visit.query for visit in chunk if visit.query), 5)
    domains = ids.unique(visit.domain for visit in chunk if visit.domain)
    text = "\n".join((*titles, *queries))
    draft = NodeDraft(
        summary=joined(_sentences(chunk, titles, queries, domains)),
        intent=_intent(titles, queries, domains),
        entities=Mentions(
            domains=domains,
            services=ids.unique(ids.services_in(text)),
            errors=ids.unique(ids.error_names_in(text)),
            files=ids.unique(ids.files_in(text)),
            projects=ids.unique(filter(None, map(_repository, chunk)), 5),
        ),
        tags=ids.unique(["browser", *(["research"] if queries else []), *themes_of(text)[:3]]),
        embed_text=dense(queries, titles, domains, map(_path_words, chunk), _dense_text(chunk)),
    )
    return verbatim(draft, source)


def _dense_text(chunk: Sequence[VisitEvidence]) -> Iterator[str]:
    for visit in chunk:
        yield from ids.unique(ids.dense_words(visit.text), 15)


def _repository(visit: VisitEvidence) -> str:
    """Name the repository that a page belongs to, where its address says it."""
    parts = _path_words(visit).strip("/").split("/")
    known = visit.domain in {"github.com", "gitlab.com", "codeberg.org"}
    return parts[1] if known and len(parts) > 1 else ""


def _intent(titles: Sequence[str], queries: Sequence[str], domains: Sequence[str]) -> str:
    if queries:
        return cut_words(f"Find out about {listed([f'“{query}”' for query in queries], 2)}")
    if titles:
        return cut_words(f"Read {titles[0]}")
    return f"Look at pages of {listed(domains) or 'the web'}"


def _sentences(
    chunk: Sequence[VisitEvidence],
    titles: Sequence[str],
    queries: Sequence[str],
    domains: Sequence[str],
) -> Iterator[str]:
    minutes = sum(visit.dwell_ms for visit in chunk) // _MINUTE_MS
    spent = f" for {counted(minutes, 'minute')}" if minutes else ""
    yield f"Looked at {counted(len(chunk), 'page')} on {listed(domains) or 'the web'}{spent}"
    if queries:
        yield f"Searched for {listed([f'“{query}”' for query in queries], 5)}"
    if titles:
        yield f"Read {listed([f'“{cut_words(title, 120)}”' for title in titles], 5)}"


# ------------------------------------------------------------------------------
# A run of CI becomes a node: what was checked, what failed, and where.

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
        summary=joined(_workflow_sentences(run, failed, remarks, problems)),
        intent=_workflow_intent(run),
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


def _workflow_intent(run: RunDone) -> str:
    change = cut_words(one_line(plain(run.title, 400)), 160)
    what = f"“{change}”" if change else f"commit {run.sha[:_SHA]}"
    where = f" on {run.branch}" if run.branch else ""
    return f"Check {what} of {run.repo}{where}" + (f" with {run.name}" if run.name else "")


def _workflow_sentences(
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


# ------------------------------------------------------------------------------
# A revision of a memory becomes a node: what the note says, in its own words.

_SENTENCES: Final = 4
_DECISIONS: Final = 6
# Claude puts name, description and type first, between lines that say nothing.
_FRONT_MATTER: Final = re.compile(r"\A---[ \t]*\n(.*?)\n---[ \t]*(?:\n|\Z)", re.DOTALL)


def note_project(note: MemoryNote) -> str:
    """Name the project that a note belongs to; one of no repository tells none."""
    return "" if note.repository.startswith("local") else project_of(note.repository)


def describe_note(note: MemoryNote) -> str:
    """Write a note down as text: all that a node of it may take names from."""
    lines = [f"Note {note.logical_path}", f"Repository: {note.repository}"]
    lines += [f"Kind: {note.category}"] if note.category else []
    lines += [text for _, text in note.sections]
    return cut_middle(plain("\n".join(lines), _SOURCE_LIMIT * 2), _SOURCE_LIMIT)


def note_draft(note: MemoryNote, source: str) -> NodeDraft:
    """Derive a node from a note."""
    text = "\n".join(text for _, text in note.sections)
    text = readable(_FRONT_MATTER.sub(r"\1\n", text), _SOURCE_LIMIT)
    headings = ids.unique((path.rpartition(" > ")[2] for path, _ in note.sections if path), 12)
    decided = telling_sentences([text])
    project = note_project(note)
    draft = NodeDraft(
        summary=joined(_said(note, text, headings)),
        intent=_memories_intent(note, headings),
        entities=Mentions(
            projects=ids.unique(filter(None, [project])),
            files=ids.distinct_files(ids.files_in(text)),
            services=ids.unique(ids.services_in(text)),
            errors=ids.unique(ids.error_names_in(text)),
            env_vars=ids.unique(ids.variables_in(text)),
            domains=ids.unique(ids.domains_in(text)),
        ),
        tags=ids.unique(["memory", note.category, project, *themes_of(text)[:3]]),
        key_decisions=tuple(decided[:_DECISIONS]),
        design_decisions=weighed_in(decided),
        embed_text=dense(
            *([project, note.logical_path], headings, ids.dense_words(text), text.split()),
        ),
    )
    return verbatim(draft, source)


def _memories_intent(note: MemoryNote, headings: tuple[str, ...]) -> str:
    about = listed(headings, 3) or note.logical_path
    whose = {"user": "who the user is", "feedback": "what was asked for", "index": "what there is"}
    return cut_words(f"Remember {whose.get(note.category, 'what was found out')}: {about}")


def _said(note: MemoryNote, text: str, headings: tuple[str, ...]) -> Iterator[str]:
    yield f"Note {note.logical_path}" + (f": {listed(headings, 6)}" if headings else "")
    body = "\n".join(line for line in text.split("\n") if not line.startswith("#"))
    for sentence in islice(sentences(body), _SENTENCES):
        yield cut_words(sentence)
