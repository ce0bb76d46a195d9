"""The root of the command line: every command there is."""

import click

from threadkeep import __version__
from threadkeep.cli.backups import backup, restore
from threadkeep.cli.care import COMMANDS as CARE
from threadkeep.cli.chat import chat
from threadkeep.cli.command import example_text
from threadkeep.cli.completion import completion
from threadkeep.cli.demo import demo
from threadkeep.cli.history import COMMANDS
from threadkeep.cli.importing import import_
from threadkeep.cli.mail import mail
from threadkeep.cli.memory.commands import COMMANDS as MEMORY
from threadkeep.cli.observed.commands import COMMANDS as OBSERVED
from threadkeep.cli.place import paths, status
from threadkeep.cli.service import COMMANDS as SERVICE
from threadkeep.cli.state import state


@click.group(
    invoke_without_command=True,
    epilog=example_text(
        "threadkeep capture",
        'threadkeep recall "how did we fix the slow query"',
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
    *MEMORY,
    *CARE,
    *SERVICE,
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
