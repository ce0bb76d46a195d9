"""`threadkeep usage statusline`: one short line, for a prompt or for Claude Code's status line."""

import os
import select
import sys
from collections.abc import Iterator
from io import UnsupportedOperation
from typing import TYPE_CHECKING, Any, Final

import msgspec

from threadkeep.cli.command import Call
from threadkeep.cli.output import document, one_line, write
from threadkeep.cli.usage.blocks import hours_text
from threadkeep.cli.usage.rows import dollars, sum_json, tokens_of
from threadkeep.errors import ThreadkeepError

if TYPE_CHECKING:
    from threadkeep.home.statusline import RecentUsage
    from threadkeep.knowledge.results import Sum

Json = dict[str, Any]

_PATIENCE: Final = 0.05  # seconds for the first byte: a prompt's stdin may be a pipe that is silent
_MOST: Final = 1_000_000
_THOUSAND: Final = 1000


def show_line(call: Call, *, cost: bool) -> None:
    """Print the line; a store that is not there or cannot be read makes it shorter."""
    told = read_told()
    lately = _lately(call, told)
    if call.as_json:
        block = None if lately is None or lately.block is None else sum_json(lately.block.total)
        today = None if lately is None else sum_json(lately.today)
        document(line=line_of(told, lately, cost=cost), today=today, block=block)
    else:
        write(line_of(told, lately, cost=cost))


def _lately(call: Call, told: Json) -> "RecentUsage | None":
    from threadkeep.base.clock import now_ms
    from threadkeep.home.statusline import spent_lately

    session = told.get("session_id")
    try:
        return spent_lately(
            call.home,
            now_ms(),
            path=call.db,
            session_id=session if isinstance(session, str) else None,
        )
    except ThreadkeepError:
        return None


def line_of(told: Json, lately: "RecentUsage | None", *, cost: bool = True) -> str:
    """Write the line of what Claude Code told and of what was used lately."""
    return " · ".join(_parts(told, lately, cost=cost)) or "nothing captured yet"


def _parts(told: Json, lately: "RecentUsage | None", *, cost: bool) -> Iterator[str]:
    model = _at(told, "model", "display_name")
    if isinstance(model, str) and model:
        yield one_line(model, 30)
    spent = _at(told, "cost", "total_cost_usd")
    if cost and isinstance(spent, int | float):
        yield f"{dollars(round(spent * 1_000_000))} session"
    elif lately is not None and lately.session is not None and lately.session.answers:
        yield f"{_amount(lately.session, cost=cost)} session"
    if lately is None:
        return
    yield f"{_amount(lately.today, cost=cost)} today"
    if lately.block is not None:
        left = hours_text(lately.block.minutes_left)
        pace = lately.block.cost_per_hour
        rate = f", {dollars(pace)}/h" if cost and pace is not None else ""
        yield f"{_amount(lately.block.total, cost=cost)} block ({left} left{rate})"


def _amount(one: "Sum", *, cost: bool) -> str:
    """Write what was used: money where it is wanted and known, else tokens."""
    known = cost and not (one.answers and one.unpriced == one.answers)
    return dollars(one.cost) if known else f"{short(tokens_of(one))} tokens"


def short(count: int) -> str:
    """Write a large number in few characters: 950, 12.3k, 4.5M."""
    size, units = float(count), iter(("k", "M", "G", "T"))
    unit = ""
    while size >= _THOUSAND:
        size, unit = size / _THOUSAND, next(units, unit)
    return f"{size:.1f}{unit}" if unit else str(count)


def _at(told: Json, *path: str) -> object:
    found: object = told
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found


# ---------------------------------------------------------------------- stdin


def read_told() -> Json:
    """Read the JSON that Claude Code writes to its status line; nothing where there is none."""
    try:
        found = msgspec.json.decode(_stdin())
    except (msgspec.DecodeError, OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _stdin() -> bytes:
    if sys.stdin is None or sys.stdin.isatty():
        return b""
    try:
        descriptor = sys.stdin.fileno()
    except UnsupportedOperation:
        return sys.stdin.read(_MOST).encode()
    read = b""
    while len(read) < _MOST and select.select([descriptor], [], [], _PATIENCE)[0]:
        more = os.read(descriptor, 65_536)
        if not more:
            break
        read += more
    return read
