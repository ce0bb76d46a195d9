"""The sources by name. Each is loaded when it is asked for: most machines have few of them."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from threadkeep.sources.records import Source

# Name -> the module whose SOURCE it is. A program that keeps its work in several ways has several.
_MODULES: Final = {
    "claude-code": "claude.transcripts",
    "codex": "codex.rollouts",
    "codex-names": "codex.threads",
    "cursor": "cursor.agent_transcripts",
    "cursor-old": "cursor.old_transcripts",
    "cursor-chats": "cursor.chats",
    "cursor-ide": "cursor.editor",
    "opencode": "opencode.database",
    "opencode-tree": "opencode.files",
    "gemini-cli": "gemini_cli",
    "gemini-json": "gemini_json",
    "copilot-cli": "copilot_cli",
    "pi": "pi",
    "aider": "aider",
    "hermes": "state_store",
}


class Sources(Mapping[str, "Source"]):
    """Sources by name, each made when it is first asked for."""

    def __init__(self, makers: Mapping[str, Callable[[], "Source"]]) -> None:
        self.makers = makers
        self._made: dict[str, Source] = {}

    def __getitem__(self, name: str) -> "Source":
        if name not in self._made:
            self._made[name] = self.makers[name]()
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self.makers  # to ask is no reason to load it

    def __iter__(self) -> Iterator[str]:
        return iter(self.makers)

    def __len__(self) -> int:
        return len(self.makers)


def foreign_sources() -> Sources:
    """Give the sources of other programs, by name."""
    return Sources({name: partial(_load, module) for name, module in _MODULES.items()})


def _load(module: str) -> "Source":
    source: Source = import_module(f"threadkeep.sources.{module}").SOURCE
    return source
