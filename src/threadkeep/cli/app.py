"""The root of the command line, and how it begins and ends."""

import logging
import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper

import click

from threadkeep import __version__
from threadkeep.cli.backups import backup, restore
from threadkeep.cli.chat import chat
from threadkeep.cli.command import INTERRUPTED, example_text
from threadkeep.cli.completion import completion
from threadkeep.cli.demo import demo
from threadkeep.cli.history import COMMANDS
from threadkeep.cli.importing import import_
from threadkeep.cli.mail import mail
from threadkeep.cli.observed import COMMANDS as OBSERVED
from threadkeep.cli.output import fail
from threadkeep.cli.place import paths, status
from threadkeep.cli.state import state

PROGRAM = "threadkeep"


@click.group(
    invoke_without_command=True,
    epilog=example_text(
        "threadkeep capture",
        'threadkeep search "slow query" --since 30d',
        "threadkeep show last",
        "threadkeep chat ls --agent build",
        'threadkeep state search "error: timeout"',
        "threadkeep mail demo",
    ),
)
@click.version_option(__version__, prog_name="threadkeep", message="%(prog)s %(version)s")
@click.option("--home", metavar="DIR", help="Keep everything in this folder.")
@click.pass_context
def cli(ctx: click.Context, home: str | None) -> None:
    """Record what agents say and do, capture what others did, lose nothing, find it again."""
    del home  # every command asks the context for it
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


for _command in (
    *COMMANDS,
    *OBSERVED,
    chat,
    state,
    mail,
    import_,
    demo,
    paths,
    status,
    backup,
    restore,
):
    cli.add_command(_command)
cli.add_command(completion)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and give its exit code.

    0 ok, 1 problems found or failure, 2 usage, 3 not found, 4 busy, 5 schema, 130 interrupted.
    """
    _prepare_streams()
    wanted = os.environ.get("THREADKEEP_LOG", "warning").upper()
    level = logging.getLevelNamesMapping().get(wanted, logging.WARNING)
    logging.basicConfig(level=level, format="%(levelname)s: %(message)s")
    try:
        code = cli.main(arguments, prog_name=PROGRAM, standalone_mode=False)
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx is not None else PROGRAM
        fail(error.format_message(), f"`{where} --help` shows how")
        return error.exit_code
    except click.ClickException as error:
        fail(error.format_message())
        return error.exit_code
    except click.Abort:
        return INTERRUPTED
    return code if isinstance(code, int) else 0


def _prepare_streams() -> None:
    """A terminal that cannot show a character gets its number instead of an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
