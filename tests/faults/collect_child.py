"""The other process of the spool tests: it collects without a pause, and is killed at any moment.

    collect_child.py HOME

Says `at` in the middle of every transaction.
"""

import os
import sys
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPO / "src"), str(REPO)]

from threadkeep.capture.observed import collector  # noqa: E402
from threadkeep.errors import ThreadkeepError  # noqa: E402
from threadkeep.home.home import Home  # noqa: E402


def main() -> None:
    vars(collector)["_BLOCK"] = 2048  # a few commands: there must be much to be killed in
    move = collector._move

    def move_and_tell(*given: Any) -> None:
        move(*given)
        os.write(1, b"at\n")

    vars(collector)["_move"] = move_and_tell
    try:
        with Home(sys.argv[1], environ={}).observations() as observations:
            while True:
                observations.collect()
    except ThreadkeepError as error:
        sys.exit(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
