"""Running a command by the rules of a home, with what it prints."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from threadkeep.collect.running import ProcessResult, run_command

if TYPE_CHECKING:
    from threadkeep.home.facade import Home


def run_here(home: "Home", argv: Sequence[str]) -> ProcessResult:
    """Run a program to its end; as much of its output is kept as the configuration says."""
    settings = home.config.shell
    return run_command(
        argv, head_lines=settings.output_head_lines, tail_lines=settings.output_tail_lines
    )
