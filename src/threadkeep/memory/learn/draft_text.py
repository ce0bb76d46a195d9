"""From what was found to a draft: words for lists, tags, and the text that a node is found by."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from threadkeep.base.paths import repository_folder
from threadkeep.memory.learn.identifiers import unique
from threadkeep.memory.learn.text_cleaning import cut_words

SUMMARY_LIMIT: Final = 1_200
RESULT: Final = "Result: "  # behind it a summary tells how the work ended
_THEMES: Final = (
    ("debugging", r"\b(?:fix|bugs?|broken|crash\w*|errors?|fail(?:s|ing|ure)?|debug\w*)\b"),
    ("refactoring", r"\b(?:refactor\w*|clean ?up|simplif\w+|extract|rename|dedup\w*)\b"),
    ("documentation", r"\b(?:docs?|documentation|readme|changelog|comments?)\b"),
    ("testing", r"\b(?:tests?|coverage|unit test\w*)\b"),
    ("review", r"\b(?:review\w*|feedback|pull request|prs?)\b"),
    ("planning", r"\b(?:plan|design|proposal|brainstorm|sketch|approach|architecture)\b"),
    ("security", r"\b(?:security|vulnerab\w+|secrets?|cve)\b"),
    ("performance", r"\b(?:performance|faster|slow|optimi[sz]\w+|latency|memory leak)\b"),
    ("ci", r"\b(?:ci|workflow|github actions?|pipeline)\b"),
)  # fmt: skip
_THEME_PATTERNS: Final = tuple((name, re.compile(p, re.IGNORECASE)) for name, p in _THEMES)


def listed(names: Sequence[str], limit: int = 4) -> str:
    """Write names as a list in a sentence: `a, b and 3 more`."""
    shown, more = list(names[:limit]), len(names) - limit
    if more > 0:
        return f"{', '.join(shown)} and {more} more"
    return " and ".join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))


def counted(number: int, one: str, many: str = "") -> str:
    """Write a number with its word: `1 error`, `2 errors`."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def ended(sentence: str) -> str:
    """Give a sentence an end if it has none."""
    return (
        sentence
        if not sentence or sentence.endswith((".", "!", "?", "…", "。"))
        else f"{sentence}."
    )


def joined(pieces: Iterable[str]) -> str:
    """Join sentences into a summary of bearable length."""
    return cut_words(" ".join(ended(piece) for piece in pieces if piece), SUMMARY_LIMIT)


def themes_of(text: str) -> list[str]:
    """Say what kind of work a request is about."""
    return [name for name, pattern in _THEME_PATTERNS if pattern.search(text)]


def dense(*groups: Iterable[str]) -> str:
    """Put the words that a node is found by in a row, each once; the check cuts it to length."""
    return " ".join(unique((name for group in groups for name in group if name), 400))


def place(project: str, branch: str) -> str:
    """Say where something happened: `in threadkeep on branch main`."""
    where = f"in {project}" if project else ""
    return " ".join(filter(None, [where, f"on branch {branch}" if branch else ""]))


def project_of(*folders: str) -> str:
    """Name the project by the last part of the first folder that is known, worktrees left out."""
    for folder in folders:
        path = repository_folder(folder).removesuffix(".git")
        parts = path.rsplit("/", 2)
        name = parts[-2] if parts[-1].isdigit() and len(parts) > 1 else parts[-1]
        if name and name not in {"~", ".", ".."} and not _is_home(path):
            return name
    return ""


def _is_home(path: str) -> bool:
    parts = path.strip("/").split("/")
    return parts[0] in {"home", "Users", "root", "tmp"} and len(parts) <= (
        1 if parts[0] in {"root", "tmp"} else 2
    )
