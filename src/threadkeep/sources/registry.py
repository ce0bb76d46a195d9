"""The sources by name. Each is loaded when it is asked for: most machines have few of them."""

from importlib import import_module
from typing import Final

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


def foreign_sources() -> dict[str, Source]:
    """Give the sources of other programs, by name."""
    return {name: _load(module) for name, module in _MODULES.items()}


def _load(module: str) -> Source:
    source: Source = import_module(f"threadkeep.sources.{module}").SOURCE
    return source
