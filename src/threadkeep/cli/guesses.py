"""Words that people try first: the command each of them means, or where its subject is found.

Loaded only when there is no command of that name.
"""

from collections.abc import Collection, Sequence
from typing import Final

# Words for one thing; the one that a group of commands has is meant.
_SAME: Final = (
    ("sessions", "ls", "list", "history", "log", "logs"),
    ("recall", "find"),
    ("search", "grep"),
    ("usage", "cost", "costs", "spend", "spent", "stats", "tokens"),
    ("forget", "delete", "remove", "rm", "erase", "purge"),
    ("resume", "continue", "handoff"),
    ("show", "view", "read", "cat", "session", "print"),
    ("tail", "follow", "live"),
    ("up", "start", "ui", "dashboard", "page"),
    ("tui", "browse"),
    ("paths", "path", "where", "config", "configuration", "settings"),
    ("doctor", "check", "health", "verify"),
    ("status", "info"),
    ("capture", "sync", "scan", "index", "refresh"),
    ("sources", "agents"),
    ("label", "tag"),
    ("labels", "tags", "stars"),
    ("memories", "notes"),
    ("timeline", "activity"),
    ("export", "save", "dump"),
    ("compare", "diff"),
    ("sql", "query"),
    ("budget", "budgets", "limit"),
    ("uninstall", "cleanup"),
    ("projects", "project", "repos"),
)
# One word for a command with options.
_MEANT: Final = {
    "star": ("label", "--star"),
    "unstar": ("label", "--no-star"),
    "file": ("sessions", "--file"),
    "files": ("sessions", "--file"),
    "rename": ("projects", "rename"),
    "merge": ("projects", "rename"),
    "models": ("usage", "--by", "model"),
    "backups": ("backup", "--list"),
    "today": ("timeline", "today"),
    "yesterday": ("timeline", "yesterday"),
    "link": ("up", "--link"),
}
# What no command does, and what does it.
_SETTING: Final = "set `{}` in config.toml; `threadkeep paths` shows where it is"
_PAGE: Final = "the page has it: `threadkeep up` opens it"
_ELSEWHERE: Final = {
    "exclude": _SETTING.format("exclude` under `[capture]"),
    "ignore": _SETTING.format("exclude` under `[capture]"),
    "graph": _PAGE,
    "install": "`threadkeep service install` starts it at login, `threadkeep mcp install claude` "
    "registers it with an agent",
    "stop": "press Ctrl-C where it runs; `threadkeep service uninstall` stops the service",
    "update": "`pipx upgrade threadkeep` installs a new version, `threadkeep capture` reads logs",
    "upgrade": "`pipx upgrade threadkeep` installs a new version",
}


def meant_by(words: Sequence[str], known: Collection[str]) -> list[str] | None:
    """Return the command line that is meant by one whose first word is no command."""
    first, *rest = words
    if first == "help":
        return [*rest, "--help"]
    if first in _MEANT and _MEANT[first][0] in known:
        name, *options = _MEANT[first]
        return [name, *options, *rest]
    for same in _SAME:
        if first in same:
            meant = next((one for one in same if one in known), None)
            return None if meant is None else [meant, *rest]
    return None


def elsewhere(word: str) -> str:
    """Say where the thing is found that no command does; empty where nothing is known of it."""
    return _ELSEWHERE.get(word, "")
