"""Long texts on a terminal: the part that tells most, and how to get at the rest."""

from threadkeep.cli.output import is_terminal


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
