"""`threadkeep completion`: teach a shell our commands, sessions, projects and agents."""

import os
from importlib import resources
from pathlib import Path

import click

from threadkeep.cli.command import Call, command
from threadkeep.cli.options import OneOf
from threadkeep.cli.output import document, note

_PLACES = {  # where a shell looks by itself, below a folder of the user's
    "bash": ("XDG_DATA_HOME", ".local/share", "bash-completion/completions/threadkeep"),
    "zsh": ("XDG_DATA_HOME", ".local/share", "zsh/site-functions/_threadkeep"),
    "fish": ("XDG_CONFIG_HOME", ".config", "fish/completions/threadkeep.fish"),
}
_THEN = {
    "bash": "new shells pick it up if the package bash-completion is installed",
    "zsh": "put `fpath+=({folder})` before `compinit` in ~/.zshrc, then start a new shell",
    "fish": "new shells pick it up",
}


@command(
    "completion",
    'eval "$(threadkeep completion zsh)"',
    "threadkeep completion bash --install",
)
@click.argument("shell", type=OneOf(tuple(_PLACES)))
@click.option("--install", is_flag=True, help="Install it where the shell finds it.")
def completion(call: Call, *, shell: str, install: bool) -> None:
    """Print the completion script of a shell, or install it.

    Sessions complete by id and by title, with descriptions in zsh and fish; projects, agents and
    stores complete as well.
    """
    script = script_of(shell)
    place = place_of(shell) if install else None
    if place is not None:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(script, "utf-8")
    if call.as_json:
        document(shell=shell, script=script, installed=place)
    elif place is None:
        click.echo(script, nl=False)
    else:
        note(f"wrote {place}")
        note(_THEN[shell].format(folder=place.parent))


def script_of(shell: str) -> str:
    """Return the script that teaches a shell."""
    folder = resources.files("threadkeep").joinpath("cli", "scripts")
    return folder.joinpath(f"completion.{shell}").read_text("utf-8")


def place_of(shell: str) -> Path:
    """Return the file in which a shell looks for the completion of one command."""
    variable, usual, rest = _PLACES[shell]
    base = os.environ.get(variable)
    home = Path(os.environ.get("HOME") or Path.home())
    return (Path(base) if base else home / usual) / rest
