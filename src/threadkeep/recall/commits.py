"""Commits, as far as commands tell of them: those that they make, and those that they bring."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from threadkeep.knowledge.command_shapes import steps_of

_SHORT: Final = 10
_LONGEST: Final = 200
_READ: Final = 8_192  # characters of a command
_BRINGS: Final = frozenset({"merge", "pull", "cherry-pick", "rebase", "revert", "am"})
_GIVEN: Final = re.compile(
    r"(?:\s-[a-zA-Z]*m|\s--message)[=\s]*(?:\"((?:[^\"\\]|\\.)*)\"|'([^']*)'|(\S+))", re.DOTALL
)
_DOCUMENT: Final = re.compile(r"<<-?\s*['\"\\]?(\w+)['\"]?\n(.*?)\n[ \t]*\1\b", re.DOTALL)


def commit_text(command: str) -> str | None:
    """Give the first line of the message that a command commits with, empty if it names none.

    None: the command makes no commit.
    """
    command = command[:_READ]
    if "commit" not in command or not any(
        step.program == "git" and step.words[:1] == ("commit",) for step in steps_of(command)
    ):
        return None
    document = _DOCUMENT.search(command)
    if document is not None:
        return _first_line(document[2])
    given = _GIVEN.search(command[command.index("commit") :])
    return _first_line(next((one for one in given.groups() if one), "")) if given else ""


def commits_among(rows: Sequence[tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
    """Yield the commits that commands, the latest first, made or came upon.

    A command is id, time, text, exit code, duration, folder, repository, branch, commit, kind.
    """
    heads: dict[str, str] = {}
    for row in reversed(rows):
        event, at, command, exit_code, _, cwd, repo, branch, head, kind, *_ = row
        place = repo or str(cwd)
        before = heads.get(place)
        heads[place] = head or before or ""
        message = commit_text(str(command)) if exit_code == 0 else None
        is_new = bool(head) and bool(before) and head != before
        if message is None and not (is_new and _moves(str(command))):
            continue
        named = head[:_SHORT] if head and is_new else ""
        text = " ".join(part for part in (named, message or _first_line(str(command))) if part)
        yield {
            "at": at,
            "kind": "commit",
            "text": f"{text} ({branch})" if branch else text,
            "ref": f"command:{event}",
            "source": "shell" if kind == "shell" else "claude-code",
            "project": place.rstrip("/") if repo else place.rstrip("/").rsplit("/", 1)[-1],
            "outcome": "success",
        }


def _moves(command: str) -> bool:
    """Tell whether a command brings a commit without a message of its own."""
    return any(
        step.program == "git" and not _BRINGS.isdisjoint(step.words[:1])
        for step in steps_of(command)
    )


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0].strip()[:_LONGEST] if lines else ""
