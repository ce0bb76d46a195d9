"""The project pages: all projects, and one with its sessions, spend, files and lessons."""

from typing import Final

import msgspec

from threadkeep.knowledge.projects import ProjectDetail
from threadkeep.knowledge.query import Query, format_query
from threadkeep.knowledge.results import NodePage, ProjectRow, SessionPage, UsageReport
from threadkeep.web.page import SitePage, SiteRequest

_SESSIONS: Final = 20
_NODES: Final = 8


class ProjectsPage(msgspec.Struct, frozen=True):
    """All projects, the latest first."""

    projects: tuple[ProjectRow, ...]


class ProjectPage(msgspec.Struct, frozen=True):
    """One project."""

    title: str
    project: ProjectDetail
    filter: str  # the filter that means its sessions
    sessions: SessionPage
    count: int | None
    report: UsageReport
    nodes: NodePage
    others: tuple[str, ...]  # the other projects, to merge it with


def list_projects(visit: SiteRequest) -> ProjectsPage:
    """List the projects."""
    return ProjectsPage(tuple(visit.stores.browse().projects()))


def show_project(visit: SiteRequest) -> ProjectPage:
    """Show a project."""
    browse = visit.stores.browse()
    found = browse.store.projects.project(visit.path["project"])
    query = Query(project=(found.name,))
    return ProjectPage(
        title=found.name,
        project=found,
        filter=format_query(query, visit.zone),
        sessions=browse.sessions(query, limit=_SESSIONS),
        count=browse.count(query),
        report=browse.usage(query, zone=visit.zone),
        nodes=browse.nodes(query, limit=_NODES),
        others=tuple(one.name for one in browse.projects() if one.name != found.name),
    )


PAGES: Final = (
    SitePage("/projects", "projects.html", list_projects, "Projects", kept=True),
    SitePage("/projects/{project}", "project.html", show_project, "Project", kept=True),
)
