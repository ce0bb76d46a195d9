"""A prompt costs no process: what the shells ask of the kernel, counted."""

import re
from pathlib import Path

import pytest

from tests.capture.observed.terminals import Terminal, make_world
from tests.conftest import need_tool

# A thread of the shell itself (fish paints its line in one) is no process.
_PROCESS = re.compile(r"^\d+ +(?:v?fork|clone3?)\((?!.*CLONE_THREAD)", re.MULTILINE)
_PROMPTS = 50


def processes(log: Path) -> int:
    """Count the processes that were started so far."""
    return len(_PROCESS.findall(log.read_text("utf-8", "replace")))


@pytest.mark.parametrize("shell", ["zsh", "bash", "fish"])
def test_no_process_is_started_over_fifty_prompts(tmp_path: Path, shell: str) -> None:
    world = make_world(tmp_path)
    with world.shell(shell):
        pass  # only to write the start-up files
    log = tmp_path / "trace"
    traced = [need_tool("strace"), "-f", "-e", "trace=process", "-o", str(log)]
    terminal = Terminal([*traced, *world.argv(shell)], world.environ(), world.home)
    try:
        terminal.prompt()
        terminal.run("cd .")
        before = processes(log)
        for number in range(_PROMPTS):
            terminal.run(f"cd /; test {number} -ge 0")
        after = processes(log)
        terminal.run("sh -c true")
        counted = processes(log)
    finally:
        terminal.kill()
    assert after - before == 0
    assert counted > after, "a process would have been seen"
    assert len(world.records("end1")) == _PROMPTS + 2
