"""Times, sessions and tokens of the captured history in words."""

from typing import TYPE_CHECKING, Any

import msgspec

from threadkeep.base.clock import iso
from threadkeep.cli.chat.words import local_time
from threadkeep.cli.output import is_terminal, one_line

if TYPE_CHECKING:
    from threadkeep.knowledge.copies import Links
    from threadkeep.knowledge.records import CapturedSession
    from threadkeep.knowledge.spending import TokenTotals

Json = dict[str, Any]

_NAMES = {
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
    used = ((name, getattr(spent, field)) for field, name in _NAMES.items())
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
