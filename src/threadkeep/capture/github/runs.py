"""What is asked of the server about a repository: its runs, and what the jobs of a run said."""

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import msgspec

from threadkeep.base.json import encode
from threadkeep.base.text import redact_texts
from threadkeep.capture.github.client import MOST_PAGES, Api, GithubReply
from threadkeep.capture.github.http import GithubBadAnswer, GithubRateLimit, repo_path
from threadkeep.errors import NotFound, ThreadkeepError
from threadkeep.knowledge.lessons import LessonKey
from threadkeep.knowledge.workflow_runs import (
    BAD,
    COMPLETED,
    Annotation,
    Details,
    Excerpt,
    Job,
    WorkflowRun,
)

# ------------------------------------------------------------------------------
# What the API tells, as records: odd or missing fields are tolerated, every text is masked.
#
# Nothing here trusts the server: numbers fit their columns, texts have bounds and are valid UTF-8.

Clean = Callable[[str], str]

# The end of a log is cut out of more than is kept: a secret that begins before it is masked whole.
MARGIN: Final = 16_384
_LONGEST: Final = 2048  # names, branches, addresses, paths
_LONGEST_MESSAGE: Final = 65_536  # what the API itself allows
_LONGEST_RAW: Final = 262_144
_BULK: Final = frozenset({"repository", "head_repository"})  # three quarters of a run, always equal
_LARGEST: Final = (1 << 63) - 1
_SHA: Final = re.compile(r"[0-9a-fA-F]{7,64}")
_CHECK_RUN: Final = re.compile(r"/check-runs/([0-9]{1,19})$")

_CARGO: Final = re.compile(r"error\[(E\d{4})\]", re.ASCII)
_RUFF: Final = re.compile(r"\b([A-Z]{1,4}\d{3,4})\b", re.ASCII)
_MYPY: Final = re.compile(r"\[([a-zA-Z][a-zA-Z0-9-]{7,})\]\s*$")


class Blame(NamedTuple):
    """Which tool complained, by which rule."""

    tool: str | None = None
    rule_id: str | None = None


# ---------------------------------------------------------------------- lists


def rows_of(value: Any, name: str) -> list[Any]:
    """Return the list of an answer; an answer without it is none."""
    rows = value.get(name) if isinstance(value, dict) else None
    if not isinstance(rows, list):
        msg = f"the server answered without {name!r}"
        raise GithubBadAnswer(msg, hint="check [github] api_url")
    return rows


def read_runs(rows: list[Any], repo: str, clean: Clean) -> list[WorkflowRun]:
    """Read the runs of a list, those that have a number and a commit."""
    return [run for row in rows if (run := read_run(row, repo, clean)) is not None]


def read_run(value: Any, repo: str, clean: Clean) -> WorkflowRun | None:
    """Read one run; None if it has no number or no commit."""
    run_id = _number(value, "id")
    sha = _get(value, "head_sha")
    if run_id is None or not isinstance(sha, str) or not _SHA.fullmatch(sha):
        return None
    status = _text(value, "status", clean) or ""
    return WorkflowRun(
        id=run_id,
        repo=repo,
        head_sha=sha,
        head_branch=_text(value, "head_branch", clean),
        event=_text(value, "event", clean) or "",
        status=status,
        conclusion=_text(value, "conclusion", clean),
        started_at=_time(value, "run_started_at") or _time(value, "created_at"),
        completed_at=_time(value, "updated_at") if status == COMPLETED else None,
        html_url=_text(value, "html_url", clean) or "",
        actor=_text(_get(value, "actor"), "login", clean),
        raw_json=_raw(value, clean),
        attempt=max(_number(value, "run_attempt") or 1, 1),
    )


def read_jobs(rows: list[Any], clean: Clean) -> list[tuple[Job, int]]:
    """Read the jobs of a list, each with the number of its check run."""
    return [found for row in rows if (found := _job(row, clean)) is not None]


def _job(value: Any, clean: Clean) -> tuple[Job, int] | None:
    job_id = _number(value, "id")
    if job_id is None:
        return None
    job = Job(
        id=job_id,
        name=_text(value, "name", clean) or "",
        status=_text(value, "status", clean) or "",
        conclusion=_text(value, "conclusion", clean),
        started_at=_time(value, "started_at"),
        completed_at=_time(value, "completed_at"),
        runner_name=_text(value, "runner_name", clean),
        raw_json=_raw(value, clean),
        attempt=_number(value, "run_attempt"),
    )
    return job, check_run(_get(value, "check_run_url"), job_id)


def check_run(url: Any, job_id: int) -> int:
    """Return the number of a job's check run; on GitHub it is the job's own.

    The address itself is not used: the token goes to no place that an answer names.
    """
    found = _CHECK_RUN.search(url) if isinstance(url, str) else None
    return int(found[1]) if found else job_id


def read_annotations(rows: Any, job_name: str, clean: Clean) -> list[Annotation]:
    """Read what a job said; `rows` is a list, or the answer was none."""
    if not isinstance(rows, list):
        raise GithubBadAnswer(
            "the server answered without annotations", hint="check [github] api_url"
        )
    return [found for row in rows if (found := _annotation(row, job_name, clean)) is not None]


def _annotation(value: Any, job_name: str, clean: Clean) -> Annotation | None:
    said = _get(value, "message")
    if not isinstance(said, str):
        return None
    raw = _sound(said[: 2 * _LONGEST_MESSAGE])
    message = clean(raw)[:_LONGEST_MESSAGE]
    blame = find_blame(job_name, raw)
    if blame.rule_id is not None and blame.rule_id not in message:  # it was a secret
        blame = Blame()
    return Annotation(
        level=_text(value, "annotation_level", clean) or "",
        message=message,
        path=_text(value, "path", clean),
        start_line=_number(value, "start_line"),
        tool=blame.tool,
        rule_id=blame.rule_id,
    )


# ---------------------------------------------------------------------- meaning


def find_blame(job_name: str, message: str) -> Blame:
    """Tell which tool complained, by the message and the name of the job; the first rule wins."""
    job = job_name.lower()
    if found := _CARGO.search(message):
        return Blame("cargo", found[1])
    if _has(job, "ruff", "lint") and (found := _RUFF.search(message)):
        return Blame("ruff", found[1])
    if _has(job, "type", "mypy", "pyright") and (found := _MYPY.search(message)):
        return Blame("pyright" if "pyright" in job else "mypy", found[1])
    if "test" in job and _has(message, "FAILED ", "AssertionError"):  # pytest is a test, too
        return Blame("pytest")
    return Blame()


def path_prefix(path: str | None, segments: int) -> str:
    """Return the first components of a path with a slash behind them, a short path as it is."""
    if not path:
        return ""
    parts = PurePosixPath(path).parts
    if len(parts) < segments:
        return path
    return str(PurePosixPath(*parts[:segments])) + "/"


def lesson_key(repo: str, annotation: Annotation, segments: int) -> LessonKey:
    """Say which failures an annotation counts with."""
    place = path_prefix(annotation.path, segments)
    return LessonKey(repo, annotation.tool or "", annotation.rule_id or "", place)


def cut_excerpt(data: bytes, total: int, keep: int, clean: Clean) -> Excerpt:
    """Mask the end of a log, of which `total` bytes were read, and cut it to `keep` bytes.

    `data` should begin up to `MARGIN` bytes before what is kept.
    """
    if total > len(data):  # it begins inside a line, perhaps inside a secret
        line = data.find(b"\n", 0, MARGIN)
        data = data[line + 1 if line >= 0 else min(MARGIN, len(data)) :]
    text = clean(_decoded(data)).encode("utf-8", "replace")
    return Excerpt(_decoded(text[-keep:]), truncated=total > keep)


# ---------------------------------------------------------------------- fields


def _has(text: str, *words: str) -> bool:
    return any(word in text for word in words)


def _decoded(data: bytes) -> str:
    """Read UTF-8 that may begin inside a character."""
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:  # noqa: PLR2004
        start += 1
    return data[start:].decode("utf-8", "replace")


def _get(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _number(value: Any, name: str) -> int | None:
    number = _get(value, name)
    whole = isinstance(number, int) and not isinstance(number, bool)
    return number if whole and 0 <= number <= _LARGEST else None


def _text(value: Any, name: str, clean: Clean) -> str | None:
    text = _get(value, name)
    return clean(_sound(text))[:_LONGEST] if isinstance(text, str) else None


def _sound(text: str) -> str:
    """Put a mark where half a character stands, which no column can hold."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _time(value: Any, name: str) -> int | None:
    text = _get(value, name)
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
        if moment is None or moment.tzinfo is None:
            return None
        return int(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def _raw(value: dict[str, Any], clean: Clean) -> str:
    """Write a thing down as it came, without what is the same for all; a huge one in short."""
    whole = {name: item for name, item in value.items() if name not in _BULK}
    text = encode(redact_texts(lambda item: clean(_sound(item)), whole))
    if len(text) <= _LONGEST_RAW:
        return text
    short = {name: item for name, item in whole.items() if _is_short(item)}
    return encode(redact_texts(lambda item: clean(_sound(item)), short))


def _is_short(item: Any) -> bool:
    return isinstance(item, int | float | bool | None) or (
        isinstance(item, str) and len(item) <= _LONGEST
    )


_SKIPPED: Final = "skipped"


_WHOLE_SHA: Final = 40


class Look(NamedTuple):
    """One list of runs: the newest of a repository, or all of a commit."""

    repo: str
    sha: str | None = None

    @property
    def is_of_commit(self) -> bool:
        """Whether the server can list the runs of the commit: it wants the whole id."""
        return self.sha is not None and len(self.sha) >= _WHOLE_SHA

    @property
    def path(self) -> str:
        """Where the list is."""
        runs = f"{repo_path(self.repo)}/actions/runs"
        if not self.is_of_commit:
            return f"{runs}?per_page=20"
        return f"{runs}?head_sha={quote(self.sha or '', safe='')}&per_page=100"


class FetchResult(NamedTuple):
    """The details of a run, and why some are not there."""

    details: Details
    troubles: tuple[ThreadkeepError, ...] = ()


def gather_pages(
    api: Api,
    look: Look,
    first: GithubReply,
    clean: Clean,
    is_far_enough: Callable[[list[WorkflowRun]], bool],
) -> list[list[WorkflowRun]]:
    """Read the runs of a list, page by page until it is far enough."""
    pages: list[list[WorkflowRun]] = []
    reply = first
    while True:
        pages.append(read_runs(rows_of(reply.value, "workflow_runs"), look.repo, clean))
        if reply.next_path is None or len(pages) == MOST_PAGES or is_far_enough(pages[-1]):
            return pages
        reply = api.get(reply.next_path)


def run_path(repo: str, run_id: int) -> str:
    """Say where one run is."""
    return f"{repo_path(repo)}/actions/runs/{run_id}"


def fetch_details(api: Api, run: WorkflowRun, keep: int, clean: Clean) -> FetchResult:
    """Ask for the jobs of a run, with annotations and the ends of the logs of those that failed.

    What was deleted is not there. What cannot be had now is counted as missing.
    """
    path = f"{run_path(run.repo, run.id)}/jobs?per_page=100"
    troubles: list[ThreadkeepError] = []
    try:
        pages = [rows_of(page, "jobs") for page in api.pages(path)]
    except NotFound:
        return FetchResult(Details())
    except GithubRateLimit:
        raise
    except ThreadkeepError as error:
        return FetchResult(Details(missing=1), (error,))
    jobs = [
        _said(api, run, job, check, keep, clean, troubles)
        for page in pages
        for job, check in read_jobs(page, clean)
    ]
    return FetchResult(Details(tuple(jobs), missing=len(troubles)), tuple(troubles))


def _said(
    api: Api,
    run: WorkflowRun,
    job: Job,
    check: int,
    keep: int,
    clean: Clean,
    troubles: list[ThreadkeepError],
) -> Job:
    """Return a job with what it said; adds what went wrong to `troubles`."""
    annotations: tuple[Annotation, ...] | None = None
    excerpt: Excerpt | None = None
    for note in _parts(job):
        try:
            if note == "annotations":
                annotations = tuple(_annotations(api, run, job, check, clean))
            else:
                excerpt = _excerpt(api, run, job, keep, clean)
        except NotFound:
            pass  # the job or its log was deleted
        except GithubRateLimit:
            raise
        except ThreadkeepError as error:
            troubles.append(error)
    return msgspec.structs.replace(job, annotations=annotations, excerpt=excerpt)


def _parts(job: Job) -> Iterator[str]:
    if job.conclusion != _SKIPPED:
        yield "annotations"
    if job.conclusion in BAD:
        yield "log"


def _annotations(
    api: Api, run: WorkflowRun, job: Job, check: int, clean: Clean
) -> Iterator[Annotation]:
    path = f"{repo_path(run.repo)}/check-runs/{check}/annotations?per_page=100"
    for page in api.pages(path):
        yield from read_annotations(page, job.name, clean)


def _excerpt(api: Api, run: WorkflowRun, job: Job, keep: int, clean: Clean) -> Excerpt:
    path = f"{repo_path(run.repo)}/actions/jobs/{job.id}/logs"
    tail = api.tail(path, keep + MARGIN)
    return cut_excerpt(tail.data, tail.total, keep, clean)
