"""Columns of the three tables as JSON: also those that another program added, whatever they hold.

Values that JSON cannot hold are written as `{"$base64": …}` (bytes) and `{"$real": "inf"}`. In
our own columns a blob is a text that UTF-8 cannot hold (see `to_sql`).
"""

import base64
import binascii
import math
from typing import Any

from threadkeep.base.text import from_sql

BYTES, REAL = "$base64", "$real"


def quoted(name: str) -> str:
    """Quote a column's name for SQL; it comes from the file, and may be anything."""
    return '"' + name.replace('"', '""') + '"'


def as_json(value: Any, *, ours: bool) -> Any:
    """Give a column's value as JSON can hold it."""
    if isinstance(value, bytes):
        try:
            if ours:
                return from_sql(value)
        except UnicodeDecodeError:
            pass
        return {BYTES: base64.b64encode(value).decode()}
    if isinstance(value, float) and not math.isfinite(value):
        return {REAL: str(value)}
    return value


def as_column(value: Any) -> Any:
    """Give what SQLite is to store for a JSON value, None if it has no type for it."""
    if isinstance(value, dict) and len(value) == 1:
        return _untagged(*next(iter(value.items())))
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else None
    return value if isinstance(value, (str, float)) else None


def _untagged(tag: str, value: Any) -> bytes | float | None:
    try:
        if tag == BYTES:
            return base64.b64decode(value, validate=True)
        return float(value) if tag == REAL else None
    except (TypeError, ValueError, binascii.Error):
        return None
