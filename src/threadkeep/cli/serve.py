"""`threadkeep serve`: one small process that keeps everything current."""

import os
import shlex
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec

from threadkeep import __version__
from threadkeep.base.clock import iso
from threadkeep.cli.command import PROBLEMS, Call, command, group, store_command
from threadkeep.cli.history.capture import (
    capture_or_demo,
    demo_path,
    roots_option,
    user_home_option,
)
from threadkeep.cli.history.progress import without_log
from threadkeep.cli.history.sessions import LogPlaces, comparing
from threadkeep.cli.output import (
    counted,
    document,
    note,
    size_text,
    table,
    teller,
    warn,
    write,
)
from threadkeep.cli.signals import ended_by_signals
from threadkeep.errors import Conflict, Invalid
from threadkeep.home.home import Home

if TYPE_CHECKING:
    from threadkeep.knowledge.health import ServicePartState
    from threadkeep.service.maintenance import CatchUpState
    from threadkeep.service.serve import ServiceStatus
    from threadkeep.service.supervisor import ServicePart
    from threadkeep.service.unit_files import SystemCommand, Unit, UnitPlan


# ------------------------------------------------------------------------------
# The web page as commands start it: bound, announced, and opened in a browser.

Tell = Callable[[str], None]

_NEEDED = ("starlette", "uvicorn", "jinja2", "nh3", "markdown_it")

_NAMED: Final = 4  # agents
_FIRST_BYTES: Final = 1_000_000
_PROGRESS_SECONDS: Final = 0.3

port_option = click.option(
    "--port",
    type=click.IntRange(1, 65_535),
    help="Listen on this port. [default: 7717, or the next free one]",
)


def missing_packages() -> list[str]:
    """Name what the page needs and is not installed."""
    return [name for name in _NEEDED if find_spec(name) is None]


def need_packages() -> None:
    """Refuse to continue without what the page needs."""
    missing = missing_packages()
    if missing:
        msg = f"the page needs {', '.join(missing)}, which is not installed"
        raise Invalid(msg, hint="pip install 'threadkeep[web]'")


def with_port(home: Home, port: int | None) -> Home:
    """Return a home whose server answers at a port."""
    if port is not None:
        web = msgspec.structs.replace(home.config.web, port=port)
        home.__dict__["config"] = msgspec.structs.replace(home.config, web=web)
    return home


def bind_page(call: Call, port: int | None) -> tuple[socket.socket, str]:
    """Bind the socket of the page, and give its address."""
    from threadkeep.web.part import bound

    home = with_port(call.home, port)
    default = port is None and home.config.web.port == type(home.config.web)().port
    return bound(home, exactly=not default)


def page_part(call: Call, listener: socket.socket, *, at_once: bool = False) -> "ServicePart":
    """Return the part of `serve` that answers there."""
    from threadkeep.web.part import web_part

    return web_part(call.home, listener, call.db, at_once=at_once)


def new_link(call: Call, address: str) -> str:
    """Return a link that lets a browser in, once."""
    from threadkeep.service.web_access import one_time_link

    return one_time_link(call.home, address)


def open_browser(url: str) -> bool:
    """Open a page where there is somebody to see it."""
    graphical = sys.platform == "darwin" or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    )
    if not graphical:
        return False
    try:
        return webbrowser.open(url)
    except (OSError, webbrowser.Error):
        return False


DEFAULT = "(default)"

hippo_option = click.option(
    "--hippo-dir",
    metavar="[DIR]",
    is_flag=False,
    flag_value=DEFAULT,
    help="Also listen where Hippo's hook and extension expect it, ~/.local/share/hippo.",
)


@store_command("serve", "threadkeep serve", "threadkeep serve --hippo-dir")
@user_home_option
@roots_option
@hippo_option
@click.option("--no-socket", is_flag=True, help="Do not listen for Hippo's programs.")
@port_option
@click.option("--no-web", is_flag=True, help="Do not serve the page and the HTTP API.")
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
    """Capture, collect, enrich and maintain the stores until stopped.

    One process per store; a second one reports the first. A part that fails is reported and
    restarted. `threadkeep service install` starts it at login. With --json every line is a
    document. It also serves the page and the HTTP API, in a process that runs only while a client
    is connected; `threadkeep up --link` prints a link.
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


# ------------------------------------------------------------------------------
# `threadkeep service`: have the system run `threadkeep serve` at each login.

_DRY = click.option("--dry-run", is_flag=True, help="Show what would be done; do nothing.")


@group("service", "threadkeep service install", "threadkeep service status", bare="status")
def service() -> None:
    """Run `threadkeep serve` at login: systemd on Linux, launchd on macOS.

    Optional: `capture`, `watch` and `recall` do the same work on demand.
    """


@store_command("install", "threadkeep service install", "threadkeep service install --dry-run")
@hippo_option
@_DRY
def install(call: Call, *, hippo_dir: str | None, dry_run: bool) -> int:
    """Write the unit and start it; an existing file there is backed up."""
    from threadkeep.service import unit_files

    unit = _unit(call, _options(call, hippo_dir))
    plan = unit_files.plan_install(unit)
    if dry_run:
        _show(call, plan, unit_files.start_commands(unit, plan.action), unit.text(0).decode())
        return 0
    ran = unit_files.install(plan, unit_files.run_tool)
    _tell(call, plan, ran)
    if unit.system == "systemd" and not call.as_json:
        note("it runs while you are logged in; `loginctl enable-linger` also keeps it after logout")
    return 0 if all(one.done for one in ran) else PROBLEMS


@command("uninstall", "threadkeep service uninstall")
@_DRY
def uninstall(call: Call, *, dry_run: bool) -> int:
    """Stop it and remove the unit; the file it replaced is restored."""
    from threadkeep.service import unit_files

    unit = _unit(call, ())
    plan = unit_files.plan_uninstall(unit)
    if dry_run:
        commands = unit_files.stop_commands(unit) if plan.action == "remove" else []
        _show(call, plan, commands)
        return 0
    ran = unit_files.uninstall(plan, unit_files.run_tool)
    _tell(call, plan, ran)
    return 0 if all(one.done for one in ran) else PROBLEMS


@store_command("status", "threadkeep service status", "threadkeep service status --json")
def status(call: Call) -> int:
    """Show whether the unit is installed and whether the store is being served.

    Exit code 1 if it is not, or if the process is stopped or hangs.
    """
    from threadkeep.service import unit_files
    from threadkeep.service.serve import who_serves

    state = unit_files.unit_state(_unit(call, ()), unit_files.run_tool)
    serving = who_serves(call.home, call.db)
    if call.as_json:
        document(
            unit={
                "system": state.unit.system,
                "path": state.unit.path,
                "installed": state.installed,
                "enabled": state.enabled,
                "active": state.active,
            },
            serving=serving,
        )
    else:
        known = ", ".join(word for word in (state.enabled, state.active) if word)
        installed = "installed" if state.installed else "not installed"
        write(f"unit\t{state.unit.path}\t{installed}{f' ({known})' if known else ''}")
        _show_serving(serving)
    return 0 if serving.running and not serving.hindrance else PROBLEMS


for _command in (install, status, uninstall):
    service.add_command(_command)


def _options(call: Call, hippo_dir: str | None) -> tuple[str, ...]:
    """Return the words of the command line that the service needs to work on the same home."""
    named = click.get_current_context().find_root().params.get("home")
    home = () if named is None else ("--home", str(Path(named).absolute()))
    db = () if call.db is None else ("--db", str(Path(call.db).absolute()))
    place = hippo_place(call, hippo_dir)
    hippo = () if place is None else ("--hippo-dir", str(place.absolute()))
    return (*home, "serve", *db, *hippo)


def _unit(call: Call, options: tuple[str, ...]) -> "Unit":
    from threadkeep.service.unit_files import serve_command, unit_for

    command_ = serve_command(*options)
    return unit_for(sys.platform, call.home.environ, command_, user=os.getuid())


def _show(call: Call, plan: "UnitPlan", commands: list[tuple[str, ...]], text: str = "") -> None:
    """Show what would be done."""
    if call.as_json:
        document(
            dry_run=True,
            action=plan.action,
            path=plan.unit.path,
            aside=plan.aside,
            text=text,
            commands=commands,
        )
        return
    note(f"would {_WORDS[plan.action]} {plan.unit.path}")
    if text:
        write(text, end="")
    for words in commands:
        note(f"would run {shlex.join(words)}")


_WORDS = {
    "create": "write",
    "change": "replace",
    "keep": "keep",
    "remove": "remove",
    "nothing": "nothing of ours found at",
}


def _tell(call: Call, plan: "UnitPlan", ran: "list[SystemCommand]") -> None:
    if call.as_json:
        document(dry_run=False, action=plan.action, path=plan.unit.path, ran=ran)
        return
    note(f"{plan.unit.path}: {plan.action}")
    if plan.aside is not None:
        note(f"the previous file: {plan.aside}")
    for one in ran:
        if not one.done:
            warn(f"run it by hand: {shlex.join(one.command)}{f' ({one.said})' * bool(one.said)}")


def _show_serving(serving: "ServiceStatus") -> None:
    one = serving.service
    if one is None or not serving.running:
        write("serving\tnobody" + ("" if one is None else f", last {iso(one.heartbeat)}"))
    else:
        told = f"process {one.pid}, version {one.version}, since {iso(one.started_at)}"
        write(f"serving\t{told}{_HINDRANCES[serving.hindrance].format(pid=one.pid)}")
    columns = ("part", "since", "restarts", "crashes", "last error")
    rows = [
        (part.part, iso(part.started_at), str(part.restarts), str(part.crashes), _trouble(part))
        for part in serving.parts
    ]
    if rows and serving.running:
        table(columns, rows)


_HINDRANCES: Final[dict[str, str]] = {
    "": "",
    "stopped": "; it is stopped: kill -CONT {pid}",
    "silent": "; no heartbeat: kill {pid}, then restart it",
}


def _trouble(part: "ServicePartState") -> str:
    return part.waits_for or part.last_error or ""


# ------------------------------------------------------------------------------
# `threadkeep up`: capture, serve, and open the page.


@store_command("up", "threadkeep up", "threadkeep up --no-open --port 8000", "threadkeep up --link")
@user_home_option
@port_option
@click.option("--no-open", is_flag=True, help="Do not open a browser.")
@click.option("--no-capture", is_flag=True, help="Start with what was captured before.")
@click.option("--link", is_flag=True, help="Only print a new link to the running page.")
def up(
    call: Call,
    *,
    user_home: str | None,
    port: int | None,
    no_open: bool,
    no_capture: bool,
    link: bool,
) -> None:
    """Capture what agents did on this machine, keep it up to date, and open the page.

    If no agent has left a log, a small demo history is shown. If `serve` or `up` is already
    running, its page is opened. The link works once, in one browser; `up --link` prints another.
    Ctrl-C stops it.
    """
    need_packages()
    running = _running_page(call)
    if link or running is not None:
        if running is None:
            raise Conflict("the page is not running", hint="`threadkeep up` starts it")
        _up_show(call, running, opening=not (no_open or link))
        return
    if not no_capture:
        call = _first_look(call, user_home)
    if (begun := _begun_meanwhile(call)) is not None:
        _up_show(call, begun, opening=not no_open)
        return
    listener, address = bind_page(call, port)
    with listener, ended_by_signals() as stop, _progress_line(call) as tell:
        from threadkeep.service.serve import serve

        _up_show(call, address, opening=not no_open)
        more = (page_part(call, listener, at_once=True),)
        serve(
            call.home,
            stop,
            tell,
            version=__version__,
            path=call.db,
            user_home=user_home,
            more=more,
        )


def _begun_meanwhile(call: Call) -> str | None:
    """Return the page of whoever serves the store by now: a link to ours would lead nowhere."""
    from threadkeep.service.serve import who_serves

    if not who_serves(call.home, call.db).running:
        return None
    page = _running_page(call)
    if page is None:
        msg = "this home is being served, and there is no page"
        hint = "`threadkeep service status` shows by whom: stop it, or start it without --no-web"
        raise Conflict(msg, hint=hint)
    return page


def _first_look(call: Call, user_home: str | None) -> Call:
    """Capture enough to see something: the latest sessions, or a demo where there are none.

    The service captures the rest while the page is looked at.
    """
    from threadkeep.capture.engine import CaptureFilter

    with without_log(), comparing(call, LogPlaces(user_home)) as history:
        look = history.capture(dry_run=True).agents
    if not any(part.found for part in look.values()):
        return capture_or_demo(call, user_home)
    new = sum(part.changed for part in look.values())
    if not call.as_json and new:
        size = size_text(sum(part.changed_bytes for part in look.values()))
        named = [name for name, part in look.items() if part.found]
        agents = f"{', '.join(named[:_NAMED])}{' and more' if len(named) > _NAMED else ''}"
        note(f"Capturing {counted(new, 'log')} of {agents} ({size}) while you look around")
    with call.home.history(call.db, user_home=user_home) as history, without_log():
        if not history.sessions(limit=1):
            history.capture(CaptureFilter(most=_FIRST_BYTES))
    return call


@contextmanager
def _progress_line(call: Call) -> Iterator[Tell]:
    """Return what tells what the service does; on a terminal its last line says how far it is."""
    tell = teller(as_json=call.as_json)
    if call.as_json or not sys.stderr.isatty():
        yield tell
        return
    from threadkeep.base.clock import now_ms
    from threadkeep.service.maintenance import catching_up

    shown, guard, over = "", threading.Lock(), threading.Event()

    def show(text: str, above: str = "") -> None:
        nonlocal shown
        with guard:
            if text or shown:
                sys.stderr.write("\r\x1b[K")
            if above:
                tell(above)
            sys.stderr.write(text)
            sys.stderr.flush()
            shown = text

    def follow() -> None:
        while not over.wait(_PROGRESS_SECONDS):
            state = catching_up(call.home, now_ms())
            show("" if state is None else _progress_words(state))

    thread = threading.Thread(target=follow, name="threadkeep-progress", daemon=True)
    thread.start()
    try:
        yield lambda text: show(shown, text)
    finally:
        over.set()
        thread.join()
        show("")


def _progress_words(state: "CatchUpState") -> str:
    if state.learning:
        return "summarizing what was captured"
    done, total = size_text(state.bytes_done), size_text(state.bytes_total)
    return f"captured {state.percent} %  {done} of {total}"


def _running_page(call: Call) -> str | None:
    """Return the address of the page that somebody serves already."""
    from threadkeep.service.serve import who_serves
    from threadkeep.service.web_access import noted_address
    from threadkeep.web.part import PART

    # Where nothing captured yet, it is the demo that is shown.
    for store in (call.db,) if call.db is not None else (None, demo_path(call)):
        found = who_serves(call.home, store)
        # The note outlives who wrote it: without the part there is no page, or somebody else's.
        if found.running and any(one.part == PART for one in found.parts):
            return noted_address(call.home)
    return None


def _up_show(call: Call, address: str, *, opening: bool) -> None:
    url = new_link(call, address)
    if call.as_json:
        document(address=address, link=url)
    else:
        note("\nOne-time link, valid for 10 minutes:")
        write(f"  {url}\n")
    if opening and sys.stdout.isatty():
        open_browser(url)
