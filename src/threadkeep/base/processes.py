"""Processes: whether one still runs, what it is called, and which one holds a lock on a file."""

import os
import threading
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

_PROC = Path("/proc/self")
_LOCK_TABLE = Path("/proc/locks")
# /proc/locks: number, POSIX, ADVISORY, READ or WRITE, pid, device:inode, first byte, last byte
_LOCK_FIELDS = 8
_DEAD = "ZX"  # a zombie has closed its files and holds no lock


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
    if not (pid.isascii() and pid.isdigit()) or boot != _boot():
        return False
    return is_running(int(pid)) and _started(int(pid)) == started


def is_of_this_machine(mark: str) -> bool:
    """Tell whether a mark was made on this machine, on this boot; False where nobody can tell."""
    boot = mark.partition(":")[2].partition(":")[2]
    return boot != "" and boot == _boot()


def my_place() -> str:
    """Name this process for a file that other machines and containers may share: `host/mark`."""
    return f"{os.uname().nodename}/{my_mark()}"


def has_ended(place: str) -> bool:
    """Tell whether the process of a place was one of this machine and runs no more.

    Of another machine, or of a container with its own processes, nobody here can tell: False.
    """
    host, _, mark = place.partition("/")
    return host == os.uname().nodename and bool(mark) and not is_alive(mark)


def when_parent_ends(then: Callable[[], object]) -> None:
    """Call something, in a thread of its own, when whoever started this process is gone.

    It holds the other end of our standard input, and writes nothing there, for as long as it lives.
    The descriptor is read: the interpreter takes the lock of `sys.stdin` when it ends, and aborts
    (signal 6) where a thread waits for input with that lock in hand.
    """

    def wait() -> None:
        while os.read(0, 1):
            pass
        then()

    threading.Thread(target=wait, name="threadkeep-parent", daemon=True).start()


def describe_process(pid: int) -> str:
    """Say which process a pid is, as far as this machine tells."""
    if pid <= 0:
        return "a process outside this container"
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return f"process {pid}"
    command = " ".join(b" ".join(words).decode("utf-8", "replace").split())[:120]
    return f"process {pid} ({command})" if command else f"process {pid}"


def is_running(pid: int) -> bool:
    """Tell whether a process of this number runs on this machine."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass  # it runs, as somebody else
    return not _PROC.is_dir() or _started(pid) != ""


def is_stopped(pid: int) -> bool:
    """Tell whether a process was stopped (SIGSTOP, Ctrl-Z, a debugger); False if nobody tells."""
    return _stat(pid)[:1] in (["T"], ["t"])


def lock_holders(path: Path, kind: str, first: int, last: int) -> list[int]:
    """Find who holds READ or WRITE locks on bytes of a file, without opening it; none if unknown.

    Opening the file to ask would drop the locks of this process on it.
    """
    try:
        table = _LOCK_TABLE.read_text(encoding="ascii", errors="replace")
        found = os.stat(path)
    except OSError:
        return []
    device = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}"
    return find_holders(table, f"{device}:{found.st_ino}", kind, first, last)


def find_holders(table: str, file: str, kind: str, first: int, last: int) -> list[int]:
    """Find the pids that lock a range of `device:inode`, in the text of /proc/locks."""
    pids = []
    for line in table.splitlines():
        fields = line.split()
        if len(fields) != _LOCK_FIELDS or fields[3] != kind or fields[5] != file:
            continue  # a waiter's line has an arrow more
        end = last if fields[7] == "EOF" else int(fields[7])
        if int(fields[6]) <= last and end >= first:
            pids.append(int(fields[4]))
    return pids


def may_write(pid: int, path: Path) -> bool | None:
    """Tell whether a process has a file open to write it; None if the system does not tell."""
    try:
        file = os.stat(path)
        return any(_writes(link, file) for link in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return None


def _writes(link: Path, file: os.stat_result) -> bool:
    try:  # a look through the link opens nothing
        if not os.path.samestat(os.stat(link), file):
            return False
        told = link.parent.with_name("fdinfo") / link.name
        words = told.read_text(encoding="ascii").split()
    except FileNotFoundError:  # closed meanwhile
        return False
    return int(words[words.index("flags:") + 1], 8) & os.O_ACCMODE != os.O_RDONLY


@lru_cache(maxsize=1)
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _started(pid: int) -> str:
    """The start time in clock ticks since boot, empty if it is dead or the system does not tell."""
    fields = _stat(pid)
    return "" if not fields or fields[0] in _DEAD else fields[19]


def _stat(pid: int) -> list[str]:
    """What the system tells of a process from its state on; nothing where it does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    # The command, in parentheses, may hold blanks and parentheses itself.
    return stat.rpartition(")")[2].split()
