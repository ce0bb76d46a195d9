"""How a session is gone on with in the program that it comes from."""

import shlex
from typing import Final

# What stands before the session's id, by program; those that are not here cannot.
_COMMANDS: Final = {
    "claude-code": ("claude", "--resume"),
    "codex": ("codex", "resume"),
    "opencode": ("opencode", "--session"),
    "gemini-cli": ("gemini", "--resume"),
    "copilot-cli": ("copilot", "--resume"),
    "pi": ("pi", "--session"),
    "cursor": ("cursor-agent", "--resume"),
}
_JOINED: Final = {"cursor", "copilot-cli"}  # these want `--resume=ID`: the id may be left out there
# These look for the session among those of the folder they are started in.
_BY_FOLDER: Final = {"claude-code", "gemini-cli", "opencode", "pi"}


def resume_command(harness: str, session_id: str, cwd: str = "") -> str | None:
    """Give the command for a shell that goes on with a session; None if its program has none."""
    command = _COMMANDS.get(harness)
    if command is None:
        return None
    name = shlex.quote(session_id)
    program = " ".join(command)
    resumed = f"{program}={name}" if harness in _JOINED else f"{program} {name}"
    if cwd and harness in _BY_FOLDER:
        return f"cd {shlex.quote(cwd)} && {resumed}"
    return resumed
