"""`threadkeep serve`: one small process that keeps everything current."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from threadkeep import __version__
from threadkeep.cli.command import Call, store_command
from threadkeep.cli.ending import ended_by_signals
from threadkeep.cli.history.capture import roots_option, user_home_option
from threadkeep.cli.output import teller
from threadkeep.cli.up.page import bind_page, missing_packages, page_part, port_option

if TYPE_CHECKING:
    from threadkeep.service.supervisor import ServicePart

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
@roots_option
@hippo_option
@click.option("--no-socket", is_flag=True, help="Do not listen for Hippo's programs.")
@port_option
@click.option("--no-web", is_flag=True, help="Without the page and the HTTP API.")
def serve(
    call: Call,
    *,
    user_home: str | None,
    roots: tuple[str, ...],
    hippo_dir: str | None,
    no_socket: bool,
    port: int | None,
    no_web: bool,
) -> None:
    """Capture, collect, listen, learn and look after the stores, until it is ended.

    One process does it all, and one for each store: a second one says who is there. A part of it
    that fails is named, and started again. `threadkeep service install` starts it at each log-in.
    With --json every line is a document. The page and the HTTP API are answered as well; the
    process that does it runs only while somebody is connected. `threadkeep up --link` gives a link.
    """
    from threadkeep.service.serve import serve as serve_home

    tell = teller(as_json=call.as_json)
    with ExitStack() as stack:
        more = () if no_web else _page(call, port, tell, stack)
        stop = stack.enter_context(ended_by_signals())
        serve_home(
            call.home,
            stop,
            tell,
            version=__version__,
            path=call.db,
            user_home=user_home,
            roots=roots,
            hippo_dir=hippo_place(call, hippo_dir),
            socket=not no_socket,
            more=more,
        )
        tell("ended")


def _page(
    call: Call, port: int | None, tell: Callable[[str], None], stack: ExitStack
) -> "tuple[ServicePart, ...]":
    """Bind the page; without its packages, or where it is switched off, there is none."""
    if not call.home.config.web.enabled and port is None:
        return ()
    missing = missing_packages()
    if missing:
        tell(f"no page: {', '.join(missing)} not installed; pip install 'threadkeep[web]'")
        return ()
    from threadkeep.service.serve import who_serves

    if who_serves(call.home, call.db).running:
        return ()  # whoever is there has the page; that we are the second is said in a moment
    listener, address = bind_page(call, port)
    stack.enter_context(listener)
    tell(f"the page is at {address}; `threadkeep up --link` gives a link that lets a browser in")
    return (page_part(call, listener),)


def hippo_place(call: Call, given: str | None) -> Path | None:
    """Read the folder of Hippo's data; the option alone means the usual one."""
    from threadkeep.service.serve import hippo_folder

    if given is None:
        return None
    return hippo_folder(call.home.environ) if given == DEFAULT else Path(given).expanduser()
