"""Values on their way to PostgreSQL and back: as SQLite keeps them, and any Python string whole.

Every value is sent as text of unknown type: the server infers the type, as it does where a query is
prepared by hand, so that one query is one prepared statement whatever is given to it.
"""

import json
import math
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from psycopg import Connection, DataError
from psycopg.adapt import Buffer, Dumper, Loader
from psycopg.pq import Format
from psycopg.types.numeric import NumericBinaryLoader

from threadkeep.errors import Invalid

# PostgreSQL's text has no NUL, and UTF-8 no half of a character. What it cannot keep is written as
# this character of the private use area and four hex digits; so is the character itself.
_ESCAPE: Final = "\uf8ff"
_ESCAPE_BYTES: Final = _ESCAPE.encode()
_END: Final = 1 << 63
_UNKNOWN: Final = 705  # the type of a literal that no one said more of
_NOT_KEPT: Final = re.compile("[\x00\ud800-\udfff\uf8ff]")
_ESCAPED: Final = re.compile(f"{_ESCAPE}([0-9a-f]{{4}})")


def escape(text: str) -> str:
    """Write a text with the characters that PostgreSQL can keep."""
    return _NOT_KEPT.sub(lambda found: f"{_ESCAPE}{ord(found[0]):04x}", text)


def unescape(text: str) -> str:
    """Read back what `escape` wrote."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)


def plain_list(listed: str) -> str:
    """Write a JSON list of texts without escapes of what PostgreSQL's own JSON refuses to read.

    NUL and halves of characters stand in it as themselves, and are escaped with the whole.
    """
    if "\\u" not in listed:
        return listed
    return f"[{','.join(map(_quoted, json.loads(listed)))}]"


def _quoted(text: str) -> str:
    parts = (json.dumps(part, ensure_ascii=False)[1:-1] for part in text.split("\0"))
    return '"' + "\0".join(parts) + '"'


class _Integer(Dumper):
    """Sends a number as text of unknown type."""

    oid = 0

    def dump(self, obj: Any) -> Buffer | None:
        if not -_END <= obj < _END:
            msg = "an integer does not fit the 64 bits of a database column"
            raise Invalid(msg, hint="store such numbers inside JSON")
        return b"%d" % obj

    def quote(self, obj: Any) -> Buffer:
        return b" %d" % obj  # as part of a statement that takes no parameters, such as FETCH


class _Text(Dumper):
    oid = 0

    def dump(self, obj: str) -> Buffer | None:
        if not obj.isascii() or "\0" in obj:
            obj = escape(obj)
        return obj.encode()


class _Real(Dumper):
    oid = 0

    def dump(self, obj: float) -> Buffer | None:
        return None if math.isnan(obj) else repr(obj).encode()  # NaN is NULL in SQLite


class Packed(NamedTuple):
    """Values of one type as one parameter: an array, in the form that the server keeps."""

    data: bytes


class _PackedArray(Dumper):
    oid = 0
    format = Format.BINARY

    def dump(self, obj: Packed) -> Buffer | None:
        return obj.data


class _Several(Dumper):
    """Refuses what would be an array: a column holds one value."""

    def dump(self, obj: Any) -> Buffer | None:
        msg = f"a column does not accept a {type(obj).__name__}"
        raise DataError(msg)


class _AnyText(Loader):
    """Reads a text of either format: both are its UTF-8."""

    def load(self, data: Buffer) -> str:
        found = bytes(data)
        text = found.decode()
        return unescape(text) if _ESCAPE_BYTES in found else text


class _BinaryText(_AnyText):
    format = Format.BINARY


class _Truth(Loader):
    """Reads a boolean as the number that SQLite gives."""

    def load(self, data: Buffer) -> int:
        return int(bytes(data) == b"t")


class _BinaryTruth(Loader):
    format = Format.BINARY

    def load(self, data: Buffer) -> int:
        return int(bytes(data) == b"\x01")


class _Number(Loader):
    """Reads a numeric, which is what a sum of integers is."""

    def load(self, data: Buffer) -> int | float:
        return _number(bytes(data).decode())


class _BinaryNumber(NumericBinaryLoader):
    def load(self, data: Buffer) -> Any:
        return _number(str(super().load(data)))


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


# ---------------------------------------------------------------------- arrays

# Dimensions, whether one is NULL, their type, how many, the number of the first.
_HEAD: Final = struct.Struct(">iiIii").pack
_SIZE: Final = struct.Struct(">i").pack
_NULL: Final = _SIZE(-1)
_LONG: Final = struct.Struct(">iq").pack
_DOUBLE: Final = struct.Struct(">id").pack


def _packed_text(value: str) -> bytes:
    data = (value if value.isascii() and "\0" not in value else escape(value)).encode()
    return _SIZE(len(data)) + data


def _packed_bytes(value: bytes) -> bytes:
    return b"%b%b" % (_SIZE(len(value)), value)


def _packed_real(value: float) -> bytes:
    return _NULL if math.isnan(value) else _DOUBLE(8, value)


TYPES: Final = {17: "bytea", 20: "bigint", 25: "text", 701: "double precision"}
_ELEMENTS: Final[Mapping[int, Callable[[Any], bytes]]] = {
    17: _packed_bytes,
    20: lambda value: _LONG(8, value),
    25: _packed_text,
    701: _packed_real,
}


def pack_values(kind: int, values: Sequence[Any]) -> Packed | None:
    """Make an array of a type of the server; None if a value is none of that type."""
    element = _ELEMENTS.get(kind)
    if element is None:
        return None
    try:
        parts = [_NULL if value is None else element(value) for value in values]
    except (struct.error, AttributeError, TypeError):
        return None
    return Packed(b"".join((_HEAD(1, int(_NULL in parts), kind, len(parts), 1), *parts)))


def adapt(connection: Connection[Any]) -> None:
    """Let values go to a server and come back as they do with SQLite."""
    adapters = connection.adapters
    for kind, dumper in ((int, _Integer), (bool, _Integer), (float, _Real), (str, _Text)):
        adapters.register_dumper(kind, dumper)
    adapters.register_dumper(Packed, _PackedArray)
    for several in (list, tuple, dict):
        adapters.register_dumper(several, _Several)
    for name in ("text", "varchar", "bpchar", "name", _UNKNOWN):
        adapters.register_loader(name, _AnyText)
        adapters.register_loader(name, _BinaryText)
    for name, loaders in (("bool", (_Truth, _BinaryTruth)), ("numeric", (_Number, _BinaryNumber))):
        for loader in loaders:
            adapters.register_loader(name, loader)
