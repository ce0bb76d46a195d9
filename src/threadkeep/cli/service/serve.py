"""`threadkeep serve`: one small process that keeps everything current."""

from pathlib import Path

import click

from threadkeep import __version__
from threadkeep.cli.command import Call, store_command
from threadkeep.cli.ending import ended_by_signals
from threadkeep.cli.history.capture import user_home_option
from threadkeep.cli.output import json_line, note

DEFAULT = "(default)"

hippo_option = click.option(
    "--hippo-dir",
    metavar="[DIR]",
    is_flag=False,
    flag_value=DEFAULT,
    help="Also listen where Hippo's own hook and extension look for it, ~/.local/share/hippo.",
)


@store_command("serve", "threadkeep serve", "threadkeep serve --hippo-dir")
@user_home_option
@hippo_option
@click.option("--no-socket", is_flag=True, help="Do not listen for Hippo's programs.")
def serve(call: Call, *, user_home: str | None, hippo_dir: str | None, no_socket: bool) -> None:
    """Capture, collect, listen, learn and look after the stores, until it is ended.

    One process does it all, and one for each store: a second one says who is there. A part of it
    that fails is named, and started again. `threadkeep service install` starts it at each log-in.
    With --json every line is a document.
    """
    from threadkeep.home.serving import serve as serve_home

    def tell(text: str) -> None:
        if call.as_json:
            json_line({"told": text})
        else:
            note(text)

    with ended_by_signals() as stop:
        serve_home(
            call.home,
            stop,
            tell,
            version=__version__,
            path=call.db,
            user_home=user_home,
            hippo_dir=hippo_place(call, hippo_dir),
            socket=not no_socket,
        )
        tell("ended")


def hippo_place(call: Call, given: str | None) -> Path | None:
    """Read the folder of Hippo's data; the option alone means the usual one."""
    from threadkeep.home.serving import hippo_folder

    if given is None:
        return None
    return hippo_folder(call.home.environ) if given == DEFAULT else Path(given).expanduser()
