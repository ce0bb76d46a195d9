"""What is noted on a message after it was said: reactions, how it is shown, what was sent of it."""

from typing import Any, Final

from threadkeep.base.tx import Tx
from threadkeep.state.content import (
    decode_content,
    decode_metadata,
    encode_content,
    encode_metadata,
    whole_text,
)
from threadkeep.state.context import Json, StateContext
from threadkeep.state.copying import mark_messages

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
    """Set the one reaction of somebody on a message, or take it away; give all that are left.

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
    """Give the reactions on a message."""
    return _reactions(_metadata(tx, session_id, message_row_id) or {})


def take_unseen_reactions(
    ctx: StateContext, tx: Tx, session_id: str, *, author: str = "user"
) -> list[Json]:
    """Give somebody's reactions that were not given before, with the messages they are on."""
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
    """Say how the newest live message with this text is shown; False if there is none."""
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
    """Note what was sent for the newest live message of the user, if it says `content`."""
    found = tx.one("latest_of_user", {"session_id": session_id})
    if found is None or found[1] != encode_content(content):
        return 0
    return mark_messages(ctx, tx, [found[0]], {"api_content": whole_text(api_content)})


def set_message_api_content(
    ctx: StateContext, tx: Tx, session_id: str, row_id: int, content: Any, api_content: str
) -> int:
    """Note what was sent for a live message of the user, if it says `content`."""
    found = tx.one("said_by_user", {"id": row_id, "session_id": session_id})
    if found is None or found[0] != encode_content(content):
        return 0
    return mark_messages(ctx, tx, [row_id], {"api_content": whole_text(api_content)})
