"""The long form of the fault tests: `python -m tests.faults.long [--only kill9,state] [--list]`.

Prints one line per run; ends with 1 if any failed. Takes more than three hours on two cores.
The last run is that of all tests at full length (tests/lengths.py).
The runs of the session store begin with `state-`, those of the mailbox with `mail-`, those of the
knowledge store with `knowledge-`, those of capture with `capture-`, that of `serve` with `serve`,
the others are the chat store's.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPO / "src"), str(REPO)]
os.environ["THREADKEEP_LONG"] = "1"  # here nothing is left out, nor in any program started here

from tests.faults import tools  # noqa: E402
from tests.faults.capture_kills import capture_under_kills  # noqa: E402
from tests.faults.family import new_store, race_for_queue  # noqa: E402
from tests.faults.mail_exchange import Exchange  # noqa: E402
from tests.faults.mail_old_files import INBOUND_VERSIONS, OUTBOUND_VERSIONS  # noqa: E402
from tests.faults.old_files import VERSIONS  # noqa: E402
from tests.faults.old_state_files import (  # noqa: E402
    UNNUMBERED,
    VERSIONS as STATE_VERSIONS,
    WITHOUT_INDEX,
)
from tests.faults.serve_kills import serve_under_kills  # noqa: E402
from tests.faults.tools import CAPTURE, KNOWLEDGE, MAIL, NEWEST_KNOWLEDGE, STATE  # noqa: E402
from tests.support.user_homes import made_up_home, multiply, real_sample  # noqa: E402

ROUNDS = 1000
CAPTURE_KILLS = 200
SERVE_KILLS = 200
MINUTE = ("--seconds", "60")


def plan(seed: int) -> list[tools.Run]:
    """Return every run of the long form."""
    stores = chat_plan(seed) + state_plan(seed) + mail_plan(seed)
    return stores + knowledge_plan() + capture_plan(seed)


def chat_plan(seed: int) -> list[tools.Run]:
    """Return the runs of the chat store."""
    return [
        tools.kill9(300, seed=seed),
        tools.kill9(100, writers=4, seed=seed + 1),
        tools.kill9(100, mode="boundary", seed=seed + 2),
        tools.powerloss(60, seed=seed + 3),
        tools.powerloss(60, filesystem="xfs", seed=seed + 4),
        tools.powerloss(20, mode="relaxed", longest=4000, seed=seed + 10),
        tools.diskfull(12, limit=False, seed=seed + 5),
        tools.diskfull(12, limit=True, seed=seed + 6),
        tools.diskfull(8, limit=False, mode="say", seed=seed + 7),
        tools.concurrency("say", *MINUTE, "--outsider"),
        tools.concurrency("stream", *MINUTE, "--outsider"),
        tools.concurrency("say", "--each", "60", "--long-reader", "--peak-wal-mb", "64"),
        tools.concurrency("say", *MINUTE, "--checkpointer", "TRUNCATE"),
        tools.concurrency("say", *MINUTE, "--long-reader", "--checkpointer", "RESTART"),
        tools.migcrash(VERSIONS, "syscall"),
        tools.migcrash((0, 3), "syscall", "--twice"),
        tools.migcrash((0, 3), "error", "--errno", "ENOSPC"),
        tools.migcrash((0, 3), "error", "--errno", "EIO"),
        tools.hostile(),
        tools.tear(270, seed=seed + 8),
        tools.tear(270, seed=seed + 9),
    ]


def state_plan(seed: int) -> list[tools.Run]:
    """Return the runs of the session store."""
    full = ("error", "--errno", "ENOSPC")
    odd = (UNNUMBERED, *STATE_VERSIONS, WITHOUT_INDEX)
    return [
        tools.kill9(300, mode="turns", seed=seed, store=STATE),
        tools.kill9(100, writers=4, mode="turns", seed=seed + 1, store=STATE),
        tools.kill9(100, writers=4, mode="say", seed=seed + 2, store=STATE),
        tools.powerloss(60, mode="turns", seed=seed + 3, store=STATE),
        tools.powerloss(60, filesystem="xfs", mode="turns", seed=seed + 4, store=STATE),
        tools.diskfull(12, limit=False, mode="turns", seed=seed + 5, store=STATE),
        tools.diskfull(12, limit=True, mode="turns", seed=seed + 6, store=STATE),
        tools.diskfull(8, limit=False, mode="say", seed=seed + 7, store=STATE),
        tools.concurrency("say", *MINUTE, "--outsider", store=STATE),
        tools.concurrency("turns", *MINUTE, "--outsider", store=STATE),
        tools.concurrency(
            *("say", "--each", "60", "--long-reader", "--peak-wal-mb", "64"), store=STATE
        ),
        tools.concurrency("say", *MINUTE, "--checkpointer", "TRUNCATE", store=STATE),
        tools.concurrency(
            "turns", *MINUTE, "--long-reader", "--checkpointer", "RESTART", store=STATE
        ),
        *(tools.migcrash((version,), "syscall", store=STATE) for version in odd),
        *(tools.migcrash((version,), "syscall", "--twice", store=STATE) for version in (1, 6)),
        *(tools.migcrash((version,), *full, store=STATE) for version in (1, WITHOUT_INDEX)),
        tools.migcrash((3,), "error", "--errno", "EIO", store=STATE),
        tools.hostile(STATE),
        tools.tear(270, mode="say", seed=seed + 8, store=STATE),
        tools.tear(270, mode="turns", seed=seed + 9, store=STATE),
    ]


def mail_plan(seed: int) -> list[tools.Run]:
    """Return the runs of the mailbox."""
    full = ("error", "--errno", "ENOSPC")
    versions = INBOUND_VERSIONS + OUTBOUND_VERSIONS
    return [
        tools.kill9(300, mode="both", seed=seed, store=MAIL),
        tools.kill9(100, writers=4, mode="both", seed=seed + 1, store=MAIL),
        tools.powerloss(60, mode="both", seed=seed + 2, store=MAIL),
        tools.powerloss(60, filesystem="xfs", mode="both", seed=seed + 3, store=MAIL),
        tools.diskfull(12, limit=False, mode="both", seed=seed + 4, store=MAIL),
        tools.diskfull(12, limit=True, mode="both", seed=seed + 5, store=MAIL),
        tools.concurrency("send", *MINUTE, "--outsider", store=MAIL),
        tools.concurrency("both", *MINUTE, "--outsider", store=MAIL),
        *(tools.migcrash((version,), "syscall", store=MAIL) for version in versions),
        *(tools.migcrash((version,), "syscall", "--twice", store=MAIL) for version in (1, 4)),
        *(tools.migcrash((version,), *full, store=MAIL) for version in (1, 4)),
        tools.hostile(MAIL),
        tools.tear(270, mode="ordered", seed=seed + 6, store=MAIL),
        tools.tear(270, mode="ordered-in", seed=seed + 7, store=MAIL),
    ]


def knowledge_plan() -> list[tools.Run]:
    """Return the runs of the knowledge store: the upgrade, from before each kind of step."""
    full = ("error", "--errno", "ENOSPC")
    return [
        *(tools.migcrash((version,), "syscall", store=KNOWLEDGE) for version in (1, 5, 12, 16, 17)),
        *(
            tools.migcrash((version,), "syscall", "--twice", store=KNOWLEDGE)
            for version in (12, 16)
        ),
        *(tools.migcrash((version,), *full, store=KNOWLEDGE) for version in (7, 16)),
        tools.migcrash((18,), "syscall", store=NEWEST_KNOWLEDGE),
        tools.migcrash((18,), *full, store=NEWEST_KNOWLEDGE),
    ]


def capture_plan(seed: int) -> list[tools.Run]:
    """Return the runs of capture: agents write logs that are captured line by line."""
    return [
        tools.kill9(200, mode="own", seed=seed, store=CAPTURE),
        tools.kill9(100, writers=4, mode="shared", seed=seed + 1, store=CAPTURE),
        tools.powerloss(40, mode="own", longest=1500, seed=seed + 2, store=CAPTURE),
        tools.powerloss(
            40, filesystem="xfs", mode="own", longest=1500, seed=seed + 3, store=CAPTURE
        ),
        tools.diskfull(8, limit=False, mode="own", seed=seed + 4, store=CAPTURE),
        tools.diskfull(8, limit=True, mode="own", seed=seed + 5, store=CAPTURE),
        tools.concurrency("own", *MINUTE, "--outsider", store=CAPTURE),
        tools.concurrency("shared", *MINUTE, "--outsider", store=CAPTURE),
        tools.hostile(CAPTURE),
        tools.tear(135, mode="own", seed=seed + 6, store=CAPTURE),
    ]


def skipped(run: tools.Run, work: Path) -> str:
    """Say why a run cannot be made here; empty if it can."""
    if not tools.tools_folder().is_dir():
        return f"there are no fault tools in {tools.tools_folder()} (THREADKEEP_SHARED)"
    return tools.missing(run, work)


def do(run: tools.Run, folder: Path) -> bool:
    """Make one run and print its line; True unless it failed."""
    reason = skipped(run, folder / "probe")
    if reason:
        print(f"skip {run.name:<32} {reason}", flush=True)
        return True
    outcome = tools.run(run, folder / "work")
    print(outcome.line(), flush=True)
    if not outcome.passed:
        print(outcome.output, flush=True)
    return outcome.passed


def race(folder: Path, _: int) -> tuple[bool, str]:
    """Let cancel and fire race a thousand times."""
    wins = race_for_queue(new_store(folder / "race.db"), ROUNDS)
    return wins["both"] == wins["none"] == 0, f"{ROUNDS} rounds, {wins}"


def exchange(folder: Path, seed: int) -> tuple[bool, str]:
    """Kill a host and an agent a thousand times while they exchange mail."""
    try:
        return True, str(Exchange(folder, seed).run(ROUNDS))
    except AssertionError:
        return False, traceback.format_exc()


def capture_kills(folder: Path, seed: int) -> tuple[bool, str]:
    """Kill the capture of a user home two hundred times, with real transcripts where they are."""
    shared = tools.tools_folder().parent
    real = (shared / "data" / "harness").is_dir()
    user = folder / "user"
    if real:
        real_sample(shared, user, most=3_000_000)
    else:
        multiply(made_up_home(user), 40)
    try:
        kills, rounds = capture_under_kills(folder / "home", user, CAPTURE_KILLS, seed)
    except AssertionError:
        return False, traceback.format_exc()
    return True, f"{kills} kills in {rounds} captures of {'real' if real else 'made-up'} logs"


def serve_kills(folder: Path, seed: int) -> tuple[bool, str]:
    """Kill `serve` two hundred times while agents and shells work beside it."""
    try:
        return True, f"{SERVE_KILLS} kills, {serve_under_kills(folder, SERVE_KILLS, seed)}"
    except AssertionError:
        return False, traceback.format_exc()


def all_tests(folder: Path, _: int) -> tuple[bool, str]:
    """Run every test at full length."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "2", f"--basetemp={folder / 'tests'}"],
        cwd=REPO,
        capture_output=True,
        text=True,
        check=False,
    )
    facts = done.stdout.strip().rpartition("\n")[2]
    return done.returncode == 0, facts if done.returncode == 0 else done.stdout


# What needs none of the tools, by the word that chooses it.
OWN: dict[str, Callable[[Path, int], tuple[bool, str]]] = {
    "race, cancel against fire": race,
    "mail-exchange under kills": exchange,
    "capture-home under kills": capture_kills,
    "serve under kills": serve_kills,
    "tests at full length": all_tests,
}


def do_own(name: str, seed: int, folder: Path) -> bool:
    """Make one run of our own and print its line; True unless it failed."""
    began = time.monotonic()
    passed, facts = OWN[name](folder, seed)
    word = "ok  " if passed else "FAIL"
    print(f"{word} {name:<32} {time.monotonic() - began:6.1f} s  {facts}", flush=True)
    return passed


def in_own_folder(action: Callable[[Path], bool]) -> bool:
    folder = Path(tempfile.mkdtemp(prefix="threadkeep-faults-"))
    try:
        return action(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="The long form of the fault tests.")
    parser.add_argument(
        "--only", default="", help="how the names of runs begin, separated by commas"
    )
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3)))
    parser.add_argument("--list", action="store_true", help="name the runs and do nothing")
    options = parser.parse_args()
    only = tuple(filter(None, options.only.split(",")))
    chosen = [run for run in plan(options.seed) if not only or run.name.startswith(only)]
    own = [name for name in OWN if not only or name.startswith(only)]
    if options.list:
        print("\n".join([*(run.name for run in chosen), *own]))
        return 0
    print(f"seed {options.seed}", flush=True)
    results = [in_own_folder(partial(do, run)) for run in chosen]
    results += [in_own_folder(partial(do_own, name, options.seed)) for name in own]
    print(f"{results.count(True)} of {len(results)} passed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
