"""`mail-syncs`: how often each verb of the mailbox waits for the disk, told by strace.

A commit with a rollback journal waits five times: for the journal, for its name in the folder, for
its header, for the file, and for the removal of that name. With such a journal nothing costs less
that survives a power cut; SQLite's default leaves out the last.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from benchmarks.mail_folder import CHANNELS, QUESTION, REPLY, Sides, new_folder
from benchmarks.place import Place
from benchmarks.report import Goal, Result, Table, figure
from threadkeep.mailbox.host.sweep import sync

COMMIT = 5
_PROJECT: Final = Path(__file__).parent.parent
_MANY = 50
_MARK = "mark:"  # asked for as the name of a file, so that it shows up among the calls
_CALLS: Final = re.compile(rf'\b(?:f(?P<sync>data|)sync\(|f?access\w*\(.*"{_MARK}(?P<mark>[^"]*)")')
_SKIPPED = "mail-syncs: skipped, strace is not here"

# What the most of commits is that a verb may make, for each message.
_VERBS: Final[Mapping[str, tuple[int, float]]] = {
    "host send": (1, 1),
    "container poll": (1, 0),
    "container claim": (1, 1),
    f"container claim of {_MANY}": (_MANY, 1 / _MANY),
    "container send": (1, 1),
    "container complete": (1, 1),
    "host drain of 1": (1, 3),
    f"host drain of {_MANY}": (_MANY, (_MANY + 2) / _MANY),
    "host drain of nothing": (1, 0),
    "host sync of 1 answer": (1, 1),
    f"host sync of {_MANY} answers": (_MANY, 1 / _MANY),
    "host sync of no answer": (1, 0),
}


def run(place: Place) -> Result:
    """Run every verb in a child that strace watches, and count between the marks."""
    strace = shutil.which("strace")
    if strace is None:
        return Result([], facts=[_SKIPPED])
    with place.fresh() as folder:
        trace = folder / "trace"
        watch = [strace, "-f", "-qq", "-o", str(trace), "-e", "trace=/^(f(data)?sync|f?access.*)$"]
        child = [sys.executable, "-m", "benchmarks.mail_syncs", str(folder / "session")]
        subprocess.run([*watch, *child], check=True, cwd=_PROJECT)
        found = count_syncs(trace.read_text(encoding="utf-8", errors="replace"))
    each = {verb: found[verb] / messages for verb, (messages, _) in _VERBS.items()}
    rows = [(verb, figure(syncs, 2), figure(syncs / COMMIT, 2)) for verb, syncs in each.items()]
    columns = ("for each message", "syncs", "commits")
    return Result([Table("mail-syncs: waiting for the disk", columns, rows)], _goals(each))


def _goals(each: Mapping[str, float]) -> list[Goal]:
    limits = {verb: commits * COMMIT for verb, (_, commits) in _VERBS.items()}
    return [
        Goal(f"mail-syncs: {verb}, each message", limits[verb], syncs, "")
        for verb, syncs in each.items()
    ]


def count_syncs(trace: str) -> dict[str, int]:
    """Count the syncs that follow each mark."""
    counts = {"": 0}
    now = ""
    for call in _CALLS.finditer(trace):
        if call["mark"] is not None:
            now = call["mark"]
            counts[now] = 0
        else:
            counts[now] += 1
    return counts


# ------------------------------------------------------------------ the child


def _main() -> None:
    sides = new_folder(Path(sys.argv[1]))
    for verb, work in _steps(sides):
        _tell(verb)
        work()
        _tell("")


def _tell(mark: str) -> None:
    os.access(f"{_MARK}{mark}", os.F_OK)


def _steps(sides: Sides) -> Iterator[tuple[str, Callable[[], object]]]:
    """Return each verb with its work; what it needs is made before, between the marks."""
    host, container = sides
    yield "host send", lambda: host.send(QUESTION)
    yield "container poll", container.poll
    one = container.poll()
    yield "container claim", lambda: container.claim(one)
    yield "container send", lambda: container.send(REPLY, in_reply_to=one[0].id)
    yield "container complete", lambda: container.complete(one)
    yield "host drain of 1", lambda: host.drain(CHANNELS)
    yield "host drain of nothing", lambda: host.drain(CHANNELS)
    yield "host sync of 1 answer", lambda: sync(host.context)
    yield "host sync of no answer", lambda: sync(host.context)
    many = [host.send(QUESTION) for _ in range(_MANY)]
    yield f"container claim of {_MANY}", lambda: container.claim(many)
    container.complete(many)
    for _ in range(_MANY):
        container.send(REPLY)
    yield f"host drain of {_MANY}", lambda: host.drain(CHANNELS)
    yield f"host sync of {_MANY} answers", lambda: sync(host.context)


if __name__ == "__main__":
    _main()
