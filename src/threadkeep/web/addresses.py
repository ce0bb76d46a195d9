"""Addresses within the site, and the text of the filter bar with one thing changed."""

import re
from typing import Final
from urllib.parse import quote, urlencode

# The tokens of the filter bar: key:"a value", "a phrase", or anything without a space.
_TOKEN: Final = re.compile(r'-?[A-Za-z]+:"(?:[^"\\]|\\.)*"|"[^"]*"|[^\s"]+', re.DOTALL)
_PLAIN: Final = re.compile(r'[^\s"\\]+')
_SAME: Final = {"agent": ("agent", "harness", "source"), "on": ("on", "since", "until")}


def session_address(harness: str, session_id: str, key: str | None = None) -> str:
    """Give the address of a session, opened at one of its messages."""
    where = f"/sessions/{_quoted(f'{harness}:{session_id}')}"
    return where if key is None else with_query(where, at=key)


def opening_address(ref: str) -> str:
    """Give the address that opens a reference, whatever it is."""
    return f"/open/{_quoted(ref)}"


def _quoted(text: str) -> str:
    return quote(text, safe=":", errors="replace")


def with_query(path: str, **values: str | int | None) -> str:
    """Give an address with what of the values is not empty."""
    asked = {name: value for name, value in values.items() if value not in (None, "")}
    return f"{path}?{urlencode(asked, errors='replace')}" if asked else path


def refined(q: str, key: str, value: str) -> str:
    """Give the text of a filter bar in which a key has one value; an empty one takes it out."""
    names = tuple(f"{name}:" for name in _SAME.get(key, (key,)))
    kept = [one for one in _TOKEN.findall(q) if not one.lower().startswith(names)]
    return " ".join([*kept, f"{key}:{_value(value)}"] if value else kept)


def _value(value: str) -> str:
    if _PLAIN.fullmatch(value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
