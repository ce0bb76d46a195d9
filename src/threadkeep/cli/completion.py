"""`threadkeep completion`: the script that teaches a shell our commands and session ids."""

import click
from click.shell_completion import get_completion_class

from threadkeep.cli.command import Call, command
from threadkeep.cli.output import document

_SHELLS = ("bash", "zsh", "fish")


@command("completion", 'eval "$(threadkeep completion zsh)"')
@click.argument("shell", type=click.Choice(_SHELLS))
def completion(call: Call, *, shell: str) -> None:
    """Print the completion script of a shell."""
    found = get_completion_class(shell)
    assert found is not None  # noqa: S101  (click brings these three)
    root = click.get_current_context().find_root()
    script = found(root.command, {}, "threadkeep", "_THREADKEEP_COMPLETE").source()
    if call.as_json:
        document(shell=shell, script=script)
    else:
        click.echo(script)
