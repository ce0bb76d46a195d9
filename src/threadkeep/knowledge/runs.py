"""A run: a command that somebody ran, or a tool that an agent called, with what came of it."""

from typing import Final

import msgspec

# Tools of agents that run a command line.
_SHELL_TOOLS: Final = frozenset(
    {
        *("bash", "shell", "sh", "exec", "exec_command", "local_shell", "local_shell_call"),
        *("run_shell_command", "run_terminal_cmd", "shell_command", "terminal", "execute_command"),
        *("run_command", "run", "container.exec", "powershell", "command"),
    }
)


class CommandAttempt(msgspec.Struct, frozen=True):
    """One run, whichever table it stands in."""

    id: int
    at: int
    command: str
    tool: str | None  # None: somebody typed it
    exit_code: int | None  # None: nobody saw how it ended
    output: str  # the end of what it printed
    cwd: str
    key: str  # its name, the same whenever it is captured
    repo: str | None = None
    session: str = ""
    is_open: bool = False  # it has not ended yet


def is_shell_tool(tool: str | None) -> bool:
    """Tell whether a run is a command line, typed by somebody or run by an agent."""
    return tool is None or tool.lower() in _SHELL_TOOLS
