"""`threadkeep resume`: go on with a captured session in another program."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from threadkeep.cli.command import Call, store_command
from threadkeep.cli.history.opening import find, looking, session_argument
from threadkeep.cli.output import counted, document, note, one_line, write
from threadkeep.errors import NotFound

if TYPE_CHECKING:
    from threadkeep.transfer.hand_off import HandOff

PROGRAMS: Final = ("claude-code", "codex", "opencode")


@store_command(
    "resume",
    "threadkeep resume last --in codex",
    "threadkeep resume 5f0c2a7e --in claude-code --cwd ~/code/harbor --dry-run",
)
@session_argument
@click.option(
    "--in", "program", type=click.Choice(PROGRAMS), required=True, help="Who goes on with it."
)
@click.option("--cwd", metavar="DIR", help="The folder to go on in, if not the session's own.")
@click.option("--dry-run", is_flag=True, help="Say what would be written, write nothing.")
def resume(
    call: Call, *, session: str, harness: str | None, program: str, cwd: str | None, dry_run: bool
) -> None:
    """Write a captured session for another program, and print the command that goes on with it.

    SESSION is an id or the beginning of one, `program:id`, or `last`. It becomes a new session
    there, whose title says where it comes from; nothing that is there is changed.
    """
    from threadkeep.home.hand_off import handed_off

    if cwd is not None and not Path(cwd).is_dir():
        raise NotFound(f"there is no folder {cwd}", hint="name one that is there with --cwd")
    with looking(call) as history:
        found = find(history, session, harness)
        if cwd is None and not Path(found.cwd or "/nowhere").is_dir():
            note(f"{one_line(found.cwd) or 'its folder'} is not here: going on in this folder")
            cwd = str(Path.cwd())
        made = handed_off(call.home, history, found, program, cwd, dry_run=dry_run)
    _tell(call, made, dry_run=dry_run)


def _tell(call: Call, made: "HandOff", *, dry_run: bool) -> None:
    if call.as_json:
        names = ("program", "session_id", "path", "command", "title", "messages")
        document(resume={name: getattr(made, name) for name in names}, dry_run=dry_run)
        return
    did = "would write" if dry_run else "wrote"
    note(f"{did} {counted(made.messages, 'message')} into {made.path}")
    write(made.command)
