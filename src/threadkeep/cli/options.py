"""Options that mean the same wherever they stand: one name, one short form, one completion."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import click

from threadkeep.cli.complete import (
    complete_file,
    complete_folder,
    complete_harness,
    complete_project,
)

F = TypeVar("F", bound=Callable[..., Any])


class Option(Protocol):
    """What adds an option to a command's function, whatever its own type."""

    def __call__(self, function: F, /) -> F:
        """Add it."""


SINCE = "Not before this date, or younger than: 12h, 7d."
UNTIL = "Up to this date, or older than: 12h, 7d."


def harness_option(help: str = "Only of this program, such as codex.") -> Option:  # noqa: A002
    """Add the option that names an agent's program."""
    return click.option(
        "--harness", "--agent", metavar="NAME", shell_complete=complete_harness, help=help
    )


def project_option(help: str = "Only of this folder, or of its last name.") -> Option:  # noqa: A002
    """Add the option that names a project."""
    return click.option("--project", metavar="P", shell_complete=complete_project, help=help)


def since_option(help: str = SINCE) -> Option:  # noqa: A002
    """Add the option that says when it begins."""
    return click.option("--since", metavar="TIME", help=help)


def until_option(help: str = UNTIL) -> Option:  # noqa: A002
    """Add the option that says when it ends."""
    return click.option("--until", metavar="TIME", help=help)


def limit_option(default: int, help: str = "How many.") -> Option:  # noqa: A002
    """Add the option that says how many are shown."""
    return click.option("-n", "--limit", default=default, show_default=True, help=help)


def db_option(help: str = "Use this file.") -> Option:  # noqa: A002
    """Add the option that names the file of a store."""
    return click.option("--db", metavar="PATH", shell_complete=complete_file, help=help)


def folder_option(name: str, help: str) -> Option:  # noqa: A002
    """Add an option that names a folder."""
    return click.option(name, metavar="DIR", shell_complete=complete_folder, help=help)
