"""What a node is called in lists: what was achieved, if anything was, else what was asked."""

import re
from typing import Any, Final

_WIDTH: Final = 110
_SAYS_NOTHING: Final = 2  # words: "Done", "All green"
_DONE: Final = ("success", "partial")
_RESULT: Final = re.compile(r"\bResult: (.+)", re.DOTALL)
_COMMITTED: Final = re.compile(r"; committed |: committed ")
# A sentence ends where a capital letter follows: `feeds/tide.py` is none.
_SENTENCE: Final = re.compile(r"(?<=[.!?…])\s+(?=[A-Z`\"“])")
_CLAUSE: Final = re.compile(r"[:;](?=\s)")
_POLITE: Final = re.compile(r"(?:please|can you|could you|now|then|also|and)[, ]+", re.IGNORECASE)
_VERB: Final = re.compile(r"([A-Za-z]+)(?= )")
_IRREGULAR: Final = {
    "make": "made",
    "write": "wrote",
    "find": "found",
    "give": "gave",
    "build": "built",
    "bring": "brought",
    "choose": "chose",
    "keep": "kept",
    "run": "ran",
    "set": "set",
    "put": "put",
    "let": "let",
    "get": "got",
    "take": "took",
    "split": "split",
    "cut": "cut",
    "speed": "sped",
    "rewrite": "rewrote",
    "rebuild": "rebuilt",
    "undo": "undid",
    "stop": "stopped",
    "drop": "dropped",
    "strip": "stripped",
    "debug": "debugged",
    "log": "logged",
    "swap": "swapped",
    "wrap": "wrapped",
    "port": "ported",
    "trim": "trimmed",
}
_REGULAR: Final = frozenset(
    (
        *("fix", "add", "remove", "update", "move", "rename", "show", "explain", "implement"),
        *(
            "refactor",
            "repair",
            "replace",
            "test",
            "check",
            "create",
            "change",
            "clean",
            "document",
        ),
        *("upgrade", "bump", "delete", "enable", "disable", "improve", "reduce", "increase"),
        *("handle", "support", "allow", "prevent", "convert", "extract", "merge", "migrate"),
        *("configure", "install", "use", "switch", "list", "review", "simplify", "optimize"),
        *("investigate", "resolve", "restore", "revert", "tidy", "correct", "introduce"),
        *("ensure", "validate", "cache", "load", "parse", "print", "return", "raise", "catch"),
        *("avoid", "turn", "start", "open", "close", "sort", "filter", "group", "store", "save"),
    )
)


def title_of(content: Any, outcome: str | None, project: str | None) -> str:
    """Name a node by its content: `Fixed the flaky test in harbor`; empty where nothing is said."""
    if not isinstance(content, dict):
        return ""
    intent, summary = (_text(content.get(name)) for name in ("intent", "summary"))
    asked = _without_manners(_first(intent))
    done = outcome in _DONE or bool(_COMMITTED.search(summary))
    if not asked or not done:
        return _ending(asked, project)
    past = in_past(asked)
    if past is not None:
        return _ending(past, project)
    result = _RESULT.search(summary)
    told = _CLAUSE.split(_first(result[1]))[0] if result else ""
    return _ending(told if len(told.split()) > _SAYS_NOTHING else asked, project)


def _without_manners(text: str) -> str:
    polite = _POLITE.match(text)
    return text[polite.end() :] if polite else text


def in_past(request: str) -> str | None:
    """Write a request as what was done: `Fix the test` as `Fixed the test`; None if it is none."""
    verb = _VERB.match(request)
    if verb is None:
        return None
    word = verb[1].lower()
    past = _IRREGULAR.get(word) or (_regular(word) if word in _REGULAR else None)
    return None if past is None else past.capitalize() + request[verb.end() :]


def _regular(word: str) -> str:
    if word.endswith("e"):
        return f"{word}d"
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return f"{word[:-1]}ied"
    return f"{word}ed"


def _text(value: object) -> str:
    return " ".join(value.split()) if isinstance(value, str) else ""


def _first(text: str) -> str:
    return _SENTENCE.split(text.strip(), maxsplit=1)[0].rstrip(". ")


def _ending(text: str, project: str | None) -> str:
    """Name the project where that fits and is not said."""
    whole = text[:1].upper() + text[1:] if text[:1].islower() and " " in text[:40] else text
    if project and whole and len(whole) < 60 and project.lower() not in whole.lower():  # noqa: PLR2004
        place = " ".join(project.split())  # the name of a folder may hold anything
        whole = f"{whole.rstrip('?!')} in {place}" if not whole.endswith("?") else whole
    return whole if len(whole) <= _WIDTH else f"{whole[: _WIDTH - 1].rstrip()}…"
