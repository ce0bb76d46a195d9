"""What ended a failure, in a line: the edits and commands between it and the next success."""

from collections.abc import Sequence
from typing import Final

from threadkeep.knowledge.command_shapes import main_step, only_looks, target_of
from threadkeep.knowledge.error_signatures import is_failure
from threadkeep.knowledge.runs import CommandAttempt, is_shell_tool

_MOST_NAMED: Final = 4
_LONGEST_COMMAND: Final = 100
_LONGEST_HINT: Final = 400
_EDITS: Final = frozenset(
    {
        *("edit", "write", "multiedit", "notebookedit", "apply_patch", "write_file", "replace"),
        *("str_replace_editor", "str_replace", "create", "edit_file", "create_file", "patch"),
    }
)
_EDITORS: Final = frozenset({"vi", "vim", "nvim", "nano", "emacs", "code", "hx", "micro", "subl"})


def is_edit(run: CommandAttempt) -> bool:
    """Tell whether a run changed a file by hand."""
    if is_shell_tool(run.tool):
        return main_step(run.command).program in _EDITORS
    return str(run.tool).lower() in _EDITS


def is_change(run: CommandAttempt) -> bool:
    """Tell whether a run may have changed something: it worked, and does more than look."""
    if run.exit_code != 0 and is_failure(run.command, run.exit_code, run.output):
        return False
    if is_edit(run):
        return True
    step = main_step(run.command)
    if step.program == "sed" and "-i" not in run.command:
        return False
    return is_shell_tool(run.tool) and not only_looks(step)


def hint_of(
    failure: CommandAttempt, between: Sequence[CommandAttempt], success: CommandAttempt
) -> str:
    """Say what stood between a failure and the next success of the same command."""
    named = list(dict.fromkeys(_named(run) for run in between if is_change(run)))[-_MOST_NAMED:]
    passed = _quoted(success.command)
    if named:
        return f"{', '.join(named)}; then {passed} passed"[:_LONGEST_HINT]
    if success.command.strip() != failure.command.strip():
        return f"{passed} passed instead"[:_LONGEST_HINT]
    return f"{passed} passed when it was run again"[:_LONGEST_HINT]


def _named(run: CommandAttempt) -> str:
    target = target_of(run.command, run.cwd)
    return f"edit of {target}" if is_edit(run) and target else _quoted(run.command)


def _quoted(command: str) -> str:
    line = " ".join(command.split())
    cut = line[:_LONGEST_COMMAND] + "…" if len(line) > _LONGEST_COMMAND else line
    return f"`{cut}`"
