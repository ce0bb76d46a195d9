"""The fault tools and how they are pointed at each store.

The tools are not part of this project: they live in the folder `faults` of the optional test data
(see tests/conftest.py). Here is what each is asked to do, short for every test run and long for
`make faults`.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests.faults.protocol import BUGS

HERE = Path(__file__).resolve().parent
REPO = HERE.parents[1]


class Run(NamedTuple):
    """One run of one tool; `{work}` in its arguments stands for an empty folder."""

    name: str
    tool: str
    arguments: tuple[str, ...]
    mounts: str = ""
    """The kind of file system that the tool mounts."""
    program: str = ""
    """The program that the tool runs ours under."""


class Outcome(NamedTuple):
    """How a run ended: what the tool printed, and errors of ours that were not typed."""

    run: Run
    passed: bool
    seconds: float
    output: str

    def line(self) -> str:
        """Return the one line that says it all."""
        word = "ok  " if self.passed else "FAIL"
        facts = "; ".join(fact for fact in map(self._fact, _FACTS) if fact)
        return f"{word} {self.run.name:<32} {self.seconds:6.1f} s  {facts}"

    def _fact(self, pattern: str) -> str:
        found = re.search(pattern, self.output, re.MULTILINE)
        return " ".join(found.group(1).split()) if found else ""


# What of a tool's report belongs into the summary.
_FACTS = (
    r"^  (?:iterations|power cuts|rounds|points|writers) +(\S.*)$",
    r"^  (tried / acknowledged / refused .*)$",
    r"^  (acknowledged(?: / refused)? .*)$",
    r"^  (LOST acknowledged +\d+)",
    r"^  (lost +\d+)",
    r"^  (torn +\d+)",
    r"^  (ack latency us .*)$",
    r"^  (peak -wal MB .*)$",
    r"^hostile: \w+ +(.*)$",
    r"^tear: \w+ +\((\d+ acknowledged in the source)",
)


def tools_folder() -> Path:
    """Return the folder of the tools, whether it is there or not."""
    named = os.environ.get("THREADKEEP_SHARED")
    return (Path(named) if named else REPO.parent / "shared") / "faults"


def adapter(script: str, *words: str) -> str:
    """Write a command for a tool's template; words in braces are for the tool to fill in."""
    program = shlex.join([sys.executable, str(HERE / script)])
    return " ".join([program, *words])


class Store(NamedTuple):
    """Which store the tools are pointed at: its adapters, and what its runs are called."""

    adapter: str
    hostile: str
    prefix: str = ""
    folder: bool = False
    """It lies in a folder: of its files a tool can look at the one that it was told of only."""

    @property
    def database(self) -> str:
        """The name of the file that a tool is told of."""
        return "outbound.db" if self.folder else "t.db"

    def command(self, *words: str) -> list[str]:
        """Return the adapter's command for these words, to be run without the tools."""
        return [sys.executable, str(HERE / self.adapter), *words]

    def writer(self, mode: str, *words: str) -> str:
        """Write the command of a writer in one of the adapter's modes."""
        return adapter(self.adapter, "write", "--db {db} --w {w}", f"--mode {mode}", *words)

    def verifier(self) -> str:
        """Write the command of the verifier."""
        return adapter(self.adapter, "verify", "--db {db}")


CHAT = Store("chat_adapter.py", "hostile_adapter.py")
STATE = Store("state_adapter.py", "state_hostile_adapter.py", "state-")
MAIL = Store("mail_adapter.py", "mail_hostile_adapter.py", "mail-", folder=True)
KNOWLEDGE = Store("knowledge_adapter.py", "", "knowledge-")
NEWEST_KNOWLEDGE = Store("knowledge_newest_adapter.py", "", "newest-knowledge-")
CAPTURE = Store("capture_adapter.py", "capture_hostile_adapter.py", "capture-")


def run(what: Run, work: Path) -> Outcome:
    """Run a tool in an empty folder and judge its end."""
    work.mkdir(parents=True)
    bugs = work / "bugs.txt"
    program = str(tools_folder() / f"{what.tool}.py")
    arguments = [word.replace("{work}", str(work)) for word in what.arguments]
    environ = {**os.environ, BUGS: str(bugs), "TMPDIR": str(work)}
    if "--rlimit" in arguments:  # compiled modules would be cut off at the limit
        environ["PYTHONDONTWRITEBYTECODE"] = "1"
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, program, *arguments],
        cwd=work,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    found = bugs.read_text(encoding="utf-8") if bugs.exists() else ""
    output = done.stdout + (f"\nerrors that are not threadkeep's own:\n{found}" if found else "")
    passed = done.returncode == 0 and not found
    return Outcome(what, passed, time.monotonic() - began, output)


def missing(what: Run, work: Path) -> str:
    """Say what of this machine a run would miss; empty if nothing."""
    if what.mounts and not can_mount(work, what.mounts):
        return f"needs root, mounts and mkfs for {what.mounts}"
    if what.program and shutil.which(what.program) is None:
        return f"needs {what.program} (`make test` as root on Debian installs it)"
    return ""


def can_mount(work: Path, kind: str) -> bool:
    """Tell whether this user may mount a tmpfs, or an image of a file system through a loop."""
    place, image = work / "probe", work / "probe.img"
    place.mkdir(parents=True)
    make = shutil.which(f"mkfs.{kind}", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if os.geteuid() != 0 or not (kind == "tmpfs" or make):
        return False
    command = ["mount", "-t", "tmpfs", "tmpfs", str(place)]
    if kind != "tmpfs":
        with image.open("wb") as file:
            file.truncate(_SMALLEST.get(kind, 16) << 20)
        subprocess.run([str(make), "-q", str(image)], check=True, capture_output=True)
        command = ["mount", "-o", "loop", str(image), str(place)]
    if subprocess.run(command, check=False, capture_output=True).returncode != 0:
        return False
    subprocess.run(["umount", str(place)], check=True)
    return True


_SMALLEST = {"xfs": 320}


# What each tool is asked -----------------------------------------------------------------


def kill9(
    kills: int, *, writers: int = 1, mode: str = "stream", seed: int, store: Store = CHAT
) -> Run:
    """Kill writers at random moments; a store is used for a hundred kills, a folder for all."""
    arguments = (
        *("--iterations", str(kills), "--db", f"{{work}}/kill/{store.database}", "--sqlite"),
        *("--seed", str(seed), "--writers", str(writers)),
        *("--fresh-every", "0" if store.folder else "100"),
        *("--kill", "one" if writers > 1 else "all"),
        *("--writer", store.writer(mode, "--iter {iter}"), "--verifier", store.verifier()),
    )
    return Run(f"{store.prefix}kill9 {mode}, {writers} writing", "kill9", arguments)


def powerloss(
    cuts: int,
    *,
    filesystem: str = "ext4",
    mode: str = "boundary",
    longest: int = 600,
    seed: int,
    store: Store = CHAT,
) -> Run:
    """Cut the power, at the latest after so many milliseconds.

    What was acknowledged must be there: in the mode `boundary` up to the last durable boundary, in
    the mode `relaxed` up to a second before the cut.
    """
    command = store.writer(mode, "--iter {iter}")
    arguments = (
        *("--iterations", str(cuts), "--fs", filesystem, "--seed", str(seed), "--sqlite"),
        *("--max-ms", str(longest)),
        *("--writer", command, "--verifier", store.verifier()),
    )
    name = f"{store.prefix}powerloss {filesystem} {mode}"
    return Run(name, "powerloss", arguments, mounts=filesystem)


def diskfull(
    rounds: int,
    *,
    limit: bool,
    mode: str = "stream",
    kilobytes: int = 4096,
    seed: int,
    store: Store = CHAT,
) -> Run:
    """Fill the disk, or reach the file-size limit; then give room again."""
    command = store.writer(mode, "--iter {iter}", "--n 4000")  # the tool looks for these words
    arguments = (
        *("--rounds", str(rounds), "--seed", str(seed), "--size-kb", str(kilobytes)),
        *(() if store.folder else ("--sqlite",)),
        *(("--rlimit",) if limit else ()),
        *("--writer", command, "--verifier", store.verifier()),
    )
    name = f"{store.prefix}diskfull {mode}, {'limit' if limit else 'tmpfs'}"
    return Run(name, "diskfull", arguments, mounts="" if limit else "tmpfs")


def concurrency(mode: str, *words: str, store: Store = CHAT) -> Run:
    """Let eight processes write from a cold start."""
    arguments = (
        *("--db", f"{{work}}/many/{store.database}", "--writers", "8", "--sqlite", *words),
        *("--writer", store.writer(mode, "--n {n}"), "--verifier", store.verifier()),
    )
    kind = " ".join(word for word in words if not word.isdigit())
    return Run(f"{store.prefix}concurrency {mode} {kind}", "concurrency", arguments)


def migcrash(versions: Iterable[int], method: str, *words: str, store: Store = CHAT) -> Run:
    """Stop the upgrade of an old file at every system call that changes something.

    A store whose files end differently by version (see `fresh`) takes one version at a time.
    """
    chosen = list(map(str, versions))
    old = adapter(store.adapter, "old", "--db {db} --version {version}")
    migrate = adapter(store.adapter, "migrate", "--db {db}")
    fresh = adapter(store.adapter, "fresh", f"--db {{db}} --version {chosen[0]}")
    arguments = (
        *("--versions", ",".join(chosen), "--method", method, *words),
        *("--make-old", old, "--migrate", migrate, "--fresh", fresh),
        *("--verifier", store.verifier()),
    )
    name = f"{store.prefix}migcrash {','.join(chosen)} {method} {' '.join(words)}"
    return Run(name, "migcrash", arguments, program="strace")


def tear(cases: int, *, mode: str = "ordered", seed: int, store: Store = CHAT) -> Run:
    """Damage the files of a store that was killed after some messages.

    The tool takes the order in which messages began for the order in which they changed. A store
    in a folder writes some messages and then puts one of its files where the tool looks for it.

    A store with a log is killed before its first checkpoint. After one the log is a copy of pages
    that the file has: a cut log then puts old pages over new ones, and rows that are missing in
    the middle have no hash that could tell. (No crash cuts a log that was copied.)
    """
    command = store.writer(mode, "--iter 1", "--n 60" if store.folder else "--stay 100")
    arguments = (
        *("--cases", str(cases), "--seed", str(seed)),
        *("--ms", "5000"),  # long enough on any machine: the writer has stopped by then
        *("--writer", command, "--verifier", store.verifier()),
    )
    return Run(f"{store.prefix}tear {mode}", "tear", arguments)


def hostile(store: Store = CHAT) -> Run:
    """Return every kind of bad input to every kind of field."""
    command = adapter(store.hostile, "--db {db} --root {root}")
    # After so many seconds it counts as hanging, on however busy a machine.
    return Run(f"{store.prefix}hostile", "hostile", ("--timeout", "120", "--adapter", command))
