"""Projects as people see them: renamed, merged, split again, and what was done in them."""

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from threadkeep.base.paths import project_name, repository_folder
from threadkeep.base.tx import Sql, Tx
from threadkeep.errors import Invalid, NotFound
from threadkeep.knowledge.lessons import Lesson, list_lessons
from threadkeep.knowledge.query import Query
from threadkeep.knowledge.search_scope import aliases_of, of_project

ProjectName = Annotated[str, Meta(min_length=1, max_length=200)]
_FILES: Final = 20
_LESSONS: Final = 10_000


class FileCount(msgspec.Struct, frozen=True):
    """A file that nodes of a project mention, and how many do."""

    entity: int
    name: str
    nodes: int


class ProjectDetail(msgspec.Struct, frozen=True):
    """A project: where it lies, which other names it has, what was touched and learned in it."""

    name: str
    other_names: tuple[str, ...]
    folders: tuple[str, ...]  # of its repositories
    files: tuple[FileCount, ...]
    lessons: tuple[Lesson, ...]


class RenamedProject(msgspec.Struct, frozen=True):
    """What a project is called now, and how many sessions it has under that name."""

    name: str
    sessions: int


def read_project(tx: Tx, name: ProjectName) -> ProjectDetail:
    """Return a project with its folders, the files touched most, and its lessons."""
    rows = tx.all("folders_of_project", {"project": name})
    if not rows:
        raise NotFound(f"there is no project {name!r}", hint="`/projects` lists them")
    others = aliases_of(tx, [name])
    known = {name, *others}
    lessons = [one for one in list_lessons(tx, limit=_LESSONS) if _last(one.repo) in known]
    folders = tuple(dict.fromkeys(repository_folder(cwd) for cwd, _ in rows))
    return ProjectDetail(name, tuple(others), folders, tuple(_files(tx, name)), tuple(lessons))


def _last(repo: str) -> str:
    return repo.rstrip("/").rpartition("/")[2]


def _files(tx: Tx, name: str) -> list[FileCount]:
    if "tk_things" not in tx.tables():
        return []
    params: dict[str, Any] = {"limit": _FILES}
    within = of_project(tx, Query(project=(name,)), params, "t.cwd", "t.repo", exact=True)
    sql = (
        "SELECT e.id, e.name, count(DISTINCT t.row) FROM tk_things AS t"  # noqa: S608
        " JOIN knowledge_node_entities AS k ON k.knowledge_node_id = t.row"
        " JOIN entities AS e ON e.id = k.entity_id"
        f" WHERE t.kind = 'node' AND e.type = 'file' AND {within}"
        " GROUP BY e.id, e.name ORDER BY 3 DESC, 2 LIMIT :limit"
    )
    return [FileCount(*row) for row in tx.all(Sql(sql), params)]


def rename_project(tx: Tx, name: ProjectName, to: ProjectName) -> RenamedProject:
    """Rename a project; the name of another project merges the two."""
    wanted = to.strip()
    if not wanted or "/" in wanted:
        raise Invalid(f"{to!r} can't be a project's name", hint="give a name without slashes")
    if not tx.all("folders_of_project", {"project": name}):
        raise NotFound(f"there is no project {name!r}", hint="`/projects` lists them")
    if wanted != name:
        tx.run("pass_project_names_on", {"name": name, "shown": wanted})
        tx.run("put_project_name", {"name": name, "shown": wanted})
        tx.run("drop_own_project_names")
        tx.run("rename_sessions_of_project", {"name": name, "shown": wanted})
    return _renamed(tx, wanted)


def split_project(tx: Tx, name: ProjectName) -> RenamedProject:
    """Give all folders of a project the names back that they had before it was renamed."""
    rows = tx.all("folders_of_project", {"project": name})
    if not rows:
        raise NotFound(f"there is no project {name!r}", hint="`/projects` lists them")
    for other in aliases_of(tx, [name]):
        tx.run("put_project_name", {"name": other, "shown": other})
    tx.run("drop_own_project_names")
    for cwd, _ in rows:
        tx.run("move_folder_to_project", {"cwd": cwd, "project": project_name(cwd)})
    return _renamed(tx, name)


def _renamed(tx: Tx, name: str) -> RenamedProject:
    rows = tx.all("folders_of_project", {"project": name})
    return RenamedProject(name, sum(count for _, count in rows))
