"""What changed from one revision of a memory to the next, in lines."""

from collections import Counter
from collections.abc import Iterable
from difflib import SequenceMatcher, unified_diff
from itertools import chain
from typing import Final, NamedTuple

_LONGEST: Final = 16_384
# Comparing long texts of lines that come again and again would take minutes.
_MOST_PAIRS: Final = 200_000
_MOST_LINES: Final = 20_000
_CUT: Final = "\n…\n"


class RevisionChange(NamedTuple):
    """A change in a sentence, and as a unified diff of bounded length."""

    summary: str
    diff: str


def change_between(old: str, new: str) -> RevisionChange:
    """Tell what was added and removed between two texts."""
    before, after = old.splitlines(), new.splitlines()
    is_long = len(before) + len(after) > _MOST_LINES or _pairs(before, after) > _MOST_PAIRS
    compare = _replaced if is_long else _compared
    added, removed, lines = compare(before, after)
    diff = ""
    for line in lines:
        diff += f"{line}\n"
        if len(diff) > _LONGEST:
            diff = diff[: _LONGEST - len(_CUT)] + _CUT
            break
    return RevisionChange(f"{_lines(added)} added, {removed} removed", diff)


def _pairs(before: list[str], after: list[str]) -> int:
    """Count the pairs of equal lines: what a comparison line by line takes grows with them."""
    counted = Counter(after)
    return sum(counted[line] for line in before)


def _compared(before: list[str], after: list[str]) -> tuple[int, int, Iterable[str]]:
    added = removed = 0
    for tag, low, high, start, end in SequenceMatcher(None, before, after).get_opcodes():
        if tag != "equal":
            removed += high - low
            added += end - start
    return added, removed, unified_diff(before, after, "before", "after", lineterm="")


def _replaced(before: list[str], after: list[str]) -> tuple[int, int, Iterable[str]]:
    """Take all between the first and the last line that differ for replaced."""
    most = min(len(before), len(after))
    head = next((n for n in range(most) if before[n] != after[n]), most)
    most -= head
    tail = next((n for n in range(most) if before[-1 - n] != after[-1 - n]), most)
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    if not old and not new:
        return 0, 0, ()
    place = f"@@ -{head + 1},{len(old)} +{head + 1},{len(new)} @@"
    lines = chain(
        ("--- before", "+++ after", place),
        (f"-{line}" for line in old),
        (f"+{line}" for line in new),
    )
    return len(new), len(old), lines


def _lines(count: int) -> str:
    return f"{count} line" if count == 1 else f"{count} lines"
