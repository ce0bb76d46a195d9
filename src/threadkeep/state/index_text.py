"""What of a message goes into our own index, `tk_search`.

The contract's index has the content of most messages. Ours has only what it cannot serve, in one
of two forms:

* the whole message, if it has tool calls, a script without spaces, or a content that is not in
  the contract's index: too long, or with a picture in it;
* the name of the tool alone, for every other result of a tool.
"""

import json
from typing import Any, Final, NamedTuple

import msgspec

from threadkeep.base.fts import INDEX_LIMIT, contains_unspaced, index_text, shorten_blobs

# Names of tools have documents from this number on, whole messages below it.
NAMES_FROM: Final = 1 << 40
LAST_DOC: Final = (1 << 62) - 1

# The same as in index.sql.
_LONGEST: Final = 16_384
_PICTURE: Final = ";base64,"
# Of long output the start tells what it is and the end how it went.
_LONGEST_OUTPUT: Final = 8_192
_OUTPUT_HEAD: Final = 6_144
_OUTPUT_TAIL: Final = 2_048
_SKIPPED_KEYS: Final = frozenset({"id", "type", "call_id", "tool_call_id", "index"})
_ARGUMENTS: Final = frozenset({"arguments", "input", "args", "parameters"})


class Parts(NamedTuple):
    """The columns of a message in which people look for something."""

    role: str
    content: str | None
    tool_calls: str | None
    tool_name: str | None
    offloaded: bool = False


class Document(NamedTuple):
    """What the index gets for one message: words, and whether they are all of it or a name."""

    text: str
    whole: bool


def document_of(parts: Parts) -> Document | None:
    """Give the document of a message, None if the contract's index serves all of it."""
    if _needs_all(parts):
        return Document(index_text(_capped(parts), 3 * INDEX_LIMIT), whole=True)
    if parts.tool_name:
        return Document(index_text(parts.tool_name), whole=False)
    return None


def index_text_of(parts: Parts) -> str:
    """Give the words under which our index knows a message, '' if it does not have it."""
    document = document_of(parts)
    return "" if document is None else document.text


def _needs_all(parts: Parts) -> bool:
    return bool(
        parts.tool_calls
        or parts.offloaded
        or is_left_out(parts.content)
        or (parts.content and contains_unspaced(parts.content))
        or (parts.tool_name and contains_unspaced(parts.tool_name))
    )


def is_left_out(content: str | None) -> bool:
    """Tell whether the contract's index, in our form, leaves this content out."""
    return content is not None and (len(content) > _LONGEST or _PICTURE in content)


def _capped(parts: Parts) -> str:
    content = shorten_blobs(parts.content or "")
    if parts.role == "tool" and len(content) > _LONGEST_OUTPUT:
        content = f"{content[:_OUTPUT_HEAD]}\n{content[-_OUTPUT_TAIL:]}"
    calls = shorten_blobs(calls_text(parts.tool_calls))
    return "\n".join((parts.tool_name or "", calls[:INDEX_LIMIT], content[:INDEX_LIMIT]))


def whole_text(parts: Parts) -> str:
    """Give everything of a message that a person might look for, uncut."""
    texts = (parts.content, parts.tool_name, calls_text(parts.tool_calls))
    return "\n".join(text for text in texts if text)


def calls_text(tool_calls: str | None) -> str:
    """Give the names and the arguments in the JSON of tool calls; text that is no JSON as it is."""
    if not tool_calls:
        return ""
    texts: list[str] = []
    try:
        calls = _decoded(tool_calls)
        # A caller who passed JSON text had it encoded a second time.
        _collect(_decoded(calls) if isinstance(calls, str) else calls, texts)
    except (ValueError, RecursionError):
        return tool_calls
    return " ".join(texts)


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):  # half characters and NaN: slower, but taken
        return json.loads(text)


def _collect(value: Any, texts: list[str], *, inside: bool = False) -> None:
    """Walk over calls; `inside` their arguments every key is somebody's data, `id` and all."""
    if isinstance(value, str):
        if inside:
            texts.append(value)
        else:
            _collect_text(value, texts)
    elif isinstance(value, dict):
        for key, item in value.items():
            if inside or key not in _SKIPPED_KEYS:
                data = inside or (key in _ARGUMENTS and not isinstance(item, str))
                _collect(item, texts, inside=data)
    elif isinstance(value, list):
        for item in value:
            _collect(item, texts, inside=inside)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        texts.append(str(value))


def _collect_text(text: str, texts: list[str]) -> None:
    """Arguments are JSON inside the JSON, as a rule."""
    try:
        decoded = _decoded(text) if text[:1] in ("{", "[") else text
    except (ValueError, RecursionError):
        decoded = text
    _collect(decoded, texts, inside=True)
