"""Groups of commands: listed in sections, and loaded one by one when they are asked for."""

from collections.abc import Iterator, Mapping
from copy import copy
from importlib import import_module
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

_WHOLE = 1000  # characters of a summary: all of it, broken into lines where it is long


class CommandEntry(NamedTuple):
    """Where a command is: a module below this package and a name in it; and what it does."""

    place: str  # module:name; a name that is a tuple holds several commands
    summary: str


Sections = Mapping[str, Mapping[str, CommandEntry]]  # the section without a title is not shown


class Commands(click.Group):
    """A group that loads a command's module when it is asked for, and cuts no summary.

    click asks for a class of its own here: it has no other place for either.
    """

    def __init__(self, *arguments: Any, sections: Sections | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.sections: Sections = sections or {}

    def entries(self) -> dict[str, CommandEntry]:
        """Give the commands that are loaded when they are asked for, hidden ones as well."""
        return {name: one for part in self.sections.values() for name, one in part.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands that are shown, in the order of the help page."""
        lazy = [name for title, part in self.sections.items() if title for name in part]
        return [*lazy, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command, or give None where there is none of this name."""
        entry = self.entries().get(cmd_name)
        return super().get_command(ctx, cmd_name) if entry is None else load(cmd_name, entry)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is meant; for one that is not there, name those like it."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand:
            raise click.NoSuchCommand(
                args[0], possibilities=self.list_commands(ctx), ctx=ctx
            ) from None

    def rows(self, ctx: click.Context) -> dict[str, list[tuple[str, str]]]:
        """Give the names and summaries of what is shown, by section; none is loaded for that."""
        parts = {
            title: [(name, entry.summary) for name, entry in part.items()]
            for title, part in self.sections.items()
            if title
        }
        own = [(name, summary(one)) for name, one in self._own(ctx)]
        return parts | ({"Commands": own} if own else {})

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands below their sections, their summaries in one column."""
        parts = self.rows(ctx)
        width = max((len(name) for rows in parts.values() for name, _ in rows), default=0)
        for title, rows in parts.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), told) for name, told in rows])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Offer the commands that begin as typed; none is loaded for that."""
        found = [
            CompletionItem(name, help=told)
            for rows in self.rows(ctx).values()
            for name, told in rows
            if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def _own(self, ctx: click.Context) -> Iterator[tuple[str, click.Command]]:
        for name in super().list_commands(ctx):
            found = super().get_command(ctx, name)
            if found is not None and not found.hidden:
                yield name, found


def load(name: str, entry: CommandEntry) -> click.Command:
    """Import the module of a command, and give the command."""
    module, _, attribute = entry.place.partition(":")
    found: Any = getattr(import_module(f"threadkeep.cli.{module}"), attribute)
    command: click.Command = (
        next(one for one in found if one.name == name) if isinstance(found, tuple) else found
    )
    command.short_help = entry.summary or None
    return command


def alias(command: click.Command, name: str) -> click.Command:
    """Give a command under another name as well, left out of the help page."""
    same = copy(command)
    same.name, same.hidden = name, True
    return same


def summary(command: click.Command) -> str:
    """Give the first sentence of a command's help, whole."""
    return command.get_short_help_str(_WHOLE).removesuffix(".")
