"""Values that a text column cannot hold: kept readable in the column, exactly beside it.

A lone surrogate is no UTF-8, a list of parts is no text. The column gets what a person (or Hermes)
can read, `tk_exact` the value itself, and reading gives the value back.
"""

import json
import logging
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from threadkeep.base.hashes import fingerprint
from threadkeep.base.tx import Tx
from threadkeep.errors import Invalid
from threadkeep.state.context import Json
from threadkeep.state.offload import (
    BlobSpan,
    cut_json,
    inline_messages,
    read_blob,
    rebuild,
    still_fits,
)

log = logging.getLogger(__name__)

_SURROGATE = re.compile("[\ud800-\udfff]")
_LONG: Final = 4096  # characters of a string that is worth being kept apart
_PICTURES = ("image", "image_url", "input_image")


class ColumnValue(NamedTuple):
    """What the column gets, and what goes beside it: a kind and a value, or nothing."""

    column: str | None
    exact: tuple[str, str | bytes] | None = None


def to_column(value: Any, what: str) -> ColumnValue:
    """Make the readable form of any value, and the exact one where the two differ."""
    if value is None:
        return ColumnValue(None)
    if isinstance(value, str):
        text = str.__str__(value)  # a subclass, such as an enum of roles, is stored as its text
        if text.isascii():
            return ColumnValue(text)
        readable = _SURROGATE.sub("\ufffd", text)
        return (
            ColumnValue(text)
            if readable == text
            else ColumnValue(readable, ("json", json.dumps(text)))
        )
    if isinstance(value, bytes):
        return ColumnValue(value.decode("utf-8", "replace"), ("bytes", value))
    exact = dump(value, what)
    return ColumnValue(_SURROGATE.sub("\ufffd", readable_text(value)), ("json", exact))


class JsonText(str):
    """Text that is JSON already, or was taken for it: stored as it is."""

    __slots__ = ()


def dump(value: Any, what: str) -> str:
    """Write a value as JSON, in ASCII: any text fits, half characters too."""
    if isinstance(value, JsonText):
        return str(value)
    try:
        return json.dumps(value)
    except (TypeError, ValueError, RecursionError) as error:
        msg = f"{what} cannot be stored as JSON: {error}"
        raise Invalid(msg, hint="pass text, numbers, lists and dicts") from error


def load(kind: str, value: str | bytes, read_blob: Callable[[str], str]) -> Any:
    """Give the value back that `to_column` kept; ValueError if it is damaged."""
    if kind == "bytes":
        return value
    try:
        return json.loads(_uncut(value, read_blob) if kind == "cut" else value)
    except (TypeError, KeyError, RecursionError) as error:
        raise ValueError(repr(error)) from error


def _uncut(value: str | bytes, read_blob: Callable[[str], str]) -> str:
    rest = json.loads(value)
    pieces = [BlobSpan(*piece) for piece in rest["pieces"]]
    return rebuild(rest["text"], pieces, {piece.hash: read_blob(piece.hash) for piece in pieces})


def readable_text(value: Any) -> str:
    """Show a value as text: the texts of a list of parts, a word for each picture in it."""
    if isinstance(value, (list, tuple)):
        return "\n".join(_readable_part(part) for part in value)
    return _readable_part(value)


def _readable_part(part: Any) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, dict):
        if isinstance(part.get("text"), str):
            return str(part["text"])
        if part.get("type") in _PICTURES:
            return "[image]"
    return json.dumps(part, ensure_ascii=False)


def keep(tx: Tx, owner: str, key: int | str, fields: dict[str, ColumnValue]) -> None:
    """Write the exact values of a row beside it."""
    for field, stored in fields.items():
        if stored.exact is not None:
            put(tx, owner, key, field, *stored.exact)


def put(tx: Tx, owner: str, key: int | str, field: str, kind: str, value: str | bytes) -> None:
    """Write one exact value, with a fingerprint of its own; pictures in it are kept once."""
    if kind == "json" and isinstance(value, str) and len(value) >= _LONG:
        kind, value = _without_blobs(tx, value)
    row = (owner, key, field, kind, value)
    tx.run("put_exact", (*row, fingerprint(row)))


def _without_blobs(tx: Tx, value: str) -> tuple[str, str]:
    found = cut_json(value, _LONG)
    if found is None:
        return "json", value
    for blob in found.blobs:
        tx.run("put_blob", blob._asdict())
    return "cut", json.dumps({"text": found.column, "pieces": found.pieces})


def overlay_messages(tx: Tx, messages: Sequence[Json]) -> None:
    """Put the exact values into messages that were read from their columns.

    Only where the column still has the readable form: another program may have changed it.
    """
    if not messages:
        return
    ids = [message["id"] for message in messages]
    found = tx.all("exact_messages", {"first": min(ids), "last": max(ids)})
    if found:
        by_id = {message["id"]: message for message in messages}
        for key, field, kind, value in found:
            if key in by_id:
                _overlay(tx, by_id[key], field, kind, value)


def _overlay(tx: Tx, message: Json, field: str, kind: str, value: str | bytes) -> None:
    """A picture that is lost must not take the conversation with it: the readable form stays."""
    try:
        exact = load(kind, value, partial(read_blob, tx))
    except ValueError as error:
        log.warning("message %s: %s is given as text only: %s", message["id"], field, error)
        return
    if to_column(exact, field).column == message.get(field):
        message[field] = exact


def drop_outdated(tx: Tx, message: Json) -> None:
    """Forget what is kept beside a message whose column another program has changed since.

    The columns are given as they are stored.
    """
    key = {"id": message["id"]}
    for field, pieces in tx.all("offloaded_of", key):
        if not still_fits(message.get(field), pieces):
            tx.run("drop_offloaded", {"message_id": message["id"], "field": field})
    inline_messages(tx, [message])
    for field, kind, value in tx.all("exact_of_message", key):
        try:
            exact = load(kind, value, partial(read_blob, tx))
        except ValueError:
            continue  # damage is not for us to clear away: a check names it
        if to_column(exact, field).column != message.get(field):
            tx.run("drop_exact", {"owner": "message", "key": message["id"], "field": field})


def overlay_session(tx: Tx, session: Json) -> None:
    """Put the exact values into a session that was read from its columns.

    Only where the column still has its readable form: another program may have changed it.
    """
    for field, kind, value in tx.all("exact_session", {"key": session["id"]}):
        try:
            exact = load(kind, value, partial(read_blob, tx))
        except ValueError as error:
            log.warning("session %s: %s is given as text only: %s", session["id"], field, error)
            continue
        if to_column(exact, field).column == session.get(field):
            session[field] = exact
