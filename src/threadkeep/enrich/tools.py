"""What agents' tools do, whatever their program calls them."""

import re
from typing import Final, Literal

from threadkeep.enrich.identifiers import as_file
from threadkeep.enrich.wording import words

Does = Literal["runs", "changes", "reads", "commits", "other"]

_DOES: Final[dict[str, Does]] = {
    **dict.fromkeys(
        words(
            "bash shell shell_command exec_command run_shell_command powershell run_terminal_cmd"
            " execute_command terminal local_shell run_in_terminal exec"
        ),
        "runs",
    ),
    **dict.fromkeys(
        words(
            "edit write multiedit notebookedit apply_patch replace write_file create create_file"
            " patch str_replace edit_file str_replace_editor search_replace delete_file"
            " write_to_file"
        ),
        "changes",
    ),
    **dict.fromkeys(words("read read_file view open_file read_many_files"), "reads"),
    "commit": "commits",
}
_PATCHED: Final = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.{1,300})$", re.MULTILINE)
_NAMED: Final = re.compile(
    r"^(?:file_path|filePath|path|filename|target_file): (.{1,300})$", re.MULTILINE
)
_PARAMETER: Final = re.compile(
    r"^(?:workdir|yield_time_ms|max_output_tokens|timeout|timeout_ms|description|login|dir_path"
    r"|justification|sandbox_permissions|prefix_rule|run_in_background|dangerouslyDisableSandbox"
    r"|is_background|shell|tty|with_escalated_permissions|command_description|directory): .*$",
    re.MULTILINE,
)


def does(tool: str) -> Does:
    """Say what a tool is for, by its name."""
    return _DOES.get(tool.lower(), "other")


def bare_command(text: str) -> str:
    """Give the command in what a shell tool was given, without the other parameters."""
    return _PARAMETER.sub("", text).strip().removeprefix("command=")


def files_given(text: str) -> list[str]:
    """Give the files that a tool was told to read or change."""
    found = _PATCHED.findall(text) or _NAMED.findall(text)[:1]
    if not found:
        found = [text.partition("\n")[0].partition(" -> ")[0]]
    names = (as_file(name.strip()) or _without_verb(name) for name in found)
    return [name for name in names if name]


def _without_verb(name: str) -> str | None:
    verb, _, path = name.strip().partition(" ")
    return as_file(path) if verb in {"read", "write", "edit"} else None
