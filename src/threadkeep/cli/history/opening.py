"""How the commands of the captured history open it, and which sessions they are asked about."""

import re
import shlex
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from threadkeep.cli.command import Call, Function
from threadkeep.cli.complete import complete_captured
from threadkeep.cli.options import harness_option, project_option, since_option, until_option
from threadkeep.cli.output import one_line
from threadkeep.cli.times import read_times
from threadkeep.errors import Conflict, Invalid, NotFound

if TYPE_CHECKING:
    from threadkeep.capture.capture import History
    from threadkeep.knowledge.records import CapturedSession
    from threadkeep.knowledge.sessions import CapturedSessionFilter

_LAST = "last"
_LOOKED_AT = 5000  # sessions, for a title
_SHOWN = 5
_REF = re.compile(r"(?:message|command|visit|page|run|node|lesson|commit):\d+")
_SHORT = (8, 13, 18, 23)  # ids are cut where the groups of a UUID end


@contextmanager
def looking(call: Call) -> Iterator["History"]:
    """Open the captured history without changing it."""
    from threadkeep.capture.capture import need_captured
    from threadkeep.home.opening import open_history_to_list

    with open_history_to_list(call.home, call.db) as history:
        need_captured(history)
        yield history


class LogPlaces(NamedTuple):
    """Where logs are looked for: below another home, and below further folders of projects."""

    user_home: str | None = None
    roots: tuple[str, ...] = ()


@contextmanager
def comparing(call: Call, where: LogPlaces) -> Iterator["History"]:
    """Open the history to compare it with the disk; where there is none, an empty one for now."""
    from threadkeep.capture.capture import need_captured

    if call.home.knowledge_path(call.db).exists():
        with call.home.history(
            call.db, read_only=True, user_home=where.user_home, roots=where.roots
        ) as history:
            need_captured(history)
            yield history
        return
    with tempfile.TemporaryDirectory(prefix="threadkeep-") as folder:
        empty = Path(folder) / "knowledge.db"
        with call.home.history(empty, user_home=where.user_home, roots=where.roots) as history:
            yield history


# ---------------------------------------------------------------------- one session


def session_argument(function: Function) -> Function:
    """Add the argument that names a session, and the option that tells programs apart."""
    harness = harness_option("The program that the session is of.")
    return click.argument("session", shell_complete=complete_captured)(harness(function))


def find(history: "History", name: str, harness: str | None) -> "CapturedSession":
    """Give the session that is meant: an id or its beginning, `program:id`, a title, or `last`."""
    if name != _LAST:
        return _named(history, name, harness)
    from threadkeep.knowledge.sessions import CapturedSessionFilter

    newest = history.sessions(CapturedSessionFilter(harness=harness), limit=1)
    if not newest:
        raise NotFound("no session was captured yet", hint="`threadkeep capture` brings them in")
    return newest[0]


def _named(history: "History", name: str, harness: str | None) -> "CapturedSession":
    try:
        return history.find(name, harness)
    except NotFound:
        if _REF.fullmatch(name):
            msg = f"{name!r} names one message or event, not a session"
            raise Invalid(msg, hint=f"`threadkeep open {name}` opens it") from None
        found = _titled(history, name, harness)
        if not found:
            raise
    if len(found) == 1:
        return found[0]
    ids = ", ".join(f"{one.harness}:{one.session_id}" for one in found[:_SHOWN])
    raise Conflict(f"several sessions are called {name!r}: {ids}", hint="give the id of one")


def _titled(history: "History", name: str, harness: str | None) -> list["CapturedSession"]:
    """Find sessions by their title, or by a beginning of it, among the latest ones."""
    from threadkeep.knowledge.sessions import CapturedSessionFilter

    wanted = name.casefold()
    latest = history.sessions(
        CapturedSessionFilter(harness=harness), everything=True, limit=_LOOKED_AT
    )
    named = [(one_line(one.name).casefold(), one) for one in latest]
    return [one for called, one in named if called == wanted] or [
        one for called, one in named if wanted and called.startswith(wanted)
    ]


def short_id(history: "History", session: "CapturedSession") -> str:
    """Give the shortest beginning of an id that still means this session alone."""
    whole = session.session_id
    for length in (length for length in _SHORT if length < len(whole)):
        if _is_found(history, whole[:length], session):
            return whole[:length]
    return whole if _is_found(history, whole, session) else f"{session.harness}:{whole}"


def _is_found(history: "History", name: str, session: "CapturedSession") -> bool:
    try:
        return history.find(name).id == session.id
    except (Conflict, NotFound):
        return False


def typed(call: Call, *words: str) -> str:
    """Write a command as it is typed to ask the same store, with its `--home` and `--db`."""
    home = click.get_current_context().find_root().params.get("home")
    before = ["threadkeep", *(["--home", home] if home else [])]
    after = ["--db", call.db] if call.db else []
    return shlex.join([*before, *words, *after])


# ---------------------------------------------------------------------- some sessions


def among_options(function: Function) -> Function:
    """Add the options that choose sessions: program, project, time."""
    options: list[Callable[[Function], Function]] = [
        harness_option(),
        project_option(),
        since_option(),
        until_option(),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def read_among(
    *,
    harness: str | None,
    project: str | None,
    since: str | None,
    until: str | None,
    **more: Any,
) -> "CapturedSessionFilter":
    """Read the options that choose sessions."""
    from threadkeep.knowledge.sessions import CapturedSessionFilter

    first, last = read_times(since, until)
    return CapturedSessionFilter(harness=harness, project=project, since=first, until=last, **more)
