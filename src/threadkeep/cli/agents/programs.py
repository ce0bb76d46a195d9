"""The programs that agents run in, and how each of them is told of an MCP server."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

Scope = Literal["user", "project"]
Words = Sequence[str]

NAME: Final = "threadkeep"


class Program(NamedTuple):
    """A program, its settings, and its own command for servers where it has one."""

    name: str
    files: Callable[[Mapping[str, str], Path], Mapping[Scope, Path]]
    keys: tuple[str, ...]
    entry: Callable[[Words], dict[str, Any]]
    is_toml: bool = False
    executable: str = ""
    add: Callable[[Scope, Words], list[str]] | None = None
    remove: Callable[[Scope], list[str]] | None = None
    own_scopes: tuple[Scope, ...] = ()  # those that its own command knows

    def has_own(self, scope: Scope) -> bool:
        """Tell whether the program can do it itself."""
        return scope in self.own_scopes


def _command(words: Words) -> dict[str, Any]:
    return {"command": words[0], "args": list(words[1:])}


def _typed(words: Words) -> dict[str, Any]:
    return {"type": "stdio", **_command(words), "env": {}}


def _local(words: Words) -> dict[str, Any]:
    return {"type": "local", "command": list(words), "enabled": True}


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or "~").expanduser()


def _below(environ: Mapping[str, str], variable: str, default: str) -> Path:
    named = environ.get(variable)
    return Path(named).expanduser() if named else _home(environ) / default


def _claude_files(environ: Mapping[str, str], folder: Path) -> Mapping[Scope, Path]:
    return {
        "user": _below(environ, "CLAUDE_CONFIG_DIR", "") / ".claude.json",
        "project": folder / ".mcp.json",
    }


def _codex_files(environ: Mapping[str, str], folder: Path) -> Mapping[Scope, Path]:
    return {
        "user": _below(environ, "CODEX_HOME", ".codex") / "config.toml",
        "project": folder / ".codex" / "config.toml",
    }


def _cursor_files(environ: Mapping[str, str], folder: Path) -> Mapping[Scope, Path]:
    return {
        "user": _home(environ) / ".cursor" / "mcp.json",
        "project": folder / ".cursor" / "mcp.json",
    }


def _gemini_files(environ: Mapping[str, str], folder: Path) -> Mapping[Scope, Path]:
    return {
        "user": _home(environ) / ".gemini" / "settings.json",
        "project": folder / ".gemini" / "settings.json",
    }


def _opencode_files(environ: Mapping[str, str], folder: Path) -> Mapping[Scope, Path]:
    settings = _below(environ, "XDG_CONFIG_HOME", ".config") / "opencode"
    return {"user": settings / "opencode.json", "project": folder / "opencode.json"}


PROGRAMS: Final = {
    "claude": Program(
        "Claude Code",
        _claude_files,
        ("mcpServers", NAME),
        _typed,
        executable="claude",
        add=lambda scope, words: ["mcp", "add", "--scope", scope, NAME, "--", *words],
        remove=lambda scope: ["mcp", "remove", "--scope", scope, NAME],
        own_scopes=("user", "project"),
    ),
    "codex": Program(
        "Codex",
        _codex_files,
        ("mcp_servers", NAME),
        _command,
        is_toml=True,
        executable="codex",
        add=lambda _, words: ["mcp", "add", NAME, "--", *words],
        remove=lambda _: ["mcp", "remove", NAME],
        own_scopes=("user",),
    ),
    "cursor": Program("Cursor", _cursor_files, ("mcpServers", NAME), _command),
    "gemini": Program(
        "Gemini CLI",
        _gemini_files,
        ("mcpServers", NAME),
        _command,
        executable="gemini",
        # Words that begin with a dash are options of its own unless they stand behind two.
        add=lambda scope, words: ["mcp", "add", "--scope", scope, NAME, words[0], "--", *words[1:]],
        remove=lambda scope: ["mcp", "remove", "--scope", scope, NAME],
        own_scopes=("user", "project"),
    ),
    "opencode": Program("opencode", _opencode_files, ("mcp", NAME), _local),
}
