"""Runs a program and tells what it used, as a small process of its own (see `capture_run`).

    python -I -S capture_launch.py FOLDER PROGRAM ARGUMENT…

A program's peak of memory counts from before it replaced the process that started it, so who
starts it must be small. Its output goes to two files in FOLDER, and one line of JSON to ours.
"""

import os
import sys
import time

_WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


def main(folder: str, command: list[str]) -> None:
    outputs = [
        (os.POSIX_SPAWN_OPEN, number, f"{folder}/{name}", _WRITE, 0o600)
        for number, name in ((1, "stdout"), (2, "stderr"))
    ]
    before = time.monotonic()
    child = os.posix_spawn(command[0], command, os.environ, file_actions=outputs)
    _, status, used = os.wait4(child, 0)
    wall = time.monotonic() - before
    code = os.waitstatus_to_exitcode(status)
    print(f"[{used.ru_utime + used.ru_stime}, {wall}, {used.ru_maxrss}, {code}]")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
