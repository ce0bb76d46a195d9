"""Exported sessions stored again, whole: with the columns that the file has or can get."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from threadkeep.base.tx import Tx
from threadkeep.errors import Conflict, Invalid
from threadkeep.state.context import Json, StateContext, clean, known_columns
from threadkeep.state.export import HINT, read_lines
from threadkeep.state.messages import MESSAGE_FIELDS, NEWER_FIELDS, change, insert, keys_of
from threadkeep.state.rewind import put_aside, recount
from threadkeep.state.rows import insert_row, read_session, refresh_session_hash, update_rows
from threadkeep.state.session_config import MARKS, RELATIONS, comes_from, prompt_columns
from threadkeep.state.sessions import check_id
from threadkeep.state.side_values import ColumnValue, JsonText, dump, keep, to_column
from threadkeep.state.titles import MAX_TITLE_LENGTH, get_next_title_in_lineage, sanitize_title
from threadkeep.state.transcript import get_messages
from threadkeep.state.verbs import write

# ------------------------------------------------------------------------------
# A session that is here already, brought up to what another store says of it now.
#
# Each message remembers which one it is over there, so what is new, changed or gone is told apart
# from what was said here. Nothing that was said here is touched.

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
    """Compare a session with the stored one; nothing is written."""
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
        """Return the messages here that the other store does not have."""
        return self._live - self._met


def told_by(message: Mapping[str, Any]) -> str:
    """Return all that a message says, so that two can be compared wherever they are stored."""
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
    """Return the columns of a message that say nothing in our words: marks, and unknown ones."""
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


_CHOICES: Final = ("skip", "error", "replace", "update")
_TEXTS: Final = ("source", "user_id", "model", "system_prompt", "title")
_FLAGS: Final = ("pinned_at", "archived_at", "title_source")
# What is stored in a way of its own, or again in each file.
_OWN: Final = frozenset({"id", "system_prompt_hash", "message_count", "tool_call_count"})
_PLAIN: Final = (str, int, float, bytes, type(None))


def import_sessions(
    ctx: StateContext,
    sessions: Iterable[str | bytes | Mapping[str, Any]],
    *,
    on_conflict: str = "skip",
    origin: str = "",
    progress: Callable[[int], None] | None = None,
) -> Json:
    """Import exported sessions, each in one transaction; return how many, and which.

    Takes what `export_session`, `export_all` and `iter_export` give. A session that exists is
    skipped, replaced, updated with what is new in it, or an error. `origin` names the store that
    they come from, so that the next update knows its messages again; without it, what says that a
    program is at work in a session stays behind. A list of objects is checked before anything of it
    is stored, and what is wrong is in `errors`; in lines, bad input stops the import.
    """
    if on_conflict not in _CHOICES:
        msg = f"what exists cannot be treated as {on_conflict!r}"
        raise Invalid(msg, hint=f"use one of {', '.join(_CHOICES)}")
    result: Json = {"ok": True, "imported": 0, "skipped": 0, "detached": 0}
    result |= {"imported_ids": [], "skipped_ids": [], "errors": _problems(ctx, sessions)}
    result |= {"added": 0, "replaced": 0, "messages": 0}
    if on_conflict == "update":
        result["updated"] = 0
    if result["errors"]:
        return {**result, "ok": False}
    parents: list[tuple[str, str]] = []
    for number, session in enumerate(read_lines(sessions), 1):
        outcome, messages = write(ctx, import_session, session, on_conflict, origin)
        result[outcome] += 1
        result["messages"] += messages
        named = "skipped_ids" if outcome == "skipped" else "imported_ids"
        result[named].append(session["id"])
        if isinstance(session.get("parent_session_id"), str):  # an import may have stopped half-way
            parents.append((session["id"], session["parent_session_id"]))
        if progress is not None:
            progress(number)
    result["imported"] = len(result["imported_ids"])
    result["detached"] = write(ctx, _join_families, parents)
    return result


def _problems(ctx: StateContext, sessions: object) -> list[Json]:
    """Tell what is wrong with a list of objects, by place; other input is read as it comes."""
    if isinstance(sessions, (Mapping, str, bytes)) or not isinstance(sessions, Iterable):
        msg = "sessions must be a list"
        raise ImportRefused(msg, hint="pass what `export` returned, as a list")
    if not isinstance(sessions, list) or any(isinstance(one, (str, bytes)) for one in sessions):
        return []
    found, seen = [], set[str]()
    for index, raw in enumerate(sessions):
        name = raw.get("id") if isinstance(raw, Mapping) else None
        try:
            _check(ctx, raw, seen)
        except Invalid as error:
            named = {"session_id": name} if isinstance(name, str) and name else {}
            found.append({"index": index, "error": str(error), **named})
        seen.add(str(name))
    return found


class ImportRefused(Invalid, ValueError):
    """What was given cannot be sessions."""


def _check(ctx: StateContext, raw: Any, seen: set[str]) -> None:
    if not isinstance(raw, Mapping):
        raise Invalid("session must be an object", hint=HINT)
    session = next(read_lines([raw]))
    session_id = session.get("id")
    if not isinstance(session_id, str) or not session_id.strip():
        raise Invalid("session id is required", hint=HINT)
    if session_id in seen:
        raise Invalid("duplicate session id", hint=HINT)
    check_id(session_id)
    _check_numbers(session_id, session)
    for message in session["messages"]:
        _message(ctx, session_id, message)


def _join_families(ctx: StateContext, tx: Tx, parents: list[tuple[str, str]]) -> int:
    """Give children their parents, which may have come after them; count those without one."""
    for child, parent in parents:
        joined = not comes_from(tx, parent, child) and tx.count(
            "adopt_parent", {"id": child, "parent": parent}
        )
        if joined and ctx.side:
            refresh_session_hash(tx, child)
    return sum(tx.value("parent_of", {"id": child}) is None for child, _ in parents)


def import_session(
    ctx: StateContext, tx: Tx, session: Json, on_conflict: str = "skip", origin: str = ""
) -> tuple[str, int]:
    """Store an exported session whole; give what became of it, and how many messages came in."""
    session_id = session.get("id")
    if not isinstance(session_id, str) or not session_id:
        msg = f"a session needs an id, not {session_id!r}"
        raise Invalid(msg, hint="pass what `export` wrote")
    check_id(session_id)
    if not origin:
        session = {name: value for name, value in session.items() if name not in LIVE}
    outcome = "added"
    if tx.one("session_exists", {"id": session_id}) is not None:
        if on_conflict == "skip":
            return "skipped", 0
        if on_conflict == "update":
            return _update(ctx, tx, session, origin)
        if on_conflict == "error":
            msg = f"there is a session {session_id!r} already"
            raise Conflict(msg, hint="import with on_conflict='skip' or 'replace'")
        _empty(ctx, tx, session_id)
        outcome = "replaced"
    _store(ctx, tx, session_id, session, origin, is_new=outcome == "added")
    return outcome, len(session["messages"])


def _update(ctx: StateContext, tx: Tx, session: Json, origin: str) -> tuple[str, int]:
    session_id = session["id"]
    messages = [_message(ctx, session_id, one) for one in session["messages"]]
    update = plan_update(ctx, tx, {**session, "messages": messages}, origin)
    if update.columns:
        columns, texts = _columns(ctx, tx, session_id, update.columns)
        _check_numbers(session_id, columns)
        _put(ctx, tx, session_id, columns, texts, is_new=False)
    apply_update(ctx, tx, session_id, update, origin)
    _put_usage(ctx, tx, session_id, session.get("usage"))
    told = len(update.new) + len(update.changed)
    return ("updated" if update.is_needed else "skipped"), told


def _empty(ctx: StateContext, tx: Tx, session_id: str) -> None:
    """Take out what a session is to be replaced of; flags stay unless the new one has some."""
    tx.run("delete_messages", {"session_id": session_id})
    if ctx.side:
        for name in ("forget_rewinds", "drop_session_exact", "drop_relation"):
            tx.run(name, {"id": session_id})


# ---------------------------------------------------------------------- columns


def _columns(
    ctx: StateContext, tx: Tx, session_id: str, session: Mapping[str, Any]
) -> tuple[Json, dict[str, ColumnValue]]:
    """Return the columns of a session as they are stored, and the texts among them."""
    known = {column.name for column in known_columns()["sessions"]}
    here = known | {*ctx.form.tables["sessions"]}
    columns: Json = {
        name: value for name, value in session.items() if name in here and name not in _OWN
    }
    for name in set(columns) - set(_TEXTS) - {"model_config"}:
        if not isinstance(columns[name], _PLAIN):
            msg = f"session {session_id!r}: {name} must be text or a number, not {columns[name]!r}"
            raise Invalid(msg, hint=HINT)
    values = {field: clean(ctx, session[field]) for field in _TEXTS if field in session}
    if "title" in values:
        values["title"] = _free_title(ctx, tx, session_id, values["title"])
    texts = {field: to_column(value, field) for field, value in values.items()}
    columns |= {field: stored.column for field, stored in texts.items()}
    if "model_config" in session:
        config = clean(ctx, session["model_config"])
        if not isinstance(config, str):
            config = dump(config, "model_config") if config else None
        columns["model_config"] = config
    return columns, texts


def _put(
    ctx: StateContext,
    tx: Tx,
    session_id: str,
    columns: Json,
    texts: Mapping[str, ColumnValue],
    *,
    is_new: bool,
) -> None:
    """Store the columns of a session, its prompt in the way of the file."""
    if "system_prompt" in columns:
        columns = {**columns, **prompt_columns(ctx, tx, columns["system_prompt"])}
    if is_new:
        insert_row(ctx, tx, "sessions", {"id": session_id, **columns})
    else:
        update_rows(ctx, tx, "sessions", {"id": session_id}, columns)
    if ctx.side:
        keep(tx, "session", session_id, dict(texts))


def _store(
    ctx: StateContext, tx: Tx, session_id: str, session: Json, origin: str, *, is_new: bool
) -> None:
    columns, texts = _columns(ctx, tx, session_id, session)
    columns["source"] = "unknown" if columns.get("source") is None else columns["source"]
    if columns.get("started_at") is None:
        columns["started_at"] = ctx.clock()
    parent = columns.get("parent_session_id")
    known = parent is not None and tx.one("session_exists", {"id": parent}) is not None
    if not known or comes_from(tx, str(parent), session_id):
        columns["parent_session_id"] = None
    side = session["side"]
    _check_numbers(session_id, {**columns, **side})
    if not ctx.side:
        columns |= _as_columns(columns, parent, side)
    _put(ctx, tx, session_id, columns, texts, is_new=is_new)
    pairs = []
    for message in session["messages"]:
        more = columns_beside(ctx, message)
        number = insert(ctx, tx, session_id, _message(ctx, session_id, message), **more)
        pairs.append((message.get("id"), number))
    remember(tx, session_id, origin, pairs)
    recount(tx, session_id)
    _put_usage(ctx, tx, session_id, session.get("usage"))
    if ctx.side:
        _put_side(ctx, tx, session_id, parent, side)
        refresh_session_hash(tx, session_id)


def _put_usage(ctx: StateContext, tx: Tx, session_id: str, rows: Any) -> None:
    """Keep what each model used; the rows of a session that has some are replaced by these."""
    given = [row for row in rows or () if isinstance(row, Mapping) and row.get("model")]
    if not given or (ctx.side and tx.value("has_usage", {"id": session_id}) is not None):
        return
    ctx.widen(tx)
    tx.run("drop_model_usage", {"id": session_id})
    here = ctx.form.tables["session_model_usage"]
    for row in given:
        values = {n: v for n, v in row.items() if n in here and isinstance(v, _PLAIN)}
        _check_numbers(session_id, values)
        insert_row(ctx, tx, "session_model_usage", {**values, "session_id": session_id})


# ---------------------------------------------------------------------- what only we know


def _as_columns(columns: Json, parent: Any, side: Mapping[str, Any]) -> Json:
    """Say in a file that is Hermes's own what our side tables would say."""
    told: Json = {}
    for flag, column in (("pinned_at", "pinned"), ("archived_at", "archived")):
        if side.get(flag) is not None:
            told[column] = 1
    if side.get("title_source") is not None:
        told["title_source"] = side["title_source"]
    mark = MARKS.get(str(side.get("relation")))
    if mark is not None and isinstance(parent, str):
        told["model_config"] = _marked(columns.get("model_config"), mark, parent)
    return told


def _marked(config: str | None, mark: str, parent: str) -> str | None:
    settings = _decoded(config) if config else {}
    return json.dumps({**settings, mark: parent}) if isinstance(settings, dict) else config


def _put_side(
    ctx: StateContext, tx: Tx, session_id: str, parent: Any, side: Mapping[str, Any]
) -> None:
    if set(_FLAGS) & set(side):
        tx.run("put_flags", {"id": session_id, **{name: side.get(name) for name in _FLAGS}})
        if "pinned" in ctx.form.tables["sessions"]:
            update_rows(ctx, tx, "sessions", {"id": session_id}, _as_columns({}, None, side))
    if side.get("relation") in RELATIONS and isinstance(parent, str):
        tx.run("put_relation", {"id": session_id, "parent_id": parent, "kind": side["relation"]})


def _free_title(ctx: StateContext, tx: Tx, session_id: str, title: Any) -> str | None:
    """Take the title along; if another session has it by now, with a number."""
    wanted = sanitize_title(str(title)[:MAX_TITLE_LENGTH]) if title else None
    column = to_column(wanted, "title").column
    if column is None or tx.value("title_owner", {"title": column}) in (None, session_id):
        return wanted
    return get_next_title_in_lineage(ctx, tx, column)


# ---------------------------------------------------------------------- checks


def _check_numbers(session_id: str, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        numeric = name.endswith(("_at", "_tokens", "_count", "_usd", "timestamp"))
        if numeric and value is not None and not _is_number(value):
            msg = f"session {session_id!r}: {name} must be a number, not {str(value)[:40]!r}"
            raise Invalid(msg, hint=HINT)


def _is_number(value: Any) -> bool:
    fits = not isinstance(value, int) or abs(value) < 1 << 63
    return isinstance(value, (int, float)) and value == value and fits  # noqa: PLR0124  (no NaN)


def _message(ctx: StateContext, session_id: str, message: Any) -> Json:
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        msg = f"session {session_id!r} has a message that is not an object with a role"
        raise Invalid(msg, hint=HINT)
    _check_numbers(session_id, {name: message.get(name) for name in ("timestamp", "token_count")})
    decoded = dict(message)
    for field in (
        "reasoning_details",
        "codex_reasoning_items",
        "codex_message_items",
        "tool_calls",
    ):
        if isinstance(decoded.get(field), str):
            as_it_is = ctx.redact is None and field != "tool_calls"
            decoded[field] = JsonText(decoded[field]) if as_it_is else _decoded(decoded[field])
    return decoded


def _decoded(text: str) -> Any:
    """Exports have tool calls decoded; other programs may write them as the text they are."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
