"""`threadkeep up`: capture, serve, and open the page."""

import sys

import click

from threadkeep import __version__
from threadkeep.cli.command import Call, store_command
from threadkeep.cli.ending import ended_by_signals
from threadkeep.cli.history.capture import capture_or_demo, user_home_option
from threadkeep.cli.history.welcome import demo_path
from threadkeep.cli.output import document, note, teller, write
from threadkeep.cli.up.page import (
    bind_page,
    need_packages,
    new_link,
    open_browser,
    page_part,
    port_option,
)
from threadkeep.errors import Conflict


@store_command("up", "threadkeep up", "threadkeep up --no-open --port 8000", "threadkeep up --link")
@user_home_option
@port_option
@click.option("--no-open", is_flag=True, help="Do not open a browser.")
@click.option("--no-capture", is_flag=True, help="Begin with what was captured before.")
@click.option("--link", is_flag=True, help="Only print a new link to the page that runs already.")
def up(
    call: Call,
    *,
    user_home: str | None,
    port: int | None,
    no_open: bool,
    no_capture: bool,
    link: bool,
) -> None:
    """Capture what agents did on this machine, keep it current, and open the page.

    Where no agent has left a log, a small demo history is shown. If a `serve` or `up` runs
    already, its page is opened. The link lets one browser in and then is used up; `up --link`
    gives another one. Ctrl-C ends it.
    """
    need_packages()
    running = _running_page(call)
    if link or running is not None:
        if running is None:
            raise Conflict("nobody serves the page", hint="`threadkeep up` starts it")
        _show(call, running, opening=not (no_open or link))
        return
    if not no_capture:
        call = capture_or_demo(call, user_home)
    listener, address = bind_page(call, port)
    with listener, ended_by_signals() as stop:
        from threadkeep.service.serve import serve

        _show(call, address, opening=not no_open)
        more = (page_part(call, listener, at_once=True),)
        serve(
            call.home,
            stop,
            teller(as_json=call.as_json),
            version=__version__,
            path=call.db,
            user_home=user_home,
            more=more,
        )


def _running_page(call: Call) -> str | None:
    """Give the address of the page that somebody serves already."""
    from threadkeep.service.serve import who_serves
    from threadkeep.service.web_access import noted_address
    from threadkeep.web.part import PART

    # Where nothing was captured yet, it is the demo that is shown.
    for store in (call.db,) if call.db is not None else (None, demo_path(call)):
        found = who_serves(call.home, store)
        # The note outlives who wrote it: without the part there is no page, or somebody else's.
        if found.running and any(one.part == PART for one in found.parts):
            return noted_address(call.home)
    return None


def _show(call: Call, address: str, *, opening: bool) -> None:
    url = new_link(call, address)
    if call.as_json:
        document(address=address, link=url)
    else:
        note("\nThe page, for one browser, once, within ten minutes:")
        write(f"  {url}\n")
    if opening and sys.stdout.isatty():
        open_browser(url)
