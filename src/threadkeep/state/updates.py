"""A session that is here already, brought up to what another store says of it now.

Each message remembers which one it is over there, so what is new, changed or gone is told apart
from what was said here. Nothing that was said here is touched.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from threadkeep.base.sqlite import Tx
from threadkeep.state.context import SESSION_COLUMNS, Context, Json, clean
from threadkeep.state.messages import MESSAGE_FIELDS, change, insert
from threadkeep.state.rewind import put_aside, recount
from threadkeep.state.rows import read_session, refresh_session_hash
from threadkeep.state.transcript import get_messages

_KIND: Final = "import:"
_JSON: Final = ("tool_calls", "reasoning_details", "codex_reasoning_items")
# What a session is, and what its messages add up to: neither comes from an update.
_FIXED: Final = frozenset(("id", "parent_session_id", "message_count", "tool_call_count"))
_SPENT: Final = frozenset(
    (
        *("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"),
        *("reasoning_tokens", "estimated_cost_usd", "actual_cost_usd"),
    )
)
Told = Callable[[Mapping[str, Any]], str]


class Update(msgspec.Struct):
    """What is to be done to a session so that it has all that the other one has."""

    new: list[Json] = []
    changed: list[tuple[int, Json]] = []  # by their number here
    rewound_from: int | None = None  # it and all behind it are gone over there
    gone: int = 0  # are gone over there and stay here, since something here stands behind them
    columns: Json = {}
    kept: list[str] = []  # columns that were changed here, and stay
    keys: list[tuple[Any, int]] = []  # the number over there and here of what is known to be equal

    @property
    def is_needed(self) -> bool:
        """Tell whether anything of the session changes."""
        return bool(self.new or self.changed or self.columns or self.rewound_from is not None)


def plan_update(ctx: Context, tx: Tx, session: Json, origin: str) -> Update:
    """Compare a session with the one that is here; nothing is written."""
    session_id = session["id"]
    here = get_messages(ctx, tx, session_id)
    known = keys_of(tx, session_id, origin) if ctx.side else {}
    pairs = _Pairs(ctx, here, known)
    update = Update()
    for message in session["messages"]:
        pairs.meet(message, update)
    own = pairs.left()
    _plan_gone(here, known, own, update)
    _plan_columns(ctx, tx, session, update, continued=bool(own - set(known.values())))
    return update


class _Pairs:
    """Finds for each message over there the one here: by its number, else by what it says."""

    def __init__(self, ctx: Context, here: list[Json], known: dict[str, int]) -> None:
        self._ctx = ctx
        self._known = known
        self._here = {message["id"]: told_by(message) for message in here}
        self._same: dict[str, list[int]] = defaultdict(list)
        for number, told in reversed(self._here.items()):
            self._same[told].append(number)
        self._met: set[int] = set()

    def meet(self, message: Json, update: Update) -> None:
        """Note what a message of the other store means for us."""
        name = message.get("id")
        said = {told_by(message), told_by(clean(self._ctx, dict(message)))}
        number = self._known.get(str(name))
        if number is not None:
            self._met.add(number)
            # One that is not here any more was taken back here.
            if number in self._here and self._here[number] not in said:
                update.changed.append((number, message))
            return
        equal = next(filter(None, map(self._equal, said)), None)
        if equal is None:
            update.new.append(message)
            return
        self._met.add(equal)
        if name is not None:
            update.keys.append((name, equal))

    def _equal(self, told: str) -> int | None:
        while self._same[told]:
            number = self._same[told].pop()
            if number not in self._met:
                return number
        return None

    def left(self) -> set[int]:
        """Give the messages here that the other store does not have."""
        return self._here.keys() - self._met


def told_by(message: Mapping[str, Any]) -> str:
    """Give all that a message says, so that two can be compared wherever they are stored."""
    return json.dumps([_plain(field, message.get(field)) for field in MESSAGE_FIELDS], default=repr)


def _plain(field: str, value: Any) -> Any:
    if field == "timestamp" and isinstance(value, (int, float)):
        return float(value)
    if field in _JSON and isinstance(value, str):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value or None if field in _JSON else value


def _plan_gone(here: list[Json], known: dict[str, int], own: set[int], update: Update) -> None:
    """Take back what is gone over there, as a rewind does: only from the end."""
    gone = own & set(known.values())
    if not gone:
        return
    behind = [message["id"] for message in here if message["id"] >= min(gone)]
    if set(behind) == gone:
        update.rewound_from = min(gone)
    else:
        update.gone = len(gone)


def _plan_columns(ctx: Context, tx: Tx, session: Json, update: Update, *, continued: bool) -> None:
    """Take over titles, ends and counts; not where the session went on, or was named, here."""
    here = read_session(ctx, tx, session["id"]) or {}
    name_of = {"id": session["id"]}
    side = (tx.one("side_of", name_of) if ctx.side else None) or (None, None, None, None)
    counted = ctx.side and tx.value("has_usage", name_of) is not None
    for name in SESSION_COLUMNS:
        theirs = clean(ctx, session.get(name))
        if name in _FIXED or theirs is None or theirs == here.get(name):
            continue
        named = name == "title" and side[2] == "user"
        if continued or named or (counted and name in _SPENT):
            update.kept.append(name)
        else:
            update.columns[name] = theirs


# ---------------------------------------------------------------------- doing


def apply_update(ctx: Context, tx: Tx, session_id: str, update: Update, origin: str) -> None:
    """Do to the messages what was planned, in the same transaction."""
    if update.rewound_from is not None:
        put_aside(ctx, tx, session_id, update.rewound_from)
    for number, message in update.changed:
        change(ctx, tx, session_id, number, message)
    added = [(message.get("id"), insert(ctx, tx, session_id, message)) for message in update.new]
    remember(tx, session_id, origin, [*update.keys, *added])
    if update.is_needed:
        recount(tx, session_id)
        refresh_session_hash(tx, session_id)


def remember(tx: Tx, session_id: str, origin: str, pairs: Iterable[tuple[Any, int]]) -> None:
    """Note which message here is which of another store."""
    for name, number in pairs:
        if name is not None and origin:
            values = {"session_id": session_id, "kind": _KIND + origin}
            tx.run("put_key", {**values, "key": str(name), "message_id": number})


def remember_all(tx: Tx, origin: str) -> None:
    """Note that every message of a file is as in the store that it was copied from."""
    tx.run("put_all_keys", {"kind": _KIND + origin})


def keys_of(tx: Tx, session_id: str, origin: str) -> dict[str, int]:
    """Give the messages that came from another store, by their number there."""
    return dict(tx.all("keys_of", {"session_id": session_id, "kind": _KIND + origin}))
