"""What is asked of the server about a repository: its runs, and what the jobs of a run said."""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple
from urllib.parse import quote

import msgspec

from threadkeep.errors import NotFound, ThreadkeepError
from threadkeep.github.api import MOST_PAGES, Api, GithubReply
from threadkeep.github.parsing import (
    MARGIN,
    Clean,
    cut_excerpt,
    read_annotations,
    read_jobs,
    read_runs,
    rows_of,
)
from threadkeep.github.trouble import GithubRateLimit
from threadkeep.github.urls import repo_path
from threadkeep.knowledge.workflows import BAD, Annotation, Details, Excerpt, Job, WorkflowRun

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
    """Give a job with what it said; adds what went wrong to `troubles`."""
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
