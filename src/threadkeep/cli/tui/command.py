"""The command that opens the terminal browser, and keeps capturing while it is open."""

from contextlib import ExitStack
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from threadkeep.cli.command import Call, store_command
from threadkeep.cli.history.capture import user_home_option
from threadkeep.cli.history.progress import progress_bar, without_log
from threadkeep.cli.output import is_terminal, write
from threadkeep.errors import Invalid

if TYPE_CHECKING:
    from threadkeep.cli.tui.session import TuiContext


@store_command("tui", "threadkeep tui", "threadkeep tui project:harbor is:failed")
@click.argument("said", nargs=-1, metavar="[FILTER]...")
@user_home_option
@click.option("--no-capture", is_flag=True, help="Show only what was captured before.")
def tui(call: Call, *, said: tuple[str, ...], user_home: str | None, no_capture: bool) -> None:
    """Browse captured sessions in the terminal: list, filter, read, recall, follow, resume.

    FILTER is the language of `sessions` and of the page's filter bar. Keys are those of the page;
    `?` lists them. If no service is running, new logs are captured meanwhile.
    """
    if find_spec("textual") is None:
        raise Invalid(
            "the terminal browser needs textual, which is not installed",
            hint="pip install 'threadkeep[tui]'",
        )
    if not is_terminal():
        raise Invalid(
            "the terminal browser needs a terminal", hint="`threadkeep sessions` prints the list"
        )
    from threadkeep.cli.tui.app import Tui

    with ExitStack() as stack:
        around = opened(call, stack, user_home, capture=not no_capture)
        command = Tui(around, " ".join(said)).run()
    if command:
        write(command)


def opened(
    call: Call, stack: ExitStack, user_home: str | None = None, *, capture: bool = True
) -> "TuiContext":
    """Open what the browser reads; without a service, this process captures until it is closed."""
    from threadkeep.cli.tui.session import TuiContext
    from threadkeep.home.opening import open_browse, open_memory_to_ask
    from threadkeep.service.tail import capturing, is_served

    if capture and not is_served(call.home, call.db):
        history = stack.enter_context(call.home.history(call.db, user_home=user_home))
        stack.enter_context(without_log())
        with progress_bar() as bar:
            history.capture(show=bar)
        # What stops capture shows in `threadkeep doctor`; here it would write over the screen.
        stack.enter_context(capturing(history, lambda _: None))
    browse = stack.enter_context(open_browse(call.home, call.db))
    memory = stack.enter_context(open_memory_to_ask(call.home, call.db))
    return TuiContext(call, browse, memory)
