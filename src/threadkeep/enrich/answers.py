"""What a model answered becomes a draft: found in its words, repaired, coerced, checked."""

import json
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

from threadkeep.errors import Invalid
from threadkeep.knowledge.drafts import Decision, Mentions, NodeDraft, Outcome

MOST_CHARACTERS: Final = 200_000
_OUTCOMES: Final[tuple[Outcome, ...]] = ("success", "partial", "failure", "unknown")
_MOST_PLACES: Final = 20  # where an object may begin: a chatty model writes braces into its prose
_MOST_ITEMS: Final = 50
_SUMMARY, _INTENT, _EMBED, _ITEM = 2_000, 500, 4_000, 500
_HINT: Final = "the model is asked again, then the rules write the node"

_THOUGHT_ENDS: Final = ("</think>", "</thinking>")
_FENCE: Final = re.compile(r"```[ \t]*\w*")
# A whole string, or a sign outside of strings that JSON has not; an open string takes the rest.
_SPARE_COMMA: Final = re.compile(r'("(?:[^"\\]|\\.)*"?)|,(?=\s*[}\]])', re.DOTALL)
_ESCAPE: Final = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|\\')
_UNREADABLE: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")

_ENV_VAR: Final = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|[A-Z]{3,}")
_FILE: Final = re.compile(r"[\w@+~-][\w.@+~-]*\.[A-Za-z][A-Za-z0-9]{0,7}")
_DOMAIN: Final = re.compile(
    r"(?:[a-z0-9-]{1,63}\.){1,5}(?:com|org|net|io|dev|ai|app|edu|gov|co|uk|de|fr|eu|us|info)"
)
_ERROR: Final = re.compile(r"(?i)error|exception|failed|failure|panic|traceback|denied|not found")
_TYPES: Final = {
    **dict.fromkeys(("project", "projects", "repo", "repos", "repository", "package"), "projects"),
    **dict.fromkeys(("tool", "tools", "command", "commands", "program", "library"), "tools"),
    **dict.fromkeys(("file", "files", "path", "paths", "directory", "folder"), "files"),
    **dict.fromkeys(("service", "services", "server", "api", "database"), "services"),
    **dict.fromkeys(("error", "errors", "exception", "exceptions", "concept"), "errors"),
    **dict.fromkeys(
        ("env_var", "env_vars", "envvar", "env", "variable", "environment"), "env_vars"
    ),
    **dict.fromkeys(("domain", "domains", "host", "hosts", "url", "website"), "domains"),
}


class BadAnswer(Invalid):
    """A model's answer is not the node that it was asked for."""


def parse(answer: str) -> NodeDraft:
    """Read a model's answer; one that cannot be used is refused with the reason."""
    value = find_object(answer)
    texts = {name: _text(value.get(name), most) for name, most in _REQUIRED.items()}
    for name, text in texts.items():
        if not text:
            raise BadAnswer(f"the answer has no {name}", hint=_HINT)
    return NodeDraft(
        **texts,
        outcome=_outcome(value.get("outcome")),
        entities=mentions(value.get("entities")),
        tags=_texts(value.get("tags"), parted=True),
        key_decisions=_texts(value.get("key_decisions")),
        problems_encountered=_texts(value.get("problems_encountered")),
        design_decisions=tuple(_decisions(value.get("design_decisions"))),
        memory_categories=_texts(value.get("memory_categories"), parted=True),
    )


_REQUIRED: Final = {"summary": _SUMMARY, "intent": _INTENT, "embed_text": _EMBED}


# ---------------------------------------------------------------------- JSON, more or less


def find_object(answer: str) -> dict[str, Any]:
    """Find the JSON object in an answer, whatever stands around it, and repair what is common."""
    if len(answer) > MOST_CHARACTERS:
        raise BadAnswer(f"the answer is longer than {MOST_CHARACTERS:,} characters", hint=_HINT)
    text = answer
    for end in _THOUGHT_ENDS:
        text = text.rpartition(end)[2]
    text = _FENCE.sub("", text)
    for form in (text, repaired(text)):
        for value in _objects(form):
            if not _REQUIRED.keys().isdisjoint(value):
                return value
    raise BadAnswer("the answer is not valid JSON", hint=_HINT)


def repaired(text: str) -> str:
    """Double the backslashes that escape nothing, and take out the commas before a bracket."""
    whole = _ESCAPE.sub(lambda found: "\\\\" if found[0] == "\\" else found[0], text)
    return _SPARE_COMMA.sub(lambda found: found[1] or "", whole)


def _objects(text: str) -> Iterator[dict[str, Any]]:
    # Not strict: models write line breaks and tabs into their strings.
    decoder = json.JSONDecoder(strict=False)
    at = -1
    for _ in range(_MOST_PLACES):
        at = text.find("{", at + 1)
        if at < 0:
            return
        try:
            value, _end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


# ---------------------------------------------------------------------- fields


def _text(value: Any, most: int) -> str:
    if not isinstance(value, str):
        return ""
    return " ".join(_UNREADABLE.sub(" ", value[: most * 2]).split())[:most].rstrip()


def _texts(value: Any, *, parted: bool = False) -> tuple[str, ...]:
    """Read a list of texts; a single text is a list too, of its parts where commas part them."""
    if isinstance(value, str):
        value = value.split(",") if parted else [value]
    items = value if isinstance(value, list) else []
    texts = (_text(item, _ITEM) for item in islice(items, _MOST_ITEMS))
    return tuple(dict.fromkeys(text for text in texts if text))


def _outcome(value: Any) -> Outcome:
    word = value.strip().lower() if isinstance(value, str) else value
    for outcome in _OUTCOMES:
        if word == outcome:
            return outcome
    raise BadAnswer(f"the answer's outcome is none of {', '.join(_OUTCOMES)}", hint=_HINT)


def _decisions(value: Any) -> Iterator[Decision]:
    for item in islice(value if isinstance(value, list) else [], _MOST_ITEMS):
        if isinstance(item, dict):
            considered, chosen, reason = (
                _said(item.get(name)) for name in ("considered", "chosen", "reason")
            )
            if chosen:
                yield Decision(considered, chosen, reason)


def _said(value: Any) -> str:
    return ", ".join(_texts(value))[:_ITEM]


# ---------------------------------------------------------------------- entities


def mentions(value: Any) -> Mentions:
    """Read what an answer mentions: by type, or as a flat list whose types are found out."""
    found: dict[str, dict[str, None]] = {field: {} for field in Mentions.__struct_fields__}
    pairs = _typed(value) if isinstance(value, dict) else _flat(value)
    for field, name in pairs:
        if len(found[field]) < _MOST_ITEMS:
            found[field][name] = None
    return Mentions(**{field: tuple(names) for field, names in found.items()})


def _typed(value: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for kind, names in value.items():
        field = _field(kind)
        if field:
            yield from ((field, name) for name in _names(names))


def _names(value: Any) -> Iterable[str]:
    if isinstance(value, list):
        value = [item.get("name") if isinstance(item, dict) else item for item in value]
    return _texts(value)


def _flat(value: Any) -> Iterator[tuple[str, str]]:
    for item in value if isinstance(value, list) else []:
        given = item if isinstance(item, dict) else {"name": item}
        name = _text(given.get("name", given.get("value")), _ITEM)
        if name:
            yield _field(given.get("type", given.get("kind"))) or inferred(name), name


def _field(kind: Any) -> str | None:
    return _TYPES.get(kind.strip().lower().replace("-", "_")) if isinstance(kind, str) else None


def inferred(name: str) -> str:
    """Say what kind of thing a name without a type is, by its form."""
    if _ENV_VAR.fullmatch(name):
        return "env_vars"
    if _DOMAIN.fullmatch(name):
        return "domains"
    if "/" in name or name.startswith(".") or _FILE.fullmatch(name):
        return "files"
    return "errors" if _ERROR.search(name) else "tools"
