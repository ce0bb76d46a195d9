"""A session that is here already, brought up to what another store says of it now.

Each message remembers which one it is over there, so what is new, changed or gone is told apart
from what was said here. Nothing that was said here is touched.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from threadkeep.base.tx import Tx
from threadkeep.state.context import Json, StateContext, clean
from threadkeep.state.messages import MESSAGE_FIELDS, NEWER_FIELDS, change, insert, keys_of
from threadkeep.state.rewind import put_aside, recount
from threadkeep.state.rows import read_session, refresh_session_hash
from threadkeep.state.transcript import get_messages
from threadkeep.state.versions import known_columns

_KIND: Final = "import:"
# A number of the file that a message comes from.
_OTHER_IDS: Final = frozenset({"display_order"})
_JSON: Final = (
    *("tool_calls", "reasoning_details", "codex_reasoning_items", "codex_message_items"),
    "display_metadata",
)
# What a session is, and what its messages add up to: neither comes from an update.
_FIXED: Final = frozenset(
    ("id", "parent_session_id", "message_count", "tool_call_count", "system_prompt_hash")
)
# What says that a program is at work in a session, or owns its conversation.
LIVE: Final = frozenset(
    (
        *("session_key", "expiry_finalized", "handoff_state", "handoff_platform", "handoff_error"),
        *("last_activity_at", "last_activity_description", "last_activity_provenance"),
        *("compression_failure_cooldown_until", "compression_failure_error"),
        *("compression_fallback_streak", "compression_ineffective_count"),
    )
)
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


def plan_update(ctx: StateContext, tx: Tx, session: Json, origin: str) -> Update:
    """Compare a session with the one that is here; nothing is written."""
    session_id = session["id"]
    here = get_messages(ctx, tx, session_id, include_inactive=True)
    known = keys_of(tx, session_id, _KIND + origin)
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

    def __init__(self, ctx: StateContext, here: list[Json], known: dict[str, int]) -> None:
        self._ctx = ctx
        self._known = known
        self._here = {message["id"]: told_by(message) for message in here}
        self._live = {message["id"] for message in here if message.get("active") != 0}
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
            # One that is not here any more, or not live, was taken back here.
            taken_back = message.get("active") == 0
            if number in self._live and (taken_back or self._here[number] not in said):
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
        return self._live - self._met


def told_by(message: Mapping[str, Any]) -> str:
    """Give all that a message says, so that two can be compared wherever they are stored."""
    said = [_plain(field, message.get(field)) for field in MESSAGE_FIELDS]
    newer = {field: _plain(field, message.get(field)) for field in NEWER_FIELDS}
    more = {field: value for field, value in newer.items() if value not in (None, 0)}
    return json.dumps([*said, more], default=repr, sort_keys=True)


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


def _plan_columns(
    ctx: StateContext, tx: Tx, session: Json, update: Update, *, continued: bool
) -> None:
    """Take over titles, ends and counts; not where the session went on, or was named, here."""
    here = read_session(ctx, tx, session["id"]) or {}
    name_of = {"id": session["id"]}
    side = (tx.one("side_of", name_of) if ctx.side else None) or (None, None, None, None)
    counted = ctx.side and tx.value("has_usage", name_of) is not None
    for name in here.keys() & session.keys() - _FIXED - (LIVE if continued else frozenset()):
        theirs = clean(ctx, session[name])
        if theirs is None or theirs == here[name]:
            continue
        named = name in ("title", "title_source") and "user" in (side[2], here["title_source"])
        if continued or named or (counted and name in _SPENT):
            update.kept.append(name)
        else:
            update.columns[name] = theirs


# ---------------------------------------------------------------------- doing


def apply_update(ctx: StateContext, tx: Tx, session_id: str, update: Update, origin: str) -> None:
    """Do to the messages what was planned, in the same transaction."""
    if update.rewound_from is not None:
        put_aside(ctx, tx, session_id, update.rewound_from)
    for number, message in update.changed:
        change(ctx, tx, session_id, number, message, **columns_beside(ctx, message))
    added = [
        (message.get("id"), insert(ctx, tx, session_id, message, **columns_beside(ctx, message)))
        for message in update.new
    ]
    remember(tx, session_id, origin, [*update.keys, *added])
    if update.is_needed:
        recount(tx, session_id)
        if ctx.side:
            refresh_session_hash(tx, session_id)


def columns_beside(ctx: StateContext, message: Any) -> Json:
    """Give the columns of a message that say nothing in our words: marks, and unknown ones."""
    if not isinstance(message, Mapping):
        return {}
    known = {column.name for column in known_columns()["messages"]}
    marks = {"active", "compacted"} if message.get("active") == 0 else set()
    taken = ({*ctx.form.tables["messages"]} - known - _OTHER_IDS) | marks
    return {
        name: message[name]
        for name in sorted(taken)
        if isinstance(message.get(name), (str, int, float, bytes))
    }


def remember(tx: Tx, session_id: str, origin: str, pairs: Iterable[tuple[Any, int]]) -> None:
    """Note which message here is which of another store."""
    named = [(str(name), number) for name, number in pairs if name is not None and origin]
    if named:
        tx.run("make_keys")
    for name, number in named:
        values = {"session_id": session_id, "kind": _KIND + origin}
        tx.run("put_key", {**values, "key": name, "message_id": number})


def remember_all(tx: Tx, origin: str) -> None:
    """Note that every message of a file is as in the store that it was copied from."""
    tx.run("make_keys")
    tx.run("put_all_keys", {"kind": _KIND + origin})
