"""`threadkeep projects`: the projects of all agents, and what they are called."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import click

from threadkeep.cli.command import Call, alias, group, store_command
from threadkeep.cli.options import complete_project
from threadkeep.cli.output import counted, document, note, paging, table
from threadkeep.cli.words import when

if TYPE_CHECKING:
    from threadkeep.home.captured import CapturedWork


@group(
    "projects",
    "threadkeep projects",
    "threadkeep projects rename web-old web",
    "threadkeep projects split web",
    bare="list",
)
def projects() -> None:
    """List projects; rename, merge or split them."""


@store_command(
    "list", "threadkeep projects list", "threadkeep projects --json", lists=True, pages=True
)
def list_(call: Call) -> None:
    """List the projects that sessions were about, the last used first."""
    from threadkeep.home.opening import open_browse

    with open_browse(call.home, call.db) as browse:
        found = browse.projects()
    if call.as_json:
        call.answer("projects", projects=found)
        return
    rows = (
        (one.name, f"{one.sessions:,}", when(one.last_at), ", ".join(one.agents), one.cwd)
        for one in found
    )
    with paging(wanted=call.pager):
        table(("project", "sessions", "last used", "agents", "folder"), rows, wide="folder")
    if not found:
        note("No projects yet; `threadkeep capture` brings in what agents did")


@store_command("rename", "threadkeep projects rename web-old web")
@click.argument("project", shell_complete=complete_project)
@click.argument("to", metavar="NAME", shell_complete=complete_project)
def rename(call: Call, *, project: str, to: str) -> None:
    """Rename PROJECT; the NAME of another project merges the two. `split` undoes it."""
    with _changing(call) as work:
        renamed = work.rename_project(project, to)
    if call.as_json:
        document(project=renamed)
    else:
        note(f"{renamed.name} has {counted(renamed.sessions, 'session')}")


@store_command("split", "threadkeep projects split web")
@click.argument("project", shell_complete=complete_project)
def split(call: Call, *, project: str) -> None:
    """Give the folders of PROJECT back the names they had before `rename`."""
    with _changing(call) as work:
        renamed = work.split_project(project)
    if call.as_json:
        document(project=renamed)
    else:
        note(f"{project} is split; `threadkeep projects` lists what it was made of")


@contextmanager
def _changing(call: Call) -> Iterator["CapturedWork"]:
    from threadkeep.home.captured import CapturedWork
    from threadkeep.home.stores import Stores

    with closing(Stores(call.home, call.db)) as stores:
        yield CapturedWork(stores)


for _command in (list_, alias(list_, "ls"), rename, alias(rename, "merge"), split):
    projects.add_command(_command)
