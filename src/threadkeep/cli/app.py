"""How the command line begins and ends."""

import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Any

import click

from threadkeep.cli.command import INTERRUPTED, NotACommand
from threadkeep.cli.output import fail
from threadkeep.cli.signals import ending_in_time, was_asked_to_end

PROGRAM = "threadkeep"


def __getattr__(name: str) -> Any:
    if name != "cli":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from threadkeep.cli.root import cli

    return cli


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and give its exit code.

    0 ok, 1 problems found or failure, 2 usage, 3 not found, 4 busy, 5 schema, 130 interrupted.
    """
    _prepare_streams()
    words = sys.argv[1:] if arguments is None else list(arguments)
    with ending_in_time(to_the_last=arguments is None):
        code = _run(words)
        return INTERRUPTED if code and was_asked_to_end() else code


def _run(words: list[str]) -> int:
    try:
        from threadkeep.cli.root import cli

        code = cli.main(words, prog_name=PROGRAM, standalone_mode=False)
    except click.UsageError as error:
        fail(*_told(error))
        return error.exit_code
    except click.ClickException as error:
        fail(error.format_message())
        return error.exit_code
    except click.Abort:
        return INTERRUPTED
    return code if isinstance(code, int) else 0


def _told(error: click.UsageError) -> tuple[str, str]:
    """Say what was not understood, and what was perhaps meant."""
    where = error.ctx.command_path if error.ctx is not None else PROGRAM
    shown = f"`{where} --help` shows how"
    if isinstance(error, NotACommand):
        return error.message, error.hint
    near = getattr(error, "possibilities", None)
    if not near:
        return error.format_message(), shown
    meant = " or ".join(f"`{name}`" for name in near)
    return error.message, f"did you mean {meant}? {shown}"


def _prepare_streams() -> None:
    """A terminal that cannot show a character gets its number instead of an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
