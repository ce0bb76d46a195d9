"""The other process of the tests about serving: it serves a home until it is ended.

    serve_child.py HOME USER [HIPPO]

Says every line that `serve` tells, and at the end how it ended.
"""

import os
import sys
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPO / "src"), str(REPO)]

from threadkeep.cli.signals import ended_by_signals  # noqa: E402
from threadkeep.errors import ThreadkeepError  # noqa: E402
from threadkeep.home.home import Home  # noqa: E402
from threadkeep.service.serve import serve  # noqa: E402


def say(text: str) -> None:
    """Say a line in one system call, so that a kill cannot cut it."""
    os.write(1, f"{text}\n".encode())


def main() -> None:
    home, user, *hippo = sys.argv[1:]
    folder = Path(hippo[0]) if hippo else None
    try:
        with ended_by_signals() as stop:
            serve(
                Home(home, environ={"HOME": user}),
                stop,
                say,
                version="1.2.3",
                user_home=user,
                hippo_dir=folder,
            )
    except ThreadkeepError as error:
        sys.exit(f"{type(error).__name__}: {error}")
    say("ended")


if __name__ == "__main__":
    main()
