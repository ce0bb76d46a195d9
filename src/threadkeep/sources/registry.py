"""The sources by name. Each is loaded when it is asked for: most machines have few of them."""

from importlib import import_module
from typing import Final

from threadkeep.sources.records import Source

# Name -> the module whose SOURCE it is. A program that keeps its work in several ways has several.
_MODULES: Final = {
    "claude-code": "claude_code",
    "codex": "codex",
    "codex-names": "codex_index",
    "cursor": "cursor",
    "cursor-old": "cursor_old",
    "cursor-chats": "cursor_chats",
    "cursor-ide": "cursor_ide",
    "opencode": "opencode",
    "opencode-tree": "opencode_tree",
    "gemini-cli": "gemini_cli",
    "gemini-json": "gemini_json",
    "copilot-cli": "copilot_cli",
    "pi": "pi",
    "aider": "aider",
    "hermes": "state_store",
}


def foreign_sources() -> dict[str, Source]:
    """Give the sources of other programs, by name."""
    return {name: _load(module) for name, module in _MODULES.items()}


def _load(module: str) -> Source:
    source: Source = import_module(f"threadkeep.sources.{module}").SOURCE
    return source
