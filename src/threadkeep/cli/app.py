"""How the command line begins and ends."""

import atexit
import gc
import os
import sys
import threading
from collections.abc import Sequence
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, Final

from threadkeep.cli.signals import ending_in_time, was_asked_to_end

if TYPE_CHECKING:
    import click

PROGRAM = "threadkeep"
# Objects between two looks for those that only hold each other. Python's 700 has it look sixty
# times while modules are loaded, all of which stay: a tenth of what a short command takes.
_BETWEEN_LOOKS: Final = 50_000


def __getattr__(name: str) -> Any:
    if name != "cli":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from threadkeep.cli.root import cli

    return cli


def program() -> int:
    """Be the process that a user starts: run its words, and end without tidying up.

    Gives the exit code where something is to be waited for, or a stream cannot be written any more:
    the interpreter waits, and tells of it.
    """
    gc.set_threshold(_BETWEEN_LOOKS)
    code = main()
    others = [one for one in threading.enumerate() if one is not threading.main_thread()]
    if all(one.daemon for one in others):
        _end_now(code)
    return code


def _end_now(code: int) -> None:
    """End the process without taking apart what it has loaded, which takes 10 ms and more."""
    atexit._run_exitfuncs()  # noqa: SLF001  (what is registered there has no other door)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        return
    os._exit(code)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and give its exit code.

    0 ok, 1 problems found or failure, 2 usage, 3 not found, 4 busy, 5 schema, 130 interrupted.
    """
    _prepare_streams()
    words = sys.argv[1:] if arguments is None else list(arguments)
    with ending_in_time(to_the_last=arguments is None):
        from threadkeep.cli.command import INTERRUPTED

        code = _run(words)
        return INTERRUPTED if code and was_asked_to_end() else code


def _run(words: list[str]) -> int:
    import click

    from threadkeep.cli.command import INTERRUPTED, PROBLEMS
    from threadkeep.cli.output import fail

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
    except OSError as error:  # a help page that cannot be printed: commands tell of their own
        fail(f"input or output: {error.strerror or error}")
        return PROBLEMS
    return code if isinstance(code, int) else 0


def _told(error: "click.UsageError") -> tuple[str, str]:
    """Say what was not understood, and what was perhaps meant."""
    from threadkeep.cli.command import NotACommand

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
