"""Titles: cleaned, unique, numbered along a lineage; and who gave them."""

import re
from collections.abc import Iterable
from typing import Any, Final

from threadkeep.base.tx import Tx
from threadkeep.errors import Conflict, Invalid, TooLarge
from threadkeep.state.context import Json, StateContext, clean
from threadkeep.state.rows import (
    read_session,
    read_sessions,
    update_rows,
    update_session,
    update_session_texts,
)
from threadkeep.state.session_config import need_session
from threadkeep.state.sessions import escape_like
from threadkeep.state.side_values import to_column

# ------------------------------------------------------------------------------
# Marks of sessions: pinned, archived, hidden, read; set on a whole chain of compressions.
#
# In a file that has no columns for them yet, our side tables keep pins, archive and who gave a
# title.

_BESIDE: Final = {
    "pinned": "set_pinned",
    "archived": "set_archived",
    "title_source": "set_title_source",
}


def set_session_pinned(ctx: StateContext, tx: Tx, session_id: str, pinned: bool = True) -> bool:  # noqa: FBT001, FBT002
    """Pin a session, so that pruning keeps it; False if no such session exists."""
    return _mark_chain(ctx, tx, session_id, "pinned", int(bool(pinned)))


def set_session_archived(ctx: StateContext, tx: Tx, session_id: str, archived: bool = True) -> bool:  # noqa: FBT001, FBT002
    """Archive a session, so that lists leave it out; False if no such session exists."""
    return _mark_chain(ctx, tx, session_id, "archived", int(bool(archived)))


def set_session_hidden(ctx: StateContext, tx: Tx, session_id: str, hidden: bool) -> bool:  # noqa: FBT001
    """Hide a session from lists that do not include hidden ones; False if it does not exist."""
    return _mark_chain(ctx, tx, session_id, "hidden", int(bool(hidden)))


def set_session_read(ctx: StateContext, tx: Tx, session_id: str, read: bool = True) -> bool:  # noqa: FBT001, FBT002
    """Mark a session as read now, or as unread; False if it does not exist."""
    return _mark_chain(ctx, tx, session_id, "last_read_at", ctx.clock() if read else 0.0)


def _mark_chain(ctx: StateContext, tx: Tx, session_id: str, column: str, value: Any) -> bool:
    """A list shows a chain as its last session: what is done to one is done to all of them."""
    members = [str(row[0]) for row in tx.all("compressed_family", {"id": session_id})]
    put_mark(ctx, tx, members, column, value)
    return bool(members)


def put_mark(ctx: StateContext, tx: Tx, ids: Iterable[str], column: str, value: Any) -> None:
    """Write a mark of sessions where the file keeps it."""
    in_column = column in ctx.form.tables["sessions"]
    beside = _BESIDE.get(column) if ctx.side else None
    for session_id in ids:
        if beside is not None:
            at = ctx.clock() if value else None
            tx.run(beside, {"id": session_id, "at": at, "source": value})
        if in_column or beside is None:
            update_rows(ctx, tx, "sessions", {"id": session_id}, {column: value})


MAX_TITLE_LENGTH: Final = 100
# Who gives titles; an automatic one replaces only what ranks lower.
DERIVED, LLM, USER = "derived", "llm", "user"
_RANKS: Final = {DERIVED: 0, LLM: 1, USER: 2}

# Control characters, and those that are not seen but change how text is read.
_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffc]"
)
_SPACE: Final = re.compile(r"\s+")
_NUMBERED: Final = re.compile(r"(.*?) #(\d+)", re.DOTALL)
_LONGEST_NUMBER: Final = 18  # digits that fit the 64 bits of a database


class TitleTooLong(TooLarge, ValueError):
    """A title has more characters than a title may have."""


class TitleTaken(Conflict, ValueError):
    """Another session has this title."""


class BadTitleSource(Invalid, ValueError):
    """Nobody of this name gives titles."""


def sanitize_title(title: str | None) -> str | None:
    """Clean a title: no control or invisible characters, single spaces; None if nothing is left."""
    if not title:
        return None
    cleaned = _cleaned(title)
    if len(cleaned) > MAX_TITLE_LENGTH:
        msg = f"Title too long ({len(cleaned)} chars, max {MAX_TITLE_LENGTH})"
        raise TitleTooLong(msg)
    return cleaned or None


def set_session_title(ctx: StateContext, tx: Tx, session_id: str, title: str | None) -> bool:
    """Set the title of a session, which must be unique; False if no such session exists.

    A title that an earlier session of the same chain of compressions has moves on to this one.
    """
    return _set(ctx, tx, session_id, sanitize_title(clean(ctx, title)), USER)


def set_auto_title(
    ctx: StateContext, tx: Tx, session_id: str, title: str, *, source: str | None = None
) -> bool | str | None:
    """Propose a title, which never replaces one that a user gave.

    With a source, `derived` or `llm`, it replaces only what ranks lower, a clash is refused, and
    the answer is whether it was set. Without one it replaces any automatic title, a clash gets a
    number, and the answer is the title that the session has afterwards.
    """
    if source is None:
        return _propose(ctx, tx, session_id, title)
    if source not in (DERIVED, LLM):
        msg = f"an automatic title does not come from {source!r}"
        raise BadTitleSource(msg, hint=f"use {DERIVED} or {LLM}")
    row = tx.one("title_and_source", {"id": session_id})
    if row is None or (row[0] is not None and _rank(row[1]) >= _rank(source)):
        return False
    return _set(ctx, tx, session_id, sanitize_title(clean(ctx, title)), source)


def set_auto_title_if_empty(ctx: StateContext, tx: Tx, session_id: str, title: str) -> bool:
    """Set a model's title of a session unless it has one of the same or a higher rank."""
    return bool(set_auto_title(ctx, tx, session_id, title, source=LLM))


def _propose(ctx: StateContext, tx: Tx, session_id: str, title: str) -> str | None:
    need_session(tx, session_id)
    row = tx.one("title_and_source", {"id": session_id})
    current, source = row or (None, None)
    if current is not None and _rank(source) >= _rank(USER):
        return str(current)
    wanted = sanitize_title(_shortened(clean(ctx, title)))
    if wanted is None:
        return None if current is None else str(current)
    owner = tx.value("title_owner", {"title": _column(wanted)})
    if owner not in (None, session_id):
        wanted = _next_title(tx, wanted)
    _set(ctx, tx, session_id, wanted, LLM)
    return wanted


def _rank(source: str | None) -> int:
    """A title of which nobody knows who gave it may be a user's; a source that is new ranks low."""
    return _RANKS[USER] if source is None else _RANKS.get(source, 0)


def _cleaned(title: str) -> str:
    return _SPACE.sub(" ", _UNSEEN.sub("", title)).strip()


def _shortened(title: str) -> str:
    return _cleaned(title)[:MAX_TITLE_LENGTH].strip()


def _column(title: str) -> str:
    return to_column(title, "title").column or ""


def _set(ctx: StateContext, tx: Tx, session_id: str, title: str | None, source: str) -> bool:
    stored = to_column(title, "title")
    owner = None if title is None else tx.value("title_owner", {"title": stored.column})
    if owner not in (None, session_id):
        ancestors = tx.all("compressed_ancestors", {"id": session_id})
        if (owner,) not in ancestors:
            msg = f"Title '{stored.column}' is already in use by session {owner}"
            raise TitleTaken(msg, hint="choose another title, or rename that session first")
        update_session(ctx, tx, owner, {"title": None})
    if not update_session_texts(ctx, tx, session_id, {"title": stored}):
        return False
    put_mark(ctx, tx, [session_id], "title_source", None if title is None else source)
    return True


def get_session_title_source(_ctx: StateContext, tx: Tx, session_id: str) -> str | None:
    """Return the source of a session's title: derived, llm or user; None without a title."""
    title, source = tx.one("title_and_source", {"id": session_id}) or (None, None)
    return None if title is None else source


def set_session_title_source(ctx: StateContext, tx: Tx, session_id: str, source: str) -> bool:
    """Change only the source of a title; False if the session or its title does not exist."""
    if source not in _RANKS:
        msg = f"a title does not come from {source!r}"
        raise BadTitleSource(msg, hint=f"use one of {', '.join(_RANKS)}")
    title, _ = tx.one("title_and_source", {"id": session_id}) or (None, None)
    if title is not None:
        put_mark(ctx, tx, [session_id], "title_source", source)
    return title is not None


def get_session_title(ctx: StateContext, tx: Tx, session_id: str) -> str | None:
    """Return the title of a session, None if it has none or does not exist."""
    title: str | None = (read_session(ctx, tx, session_id) or {}).get("title")
    return title


def get_session_by_title(ctx: StateContext, tx: Tx, title: str) -> Json | None:
    """Return the session with exactly this title."""
    column = to_column(title, "title").column
    found = read_sessions(ctx, tx, "session_by_title", {"title": column})
    return found[0] if found else None


def resolve_session_by_title(_ctx: StateContext, tx: Tx, title: str) -> str | None:
    """Return the id for a title: the newest of its numbered variants, else its own."""
    column = to_column(title, "title").column or ""
    if len(column) > MAX_TITLE_LENGTH:
        return None
    row = tx.one("newest_variant", {"pattern": f"{escape_like(column)} #%"})
    if row is None:
        row = tx.one("title_owner", {"title": column})
    return None if row is None else str(row[0])


def get_next_title_in_lineage(_ctx: StateContext, tx: Tx, base_title: str) -> str:
    """Return the next title after `base`: `base`, then `base #2`, `base #3` and so on.

    It is always one that the setter takes: a base that leaves no room for the number is shortened.
    """
    return _next_title(tx, base_title)


def _next_title(tx: Tx, title: str) -> str:
    cleaned = _cleaned(title)
    found = _NUMBERED.fullmatch(cleaned)
    base = _column(_shortened(found[1] if found else cleaned))
    rows = tx.all("titles_like", {"title": base, "pattern": f"{escape_like(base)} #%"})
    if not rows:
        return base
    numbers = [_number_after(base, str(row[0])) for row in rows]
    number = max([1, *(n for n in numbers if n is not None)]) + 1
    return _first_free(tx, base, number)


def _first_free(tx: Tx, base: str, number: int) -> str:
    while True:
        suffix = f" #{number}"
        title = base[: MAX_TITLE_LENGTH - len(suffix)].rstrip() + suffix
        if tx.value("title_owner", {"title": title}) is None:
            return title
        number += 1


def _number_after(base: str, title: str) -> int | None:
    number = title.removeprefix(f"{base} #")
    short = number.isascii() and number.isdigit() and len(number) <= _LONGEST_NUMBER
    return int(number) if number != title and short else None
