"""Messages as they are read: the rows of a session, a page of them, or those around one."""

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from threadkeep.base.tx import Tx
from threadkeep.errors import Invalid
from threadkeep.state.context import Json, StateContext, reading
from threadkeep.state.messages import mark_messages
from threadkeep.state.rows import (
    complete_messages,
    decode_content,
    decode_json,
    decode_metadata,
    encode_content,
    encode_metadata,
    whole_text,
)

_LAST_ID: Final = (1 << 63) - 1
_PAGE: Final = 500
# By these two rows are copies of one message: a compaction copies what it keeps.
_COPIED: Final = ("role", "content", "timestamp", "tool_call_id", "tool_calls", "tool_name")


class PageUnclear(Invalid, ValueError):
    """These ways of choosing a page exclude each other."""


def get_messages(
    ctx: StateContext,
    tx: Tx,
    session_id: str,
    include_inactive: bool = False,  # noqa: FBT001, FBT002
    include_compacted: bool = False,  # noqa: FBT001, FBT002
    limit: int | None = None,
    offset: int = 0,
    latest: bool = False,  # noqa: FBT001, FBT002
    after_id: int | None = None,
    *,
    before_id: int | None = None,
) -> list[Json]:
    """Return the messages of a session in the order they were written, all columns.

    Those that were taken back come with `include_inactive`, those that were summarised with
    `include_compacted`, each once. `after_id` and `before_id` page through long sessions; `latest`
    counts `limit` and `offset` from the end. Tool calls are decoded, other JSON columns are text.
    """
    if after_id is not None and (latest or offset or include_compacted):
        msg = "after_id goes with neither offset nor latest nor include_compacted"
        raise PageUnclear(msg, hint="page by after_id and limit, or by offset and limit")
    params = {
        "session_id": session_id,
        "after": 0 if after_id is None else after_id,
        "before": _LAST_ID if before_id is None else before_id,
        "inactive": include_inactive,
        "compacted": include_compacted,
        "limit": -1 if limit is None else limit,
        "offset": offset,
    }
    query = "get_latest_messages" if latest else "get_messages"
    if not include_compacted or include_inactive:
        rows = tx.dicts(query, params)
    else:
        found = _without_copies(tx.dicts(query, {**params, "limit": -1, "offset": 0}), latest)
        rows = found[offset : None if limit is None else offset + limit]
    return as_messages(ctx, tx, rows[::-1] if latest else rows)


def _without_copies(rows: list[Json], latest: bool) -> list[Json]:  # noqa: FBT001
    """Leave one row of each message: the live one, else the newest."""
    chosen: dict[tuple[Any, ...], Json] = {}
    for row in rows:
        key = tuple(row[name] for name in _COPIED)
        other = chosen.get(key)
        if other is None or (row["active"], row["id"]) > (other["active"], other["id"]):
            chosen[key] = row
    return sorted(chosen.values(), key=lambda row: int(row["id"]), reverse=latest)


def as_messages(ctx: StateContext, tx: Tx, rows: list[Json]) -> list[Json]:
    """Turn rows into what callers get: content, tool calls and display metadata as values."""
    for message in complete_messages(ctx, tx, rows):
        if message["tool_calls"]:
            message["tool_calls"] = decode_json(
                message["tool_calls"], message["id"], "tool_calls", []
            )
        if message["display_metadata"] is not None:
            message["display_metadata"] = decode_metadata(message["display_metadata"])
    return rows


def iter_messages(
    ctx: StateContext, session_id: str, page: int = _PAGE, *, include_inactive: bool = False
) -> Iterator[Json]:
    """Yield the messages of a session one by one, one page in memory at a time."""
    after = 0
    wanted = partial(get_messages, ctx, session_id=session_id, include_inactive=include_inactive)
    while True:
        rest = partial(wanted, limit=page, after_id=after)
        messages = reading(ctx, rest)
        yield from messages
        if len(messages) < max(page, 1):
            return
        after = messages[-1]["id"]


def get_message(ctx: StateContext, tx: Tx, message_id: int) -> Json | None:
    """Return one message with all its columns, None if there is none."""
    found = as_messages(ctx, tx, tx.dicts("whole_message", {"id": message_id}))
    return found[0] if found else None


# ---------------------------------------------------------------------- around one


def get_messages_around(
    ctx: StateContext, tx: Tx, session_id: str, around_message_id: int, window: int = 5
) -> Json:
    """Return a message with up to `window` neighbours on each side, and how many there are.

    Nothing is in the window if the session has no such message.
    """
    if tx.one("message_of_session", {"id": around_message_id, "session_id": session_id}) is None:
        return {"window": [], "messages_before": 0, "messages_after": 0}
    any_row = partial(get_messages, ctx, tx, session_id, include_inactive=True)
    size = max(window, 0)
    earlier = any_row(limit=size + 1, latest=True, before_id=around_message_id + 1)
    later = any_row(limit=size, after_id=around_message_id)
    return {
        "window": [*earlier, *later],
        "messages_before": len(earlier) - 1,
        "messages_after": len(later),
    }


def get_anchored_view(
    ctx: StateContext,
    tx: Tx,
    session_id: str,
    around_message_id: int,
    window: int = 5,
    bookend: int = 3,
    keep_roles: Sequence[str] | None = ("user", "assistant"),
) -> Json:
    """Return a message with its neighbours, and the beginning and end of its session.

    Of the neighbours only `keep_roles` are given, of the beginning and the end only what has text
    and is not in the window already.
    """
    view = get_messages_around(ctx, tx, session_id, around_message_id, window)
    view |= {"bookend_start": [], "bookend_end": []}
    found: list[Json] = view["window"]
    if not found:
        return view
    if keep_roles is not None:
        view["window"] = [
            message
            for message in found
            if message["role"] in keep_roles or message["id"] == around_message_id
        ]
    params = {
        "session_id": session_id,
        "before": found[0]["id"],
        "after": found[-1]["id"],
        "roles": None if keep_roles is None else json.dumps(list(keep_roles)),
        "limit": max(bookend, 0),
    }
    view["bookend_start"] = as_messages(ctx, tx, tx.dicts("first_said", params))
    view["bookend_end"] = as_messages(ctx, tx, tx.dicts("last_said", params)[::-1])
    return view


# ---------------------------------------------------------------------- single facts


def message_count(_ctx: StateContext, tx: Tx, session_id: str | None = None) -> int:
    """Count the messages of a session, or of all, including rewound and summarised ones."""
    return int(tx.value("count_messages", {"session_id": session_id or None}))


def has_archived_messages(_ctx: StateContext, tx: Tx, session_id: str) -> bool:
    """Return whether any message of a session was rewound or summarised."""
    return tx.one("any_inactive", {"session_id": session_id}) is not None


def get_active_message_watermark(_ctx: StateContext, tx: Tx, session_id: str) -> int:
    """Return the highest id among the live messages of a session, 0 if there is none."""
    return int(tx.value("highest_active", {"session_id": session_id}) or 0)


def get_active_message_ids(_ctx: StateContext, tx: Tx, session_id: str) -> list[int]:
    """Return the ids of the live messages of a session, in order."""
    return [int(row[0]) for row in tx.all("active_ids", {"session_id": session_id})]


def has_platform_message_id(
    _ctx: StateContext, tx: Tx, session_id: str, platform_message_id: str
) -> bool:
    """Return whether a message of the messenger is already stored in a session."""
    params = {"session_id": session_id, "name": platform_message_id}
    return tx.one("platform_message", params) is not None


def latest_message_row_id(
    _ctx: StateContext,
    tx: Tx,
    session_id: str,
    *,
    role: str = "user",
    offset: int = 0,
    require_text: bool = True,
) -> int | None:
    """Return the newest live message of the user or the assistant, or one `offset` before it."""
    if not session_id or role not in ("user", "assistant") or offset < 0:
        return None
    params = {"session_id": session_id, "role": role, "offset": int(offset)}
    found = tx.value("latest_of_role", {**params, "text": require_text})
    return None if found is None else int(found)


def latest_user_message_row_id(ctx: StateContext, tx: Tx, session_id: str) -> int | None:
    """Return the newest live message of the user."""
    return latest_message_row_id(ctx, tx, session_id, role="user")


def get_message_role(_ctx: StateContext, tx: Tx, session_id: str, row_id: int) -> str | None:
    """Return the role of a live message of a session."""
    found = tx.value("role_of_message", {"id": int(row_id), "session_id": session_id})
    return None if found is None else str(found)


def find_pr_url_messages(_ctx: StateContext, tx: Tx, session_ids: Sequence[str]) -> list[Json]:
    """Return tool messages of these sessions that contain a pull request's URL, oldest first."""
    named = json.dumps([session_id for session_id in session_ids if session_id])
    return tx.dicts("pull_requests", {"session_ids": named})


# ------------------------------------------------------------------------------
# What is noted on a message after it was said: reactions, how it is shown, what was sent of it.

_KEY: Final = "reactions"


def set_message_reaction(
    ctx: StateContext,
    tx: Tx,
    session_id: str,
    message_row_id: int,
    emoji: str | None,
    *,
    author: str = "user",
) -> list[Json] | None:
    """Set or remove a person's one reaction on a message; return all its reactions.

    The same emoji again, or None, takes it away. None is given if the session has no such message.
    """
    meta = _metadata(tx, session_id, message_row_id)
    if meta is None:
        return None
    found = _reactions(meta)
    others = [each for each in found if each.get("author") != author]
    own = [each.get("emoji") for each in found if each.get("author") == author]
    if emoji and emoji not in own[:1]:
        others.append({"emoji": whole_text(emoji), "author": author, "at": ctx.clock()})
    _put_metadata(ctx, tx, message_row_id, {**meta, _KEY: others})
    return others


def get_message_reactions(
    _ctx: StateContext, tx: Tx, session_id: str, message_row_id: int
) -> list[Json]:
    """Return the reactions on a message."""
    return _reactions(_metadata(tx, session_id, message_row_id) or {})


def take_unseen_reactions(
    ctx: StateContext, tx: Tx, session_id: str, *, author: str = "user"
) -> list[Json]:
    """Return an author's reactions that were not returned before, with their messages."""
    taken: list[Json] = []
    for message_id, role, content, column in tx.all("shown_with", {"session_id": session_id}):
        meta = decode_metadata(column) or {}
        fresh = [
            each
            for each in _reactions(meta)
            if each.get("author") == author and not each.get("seen")
        ]
        for each in fresh:
            each["seen"] = True
            said = decode_content(content)
            text = said if isinstance(said, str) else ""
            emoji = each.get("emoji") or ""
            taken.append({"row_id": message_id, "role": role, "emoji": emoji, "text": text})
        if fresh:
            _put_metadata(ctx, tx, message_id, meta)
    return taken


def _metadata(tx: Tx, session_id: str, message_id: int) -> Json | None:
    """Read what is shown with a message, None if the session has no such message."""
    found = tx.one("metadata_of", {"id": message_id, "session_id": session_id})
    return None if found is None else decode_metadata(found[0]) or {}


def _reactions(meta: Json) -> list[Json]:
    found = meta.get(_KEY)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _put_metadata(ctx: StateContext, tx: Tx, message_id: int, meta: Json) -> None:
    if not meta.get(_KEY):
        meta = {name: value for name, value in meta.items() if name != _KEY}
    mark_messages(ctx, tx, [message_id], {"display_metadata": encode_metadata(meta)})


# ---------------------------------------------------------------------- shown and sent


def set_latest_matching_message_display_kind(
    ctx: StateContext,
    tx: Tx,
    session_id: str,
    *,
    role: str,
    content: str,
    display_kind: str,
    display_metadata: Any = None,
) -> bool:
    """Set how the newest live message with this text is shown; False if there is none."""
    if not session_id or not content or not display_kind:
        return False
    params = {"session_id": session_id, "role": role, "content": encode_content(content)}
    found = tx.one("latest_with_content", params)
    if found is None:
        return False
    shown: Json = {"display_kind": whole_text(display_kind)}
    shown["display_metadata"] = encode_metadata(display_metadata)
    mark_messages(ctx, tx, [found[0]], shown)
    return True


def set_latest_user_api_content(
    ctx: StateContext, tx: Tx, session_id: str, content: Any, api_content: str
) -> int:
    """Record what was sent for the user's newest live message, if its text is `content`."""
    found = tx.one("latest_of_user", {"session_id": session_id})
    if found is None or found[1] != encode_content(content):
        return 0
    return mark_messages(ctx, tx, [found[0]], {"api_content": whole_text(api_content)})


def set_message_api_content(
    ctx: StateContext, tx: Tx, session_id: str, row_id: int, content: Any, api_content: str
) -> int:
    """Record what was sent for a live message of the user, if its text is `content`."""
    found = tx.one("said_by_user", {"id": row_id, "session_id": session_id})
    if found is None or found[0] != encode_content(content):
        return 0
    return mark_messages(ctx, tx, [row_id], {"api_content": whole_text(api_content)})
