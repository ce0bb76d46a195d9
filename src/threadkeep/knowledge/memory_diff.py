"""What changed from one revision of a memory to the next, in lines."""

from difflib import SequenceMatcher, unified_diff
from typing import Final, NamedTuple

_LONGEST: Final = 16_384
_CUT: Final = "\n…\n"


class Change(NamedTuple):
    """A change in a sentence, and as a unified diff of bounded length."""

    summary: str
    diff: str


def change_between(old: str, new: str) -> Change:
    """Tell what was added and removed between two texts."""
    before, after = old.splitlines(), new.splitlines()
    added = removed = 0
    for tag, low, high, start, end in SequenceMatcher(None, before, after).get_opcodes():
        if tag != "equal":
            removed += high - low
            added += end - start
    lines = unified_diff(before, after, "before", "after", lineterm="")
    diff = "".join(f"{line}\n" for line in lines)
    if len(diff) > _LONGEST:
        diff = diff[: _LONGEST - len(_CUT)] + _CUT
    return Change(f"{_lines(added)} added, {removed} removed", diff)


def _lines(count: int) -> str:
    return f"{count} line" if count == 1 else f"{count} lines"
