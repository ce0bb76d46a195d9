"""How values of a message become columns, and what readers get back from them."""

import json
import logging
import re
from typing import Any, Final

from threadkeep.state.context import Json
from threadkeep.state.exact import JsonText, dump

log = logging.getLogger(__name__)

# A list or dict as content: no text of a conversation begins with a NUL.
_STRUCTURED: Final = "\0json:"
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def whole_text(text: str) -> str:
    """Give text that is valid UTF-8: half a character becomes U+FFFD."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def encode_content(value: Any) -> Any:
    """Give the column for a content: text and numbers as they are, what has parts as JSON."""
    if isinstance(value, str):
        return whole_text(str.__str__(value))
    if value is None or isinstance(value, (bytes, int, float)):
        return value
    try:
        return _STRUCTURED + json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        log.warning("a content of %s is no JSON and is stored as its text", type(value).__name__)
        return whole_text(str(value))


def decode_content(column: Any) -> Any:
    """Give the value that `encode_content` stored; a damaged one as the text it is."""
    if not (isinstance(column, str) and column.startswith(_STRUCTURED)):
        return column
    try:
        return json.loads(column.removeprefix(_STRUCTURED))
    except (ValueError, RecursionError):
        log.warning("a content says that it is JSON and is none; its text is given")
        return column


def encode_json(value: Any, field: str) -> str:
    """Give the column for what is JSON; text is taken for JSON already."""
    return whole_text(str.__str__(value)) if isinstance(value, str) else dump(value, field)


def parse_calls(value: Any) -> Any:
    """Give tool calls as a value, also where they come as JSON text; broken text is none."""
    if not isinstance(value, str) or isinstance(value, JsonText):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        log.warning("tool calls that are no JSON were left out")
        return []


def encode_metadata(value: Any) -> str | None:
    """Give the column for what is shown with a message: the JSON of a dict, else NULL."""
    meaning = _as_dict(value) if value else None
    return json.dumps(meaning) if meaning else None


def decode_metadata(column: Any) -> Json | None:
    """Give what is shown with a message, None where the column holds no dict."""
    return None if column is None else _as_dict(column)


def _as_dict(value: Any) -> Json | None:
    found = value
    for _ in range(2):  # some programs have written JSON of JSON
        if isinstance(found, str):
            try:
                found = json.loads(found)
            except (ValueError, RecursionError):
                break
    if isinstance(found, dict):
        return found
    log.warning("display metadata that is no JSON object was left out")
    return None
