"""Words of the version before this one: requests may still say them, nothing shows them.

HTTP, MCP and the command line read what they are given through it; the next version deletes this
module and its four calls.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple


class _Word(NamedTuple):
    """An old name, the one it has now, and what its values are called; None: any, as it is."""

    old: str
    new: str
    values: Mapping[str, str] | None = None


_SOURCES: Final = {
    "shell": "command",
    "browser": "visit",
    "ci": "run",
    "workflow": "run",
    "agent": "message",
    "memory": "node",
}
_RAN_BY: Final = {"shell": "user", "claude-tool": "tool"}
_WORDS: Final = (
    _Word("harness", "agent"),
    _Word("source", "kind", _SOURCES),
    _Word("source", "agent"),
    _Word("kinds", "kind", {"page": "visit", "ci": "run"}),
    _Word("kinds", "kind"),
    _Word("by", "by", {"harness": "agent"}),
    _Word("kind", "role", _RAN_BY),
    _Word("kind", "part"),
    _Word("repo", "project"),
    _Word("text", "q"),
    _Word("query", "q"),
    _Word("sessions", "session"),
    _Word("terminal", "session"),
)
NAMES: Final = frozenset(one.old for one in _WORDS)


def renamed(name: str, value: Any, known: Collection[str]) -> tuple[str, Any]:
    """Return the name and value of today for those of before; what is known is left alone."""
    for one in _WORDS:
        is_free = name not in known or one.new == name
        if one.old == name and is_free and one.new in known:
            if one.values is None:
                return one.new, value
            found = _translated(value, one.values)
            if found is not None:
                return one.new, found
    return name, value


def today(given: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Give a request in the words of today; an old word beside its new one stays, to be refused."""
    found = {}
    for name, value in given.items():
        new, translated = renamed(name, value, known)
        pair = (name, value) if new != name and new in given else (new, translated)
        found[pair[0]] = pair[1]
    return found


def _translated(value: Any, values: Mapping[str, str]) -> Any:
    """Translate a value, or a list that has one; None: there is nothing of it in there."""
    if isinstance(value, list | tuple):
        if not any(isinstance(one, str) and one in values for one in value):
            return None
        return [values.get(one, one) if isinstance(one, str) else one for one in value]
    return values.get(value) if isinstance(value, str) else None
