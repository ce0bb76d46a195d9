"""The other process of the capture tests: it captures or watches, and is killed at any moment.

    capture_child.py capture|learn|watch HOME USER BATCH

`learn` also makes nodes and lessons of what was captured, as `threadkeep capture` does.

Commits come after every BATCH bytes, so that there is something between the commits to be killed
in. Says `at N` for every step of a capture and `have N` for the lines in the store.
"""

import os
import sys
from functools import partial
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPO / "src"), str(REPO)]

from threadkeep.base.tx import Sql  # noqa: E402
from threadkeep.capture import engine, intake  # noqa: E402
from threadkeep.capture.capture import History  # noqa: E402
from threadkeep.capture.records import Progress  # noqa: E402
from threadkeep.errors import ThreadkeepError  # noqa: E402
from threadkeep.home.home import Home  # noqa: E402
from threadkeep.service.learn import enrich, learn_all, learn_recent  # noqa: E402


def say(*words: object) -> None:
    """Say a line in one system call, so that a kill cannot cut it."""
    os.write(1, " ".join(map(str, words)).encode() + b"\n")


def tell_progress(progress: Progress) -> None:
    say("at", progress.bytes_done)


def tell_lines(history: History) -> None:
    with history.store.context.db.read() as tx:
        say("have", tx.value(Sql("SELECT coalesce(sum(lines), 0) FROM tk_logs")))


def main() -> None:
    role, home, user, batch = sys.argv[1:]
    for module in (intake, engine):
        vars(module)["BATCH_BYTES"] = int(batch)
    try:
        owner = Home(home, environ={})
        with owner.history(user_home=user) as history:
            if role == "watch":
                history.watch(lambda: False, lambda _: tell_lines(history), poll_seconds=0.02)
            learn = partial(learn_recent, owner, history) if role == "learn" else None
            report = history.capture(show=tell_progress, learn=learn)
            if role == "learn":
                enrich(owner, history, with_model=False, at_once=True)
                learn_all(owner, history)
            tell_lines(history)
            say("done", report.errors)
    except ThreadkeepError as error:
        sys.exit(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
