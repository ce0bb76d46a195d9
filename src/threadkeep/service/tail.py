"""Following what all agents write, as it is captured: by this process, or by one that serves."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from threadkeep.base.presence import is_held
from threadkeep.capture.capture import History
from threadkeep.errors import ThreadkeepError
from threadkeep.service.parts import serve_lock, served_file

if TYPE_CHECKING:
    from threadkeep.home.home import Home


def is_served(home: "Home", path: str | Path | None = None) -> bool:
    """Tell whether a process serves a store: then it captures, and nobody else needs to."""
    return is_held(serve_lock(served_file(home, path)))


@contextmanager
def capturing(history: History, tell: Callable[[str], None]) -> Iterator[None]:
    """Capture what agents write beside the block, in a thread that ends with it."""
    stop = threading.Event()

    def work() -> None:
        try:
            history.watch(stop.is_set, lambda _: None)
        except ThreadkeepError as error:
            tell(f"capture stopped: {error.message}")

    thread = threading.Thread(target=work, name="threadkeep-capture", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        with suppress(KeyboardInterrupt):  # asked twice: what is half read is read again later
            thread.join()
