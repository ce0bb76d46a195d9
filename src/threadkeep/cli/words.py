"""Short words for what people look at: models, money, tokens, lengths of time."""

import time
from typing import TYPE_CHECKING, Any

import msgspec

from threadkeep.base.clock import iso
from threadkeep.cli.output import is_terminal, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from threadkeep.knowledge.copies import Links
    from threadkeep.knowledge.records import CapturedSession
    from threadkeep.knowledge.usage import TokenTotals


Json = dict[str, Any]

_NAMES = {"cache_read": "cache read", "cache_write": "cache write"}


def model_name(model: Json) -> str:
    """Write a model as provider/model."""
    known = [model.get(key) for key in ("provider_id", "model_id")]
    return one_line("/".join(str(value) for value in known if value))


def model_text(model: Json) -> str:
    """Write a model with its variant and temperature, where they are known."""
    extra = [f"{key} {model[key]}" for key in ("variant", "temperature") if key in model]
    return one_line(" ".join([model_name(model), *extra]))


def none_has(missing: "Sequence[str]") -> list[str]:
    """Say which words nothing shown has; nothing to say if every word was found."""
    named = ", ".join(f"“{one_line(word)}”" for word in missing)
    return [f"No match has all words; missing: {named}"] if missing else []


def money(cost: float) -> str:
    """Write an amount of US dollars; nothing when nobody reported one."""
    if not cost:
        return ""
    return f"${cost:.2f}" if cost >= 1 else f"${cost:.4f}"


def tokens(usage: dict[str, int]) -> str:
    """Write the usage of a reply, leaving out what is zero."""
    used = [f"{_NAMES.get(name, name)} {n:,}" for name, n in usage.items() if n]
    return " · ".join(used)


def local_time(ms: int) -> str:
    """Write a time as the clock on the wall shows it: 2026-01-15 10:30."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(ms / 1000))


def duration(ms: int) -> str:
    """Write a length of time: 340 ms, 12.3 s, 4 min."""
    if ms < 1000:  # noqa: PLR2004
        return f"{ms} ms"
    return f"{ms / 1000:.1f} s" if ms < 120_000 else f"{ms / 60_000:.0f} min"  # noqa: PLR2004


# ------------------------------------------------------------------------------
# Times, sessions and tokens of the captured history in words.

_WORDS_NAMES = {
    "input": "input",
    "output": "output",
    "cache_read": "cache read",
    "cache_write": "cache write",
    "reasoning": "reasoning",
}


def when(ms: int | None) -> str:
    """Write a time: as the clock on the wall has it for a person, in UTC for a program."""
    if ms is None:
        return ""
    try:
        return (local_time if is_terminal() else iso)(ms)
    except (OverflowError, ValueError, OSError):
        return iso(ms)


def project_of(session: "CapturedSession") -> str:
    """Name the project of a session, or the folder it was in."""
    return session.project or session.cwd


def session_json(session: "CapturedSession", links: "Links | None" = None) -> Json:
    """Shape a session for `--json`; its number in the store is nobody's business."""
    shown: Json = msgspec.structs.asdict(session)
    del shown["id"]
    known = {} if links is None else links._asdict()
    return {**shown, "name": session.name, **known}


def token_words(spent: "TokenTotals") -> str:
    """Write tokens, leaving out what is zero."""
    used = ((name, getattr(spent, field)) for field, name in _WORDS_NAMES.items())
    return ", ".join(f"{name} {count:,}" for name, count in used if count)


def folded(text: str, *, lines: int, characters: int) -> str:
    """Keep the beginning of a long text, and say how much is missing."""
    kept = "\n".join(text.split("\n", lines)[:lines])[:characters]
    if len(kept) >= len(text):
        return text
    rest = text[len(kept) :]
    missing = rest.count("\n")
    told = f"{missing:,} more lines" if missing > 1 else f"{len(rest):,} more characters"
    return f"{kept.rstrip()}\n… {told} (--full shows all)"


def one_name(session: "CapturedSession", limit: int = 0) -> str:
    """Write what a session is called on one line."""
    return one_line(session.name, limit)


# ------------------------------------------------------------------------------
# Long texts on a terminal: the part that tells most, and how to get at the rest.


def ending(text: str, *, lines: int, characters: int) -> str:
    """Keep the end of a long text, where errors stand, and say how much is missing before it."""
    kept = "\n".join(text.rsplit("\n", lines)[-lines:])[-characters:]
    if len(kept) >= len(text):
        return text
    rest = text[: len(text) - len(kept)]
    missing = rest.count("\n")
    told = f"{missing:,} lines" if missing > 1 else f"{len(rest):,} characters"
    return f"… {told} before this (--full shows all)\n{kept}"


def printed(text: str, *, full: bool, lines: int, characters: int) -> str:
    """Write what a program printed: all of it for another program, its end for a person."""
    flat = text.strip("\n")
    if full or not is_terminal():
        return flat
    return ending(flat, lines=lines, characters=characters)
