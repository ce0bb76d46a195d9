"""Values that a text column cannot hold: kept readable in the column, exactly beside it.

A lone surrogate is no UTF-8, a list of parts is no text. The column gets what a person (or Hermes)
can read, `tk_exact` the value itself, and reading gives the value back.
"""

import base64
import binascii
import json
import logging
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from threadkeep.base.hashes import content_hash, fingerprint
from threadkeep.base.text import pattern
from threadkeep.base.tx import Tx
from threadkeep.errors import Invalid
from threadkeep.state.context import Json

# ------------------------------------------------------------------------------
# How long values of ended sessions are kept apart: cut out, packed, and put back when read.
#
# In the column a short marker takes the place of each blob; what Hermes would decode becomes NULL,
# or
# stays valid JSON. `pieces` tells which characters of the column stand for which blob, so what is
# left of a value is stored once. Nothing is moved unless it is asked for: that is in `moving`.

log = logging.getLogger(__name__)

FIELDS: Final = (
    *("content", "tool_calls", "reasoning", "reasoning_details"),
    "codex_reasoning_items",
)
# Tool output up to this length is replayed whole, and so are the arguments of a call.
LONG: Final = 8192
# Of longer output this much stays, so that a reader sees what it was.
_HEAD: Final = 1024
_RUN: Final = pattern(r"[A-Za-z0-9+/_-]++={0,2}")
_STRING: Final = pattern(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"(\s*:)?', re.DOTALL)
# What is one character after decoding; two halves of one are written as two escapes.
_ESCAPES: Final = pattern(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u....|\\.|[^\\]++", re.DOTALL)

Span = tuple[int, int]


class BlobSpan(NamedTuple):
    """So many characters of the column, from `at` on, stand for a blob."""

    at: int
    length: int
    hash: str


class Blob(NamedTuple):
    """A text that was cut out, packed as `codec` says."""

    hash: str
    codec: str
    size: int
    data: bytes


class Cut(NamedTuple):
    """What is left in the column, and what was taken out of it."""

    column: str | None
    pieces: tuple[BlobSpan, ...]
    blobs: tuple[Blob, ...]


# ---------------------------------------------------------------------- packing


def pack(text: str) -> Blob:
    """Make a text as small as it gets: base64 becomes bytes again if that can be undone exactly."""
    prefix, raw = _plain_bytes(text)
    packed = zlib.compress(raw, 6)
    codec, data = (f"{prefix}+zlib", packed) if len(packed) < len(raw) else (prefix, raw)
    return Blob(content_hash(text), codec, len(text), data)


def _plain_bytes(text: str) -> tuple[str, bytes]:
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return "text", text.encode()
    return ("base64", raw) if base64.b64encode(raw).decode() == text else ("text", text.encode())


def unpack(codec: str, data: bytes) -> str:
    """Return the text again; ValueError if the data is not what `pack` made."""
    try:
        kind, _, packed = codec.partition("+")
        raw = zlib.decompress(data) if packed == "zlib" else data
    except zlib.error as error:
        raise ValueError(str(error)) from error
    return base64.b64encode(raw).decode() if kind == "base64" else raw.decode()


def marker(blob_hash: str, size: int) -> str:
    """Say in the column what was taken out; without quotes, so that it fits into any JSON."""
    return f"{_marker_of(blob_hash)} {size:,} characters, kept by threadkeep]"


def _marker_of(blob_hash: str) -> str:
    return f"[blob {blob_hash}:"


# ---------------------------------------------------------------------- cutting


def cut(field: str, role: str, text: str, min_chars: int) -> Cut | None:
    """Cut the long parts out of the value of a column; None if it has none."""
    if field == "content":
        return _take_out(text, content_spans(text, role, min_chars))
    if field == "tool_calls":
        return cut_json(text, max(min_chars, LONG))
    if len(text) < min_chars:
        return None
    blob = pack(text)  # a model must not be shown a marker for its own thoughts
    return Cut(None, (BlobSpan(0, 0, blob.hash),), (blob,))


def cut_json(text: str, min_chars: int) -> Cut | None:
    """Cut the long strings out of a JSON text, which stays JSON; None if it has none."""
    found = _take_out(text, json_spans(text, min_chars))
    return found if found is not None and _is_json(found.column or "") else None


def content_spans(text: str, role: str, min_chars: int) -> list[Span]:
    """Find what goes out of a message's text: base64, and all but the head of long tool output."""
    runs = [found.span() for found in _RUN.finditer(text) if _length(found.span()) >= min_chars]
    if role == "tool" and len(text) - sum(map(_length, runs)) > max(min_chars, LONG):
        return [(min([_HEAD, *(start for start, _ in runs)]), len(text))]
    return runs


def json_spans(text: str, min_chars: int) -> list[Span]:
    """Find the long strings in a JSON text; inside a string that is JSON itself, those in there.

    The arguments of a tool call are such a string: they stay JSON, too.
    """
    if len(text) < min_chars or not _is_json(text):
        return []
    return [
        span
        for start, end in _long_strings(text, min_chars)
        for span in _spans_within(text, start, end, min_chars)
    ]


def _long_strings(text: str, min_chars: int) -> list[Span]:
    """Find the insides of long strings, but not of the names of fields."""
    found = (string.span(1) for string in _STRING.finditer(text) if string[2] is None)
    return [span for span in found if _length(span) >= min_chars]


def _spans_within(text: str, start: int, end: int, min_chars: int) -> list[Span]:
    decoded = json.loads(f'"{text[start:end]}"')
    if decoded[:1] not in ("{", "[") or not _is_json(decoded):
        return [(start, end)]
    edges = [edge for span in _long_strings(decoded, min_chars) for edge in span]
    raw = [start + offset for offset in _raw_offsets(text[start:end], edges)]
    return list(zip(raw[::2], raw[1::2], strict=True))


def _raw_offsets(escaped: str, wanted: Iterable[int]) -> list[int]:
    """Tell where in an escaped string its decoded characters are; `wanted` goes upwards."""
    offsets, decoded = [], 0
    tokens = _ESCAPES.finditer(escaped)
    token, width = None, 0
    for offset in wanted:
        while token is None or decoded + width <= offset:
            decoded += width
            token = next(tokens, None)
            if token is None:
                offsets.append(len(escaped))
                break
            width = 1 if token[0][0] == "\\" else len(token[0])
        else:
            offsets.append(token.start() + offset - decoded)
    return offsets


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _length(span: Span) -> int:
    return span[1] - span[0]


def _take_out(text: str, spans: Sequence[Span]) -> Cut | None:
    left: list[str] = []
    pieces: list[BlobSpan] = []
    blobs: list[Blob] = []
    done = at = 0
    for start, end in spans:
        blob = pack(text[start:end])
        sign = marker(blob.hash, blob.size)
        at += start - done
        left += (text[done:start], sign)
        pieces.append(BlobSpan(at, len(sign), blob.hash))
        blobs.append(blob)
        at, done = at + len(sign), end
    return Cut("".join([*left, text[done:]]), tuple(pieces), tuple(blobs)) if pieces else None


def rebuild(column: str | None, pieces: Iterable[BlobSpan], texts: Mapping[str, str]) -> str:
    """Make the original of a column again; KeyError if a blob is not among the texts."""
    stored, done = column or "", 0
    whole: list[str] = []
    for at, length, blob_hash in pieces:
        whole += (stored[done:at], texts[blob_hash])
        done = at + length
    return "".join([*whole, stored[done:]])


def read_pieces(text: str) -> tuple[BlobSpan, ...]:
    """Read what `tk_offloaded` says about a column; ValueError if it is not one."""
    try:
        return tuple(BlobSpan(int(at), int(size), str(name)) for at, size, name in json.loads(text))
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from error


def still_fits(stored: object, pieces: str) -> bool:
    """Tell whether a column still has the markers that pieces are about: others may change it."""
    try:
        parts = read_pieces(pieces)
    except ValueError:
        return True  # the note is damaged, not the column: a check names it
    if any(part.length == 0 for part in parts):
        return stored is None
    return isinstance(stored, str) and all(
        stored[part.at : part.at + part.length].startswith(_marker_of(part.hash)) for part in parts
    )


# ---------------------------------------------------------------------- putting back


def inline_messages(tx: Tx, messages: Sequence[Json]) -> None:
    """Put offloaded values back into messages that were read from their columns."""
    if not messages:
        return
    ids = [message["id"] for message in messages]
    found = tx.all("offloaded_between", {"first": min(ids), "last": max(ids)})
    if found:
        by_id = {message["id"]: message for message in messages}
        texts: dict[str, str] = {}
        for message_id, field, pieces in found:
            if message_id in by_id and field in FIELDS:
                _inline(tx, by_id[message_id], field, pieces, texts)


def _inline(tx: Tx, message: Json, field: str, pieces: str, texts: dict[str, str]) -> None:
    """A blob that is lost must not take the rest of the conversation with it: the marker stays."""
    try:
        parts = read_pieces(pieces)
        if not still_fits(message[field], pieces):
            msg = "the column was changed meanwhile"
            raise ValueError(msg)  # noqa: TRY301
        for blob_hash in {part.hash for part in parts} - texts.keys():
            texts[blob_hash] = read_blob(tx, blob_hash)
        message[field] = rebuild(message[field], parts, texts)
    except ValueError as error:
        log.warning(
            "message %s: %s is kept apart and was left out: %s", message["id"], field, error
        )


def read_blob(tx: Tx, blob_hash: str) -> str:
    """Read a blob and check it; ValueError says what is wrong with it."""
    row = tx.one("get_blob", {"hash": blob_hash})
    if row is None:
        msg = f"the blob {blob_hash} is missing"
        raise ValueError(msg)
    return checked_text(blob_hash, *row)


def checked_text(blob_hash: str, codec: Any, data: Any) -> str:
    """Unpack a blob and compare it with its hash; ValueError if it is another text."""
    try:
        text = unpack(codec, data)
    except (ValueError, TypeError, AttributeError) as error:
        msg = f"the blob {blob_hash} cannot be unpacked: {error}"
        raise ValueError(msg) from error
    if content_hash(text) != blob_hash:
        msg = f"the blob {blob_hash} has changed since it was written"
        raise ValueError(msg)
    return text


_SURROGATE = pattern("[\ud800-\udfff]")
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
    """Return the value that `to_column` kept; ValueError if it is damaged."""
    if kind == "bytes":
        return _as_bytes(value)
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
    hash_ = fingerprint_of_exact(owner, key, field, kind, value)
    if isinstance(value, bytes) and tx.engine == "postgres":
        value = value.hex()  # there a column has one type
    row = {"owner": owner, "key": key, "field": field, "kind": kind, "value": value}
    tx.run("put_exact", {**row, "hash": hash_})


def fingerprint_of_exact(
    owner: str, key: int | str, field: str, kind: str, value: str | bytes
) -> int:
    """Return the fingerprint of an exact value, whatever types its columns have."""
    if owner == "message" and isinstance(key, str) and key.isdigit():
        key = int(key)
    return fingerprint((owner, key, field, kind, _as_bytes(value) if kind == "bytes" else value))


def _as_bytes(value: str | bytes) -> bytes:
    return bytes.fromhex(value) if isinstance(value, str) else value


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
