"""A server of a pipe lives no longer than whoever started it.

Closed input ends it, and so do SIGTERM, SIGHUP and SIGINT. Where the pipe stays open although the
parent is gone, since somebody else holds it too, the parent itself is watched: the kernel tells of
its end (Linux), and it is looked for every second.
"""

import ctypes
import os
import signal
import sys
from contextlib import suppress
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
# The kernel sends it also when only the thread ends that started us, so that it may not be deadly.
_LOOK: Final = signal.SIGUSR2
_ENDS: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
LOOK_SECONDS: Final = 1.0


class Ended(BaseException):
    """Nobody wants this process any more; raised wherever it stands."""


def is_adopted(own: int, session: int, parents_session: int | None) -> bool:
    """Tell whether a parent ended before we could look at it, by our session and that of the new.

    A child is in the session of its parent, or leads one of its own. Whoever takes orphans in is
    in another one.
    """
    return parents_session is not None and session not in {own, parents_session}


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:  # some systems do not tell
        return None


class Parent:
    """Whoever started this process."""

    def __init__(self) -> None:
        self.pid = os.getppid()
        self._was_gone = is_adopted(os.getpid(), os.getsid(0), _session_of(self.pid))

    @property
    def is_gone(self) -> bool:
        """Tell whether it has ended: then somebody else is our parent."""
        return self._was_gone or os.getppid() != self.pid

    def watch(self) -> None:
        """End with the parent and by signals; only the main thread may ask for it."""
        for number in _ENDS:
            signal.signal(number, self._end)
        signal.signal(_LOOK, self._look)
        if sys.platform == "linux":
            with suppress(OSError, AttributeError):  # without it, looking every second will do
                ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(_LOOK), 0, 0, 0)

    def _end(self, *_: object) -> None:
        raise Ended

    def _look(self, *_: object) -> None:
        if self.is_gone:
            raise Ended
