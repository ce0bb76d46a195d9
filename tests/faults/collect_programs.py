"""The other processes of the fault tests: they listen, report or fill the disk until they die.

collect_programs.py listen HOME     keeps a home current, and says where it listens
collect_programs.py report HOME     leaves numbered reports; says each number when it is safe
collect_programs.py fill HOME       collects with files that must not grow, then with room
"""

import os
import resource
import sys
import threading
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPO / "src"), str(REPO)]

from tests.faults.collect_world import shell_line  # noqa: E402
from threadkeep.base.spool import Spool  # noqa: E402
from threadkeep.errors import StorageFull  # noqa: E402
from threadkeep.home.home import Home  # noqa: E402
from threadkeep.service.parts import keeping  # noqa: E402

_LINES = 50


def say(text: str) -> None:
    """Tell the test, at once."""
    os.write(1, f"{text}\n".encode())


def listen(home: Home) -> None:
    """Keep a home current until somebody ends it."""
    stop = threading.Event()
    with (
        home.observations() as observations,
        keeping(home, observations, stop, say, version="1"),
    ):
        stop.wait()


def report(home: Home) -> None:
    """Leave files of many lines each; a number is said when its file is on the disk."""
    spool = Spool(home.paths().data / "spool")
    for number in range(1_000_000):
        first = number * _LINES
        spool.put(b"".join(shell_line(n, command=f"c{n}") for n in range(first, first + _LINES)))
        say(str(number))


def fill(home: Home) -> None:
    """Collect while no file may grow, then when they may again, with the same observations."""
    with home.observations() as observations:
        largest = home.knowledge_path().stat().st_size
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        sys.dont_write_bytecode = True  # compiled modules would be cut off at the limit
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest // 2, hard))
        try:
            observations.collect()
        except StorageFull as error:
            say(type(error).__name__)
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        say(f"new {observations.collect().new}")


if __name__ == "__main__":
    {"listen": listen, "report": report, "fill": fill}[sys.argv[1]](Home(sys.argv[2], environ={}))
