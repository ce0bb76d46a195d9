"""The group that holds the commands of the state store, and how they open it."""

import math
from collections.abc import Callable
from typing import Any

import click

from threadkeep import SessionDB
from threadkeep.base.clock import iso, parse_duration
from threadkeep.cli.command import Call, Function, command, group
from threadkeep.cli.options import complete_state_session, db_option
from threadkeep.cli.output import counted, is_terminal, json_text, note
from threadkeep.cli.words import local_time, money
from threadkeep.errors import ReadOnly, SchemaMismatch
from threadkeep.state.naming import is_adopted

# Without our index some searches read every message: about a second for so many.
_LARGE = 50_000


@group(
    "state",
    "threadkeep state ls --by-activity",
    'threadkeep state search "error: timeout" --since 7d',
    "threadkeep state --db ~/.hermes/state.db stats",
)
@db_option("Use this state file.")
def state() -> None:
    """Session history in Hermes Agent's file format: list, read, search and maintain it.

    SESSION is an id, the beginning of one, a title, or `last`.
    """


def state_command(
    name: str, *examples: str, lists: bool = False, pages: bool = False
) -> Callable[[Function], click.Command]:
    """Make a function a command that works on a state file, which `--db` may name."""

    def decorate(function: Function) -> click.Command:
        option = db_option("Use this state file.")
        return command(name, *examples, lists=lists, pages=pages)(option(function))

    return decorate


def session_argument(function: Function) -> Function:
    """Add the argument that names a session."""
    return click.argument("session", shell_complete=complete_state_session)(function)


def sessions_argument(function: Function) -> Function:
    """Add the argument that names one or more sessions."""
    option = click.argument(
        "sessions", nargs=-1, required=True, shell_complete=complete_state_session
    )
    return option(function)


# ---------------------------------------------------------------------- opening


def reading(call: Call) -> SessionDB:
    """Open the state store without changing it: Hermes's own file stays as it is."""
    return call.home.state(call.db, read_only=True)


def writing(call: Call) -> SessionDB:
    """Open the state store, and begin one if there is none."""
    return call.home.state(call.db)


def changing(call: Call) -> SessionDB:
    """Open a state store that is there, to change it; say so if it becomes ours by that."""
    with reading(call) as looked:
        ours, path = is_adopted(looked), looked.database.name
    store = call.home.state(call.db, must_exist=True)
    if not ours:
        note(f"{path} now has threadkeep's side tables (tk_…), which Hermes ignores")
    return store


def joining(call: Call) -> SessionDB:
    """Open a file of ours as a full member where that is possible, any other one to look.

    Searching brings the index up to date, and checking the index needs a connection that writes;
    a file that only Hermes wrote is read as it is.
    """
    store = reading(call)
    if not is_adopted(store):
        return store
    store.close()
    try:
        return call.home.state(call.db, must_exist=True)
    except (ReadOnly, SchemaMismatch):
        return reading(call)


def searching(call: Call) -> SessionDB:
    """Open the state store to search it; say so if that will take long."""
    store = joining(call)
    if not is_adopted(store) and (count := store.message_count()) > _LARGE:
        told = f"{counted(count, 'message')} without an index of ours: some searches are slow"
        note(f"{told}; `threadkeep state reindex` builds it")
    return store


# ------------------------------------------------------------------------------
# Times, amounts and values of the state store in words, and values that JSON can hold.

Json = dict[str, Any]

_DAY_MS = 86_400_000


def when(seconds: Any) -> str:
    """Write a time: as the clock on the wall has it for a person, in UTC for a program."""
    if not isinstance(seconds, int | float) or not math.isfinite(seconds):
        return "" if seconds is None else str(seconds)  # another program wrote it
    try:
        return (local_time if is_terminal() else iso)(int(seconds * 1000))
    except (OverflowError, ValueError, OSError):
        return f"{seconds:g} s since 1970"


def days(text: str) -> float:
    """Read an age as a number of days."""
    return parse_duration(text) / _DAY_MS


def cost_of(amounts: Json) -> str:
    """Write what something cost: as billed, else as estimated."""
    return money(amounts.get("actual_cost_usd") or amounts.get("estimated_cost_usd") or 0.0)


def plain(value: Any) -> Any:
    """Copy a stored value for `--json`: a number that JSON does not know becomes its name."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def readable(value: Any) -> str:
    """Write the content of a message as text: the texts of a list of parts, the rest as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, list):
        return "\n".join(_part(part) for part in value)
    return _part(value)


def _part(part: Any) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, dict) and isinstance(part.get("text"), str):
        return str(part["text"])
    return json_text(plain(part))
