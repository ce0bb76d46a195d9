"""Marks of processes: who left something behind, and whether it still runs."""

import os
from functools import lru_cache
from pathlib import Path


def my_mark() -> str:
    """Name this process so that a later process with the same number is not taken for it."""
    return _mark(os.getpid())


@lru_cache(maxsize=1)
def _mark(pid: int) -> str:
    return f"{pid}:{_started(pid)}:{_boot()}"


def is_alive(mark: str) -> bool:
    """Tell whether the process of a mark still runs on this machine, on this boot."""
    pid, _, rest = mark.partition(":")
    started, _, boot = rest.partition(":")
    if not pid.isdigit() or boot != _boot():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it runs, as somebody else
    return _started(int(pid)) == started


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _started(pid: int) -> str:
    """The start time in clock ticks since boot, empty where the system does not tell."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    # The command, in parentheses, may hold blanks and parentheses itself.
    return stat.rpartition(")")[2].split()[19]
