"""JSON that other programs stored, made one line of a record without being written anew."""

from pathlib import Path
from typing import Any, Final

import msgspec

from threadkeep.base.trouble import translate_os
from threadkeep.errors import Invalid, NotFound
from threadkeep.sources.decoding import decode_line
from threadkeep.sources.files import LogFile

_check = msgspec.json.Decoder(msgspec.Raw)
# Inside JSON these bytes are white space between values, never a part of one.
_BREAKS: Final = bytes.maketrans(b"\r\n", b"  ")


def one_line(stored: str | bytes) -> bytes:
    """Give stored JSON as one line; what is no JSON becomes a JSON text, so nothing is lost."""
    raw = stored.encode("utf-8", "replace") if isinstance(stored, str) else bytes(stored)
    try:
        _check.decode(raw)
        raw.decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return msgspec.json.encode(raw.decode("utf-8", "replace"))
    return raw.translate(_BREAKS) if b"\n" in raw or b"\r" in raw else raw


def wrap(about: dict[str, Any], name: str, stored: bytes) -> bytes:
    """Write `about` as an object with one line of stored JSON as its last member."""
    head = msgspec.json.encode(about)
    comma = b"," if about else b""
    return b"".join((head[:-1], comma, msgspec.json.encode(name), b":", stored, b"}"))


def stored_object(stored: object) -> dict[str, Any]:
    """Read a stored JSON object; empty if it is none."""
    if isinstance(stored, str):
        stored = stored.encode("utf-8", "replace")
    if not isinstance(stored, bytes):
        return {}
    try:
        found = decode_line(stored)
    except Invalid:
        return {}
    return found[0] if found and isinstance(found[0], dict) else {}


def file_bytes(path: Path, root: str) -> bytes:
    """Read a whole file of another program; nothing on the way from the root may be a link."""
    try:
        with LogFile(str(path), root) as file:
            return file.whole()
    except FileNotFoundError:
        raise NotFound(f"{path} is gone", hint="what was read of it is kept") from None
    except OSError as error:
        raise translate_os(error, path, "cannot read") from error
