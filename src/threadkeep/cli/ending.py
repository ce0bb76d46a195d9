"""How a command that goes on for long is ended: by signals, or because nobody reads any more."""

import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import UnsupportedOperation
from types import FrameType

_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stopped_by_signals() -> Iterator[Callable[[], bool]]:
    """Let `kill`, and a terminal that goes away, end the command as Ctrl-C does.

    What it gives is asked now and then: an interrupt that is raised inside a finalizer is dropped
    by Python, and the command would follow for ever.
    """
    heard: list[int] = []

    def hear(number: int, frame: FrameType | None) -> None:
        heard.append(number)
        signal.default_int_handler(number, frame)

    def goes_on() -> bool:
        if heard:
            raise KeyboardInterrupt
        return True

    before = {number: signal.signal(number, hear) for number in _NUMBERS}
    try:
        yield goes_on
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def ended_by_signals() -> Iterator[threading.Event]:
    """Give an event that is set when somebody wants the command to end: Ctrl-C, kill, hang-up."""
    stop = threading.Event()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in _NUMBERS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def need_reader() -> bool:
    """Make sure that somebody still reads stdout: waiting alone would never find out."""
    try:
        descriptor = sys.stdout.fileno()
    except UnsupportedOperation:
        return True  # no file: it is kept in memory
    poll = select.poll()
    poll.register(descriptor, 0)
    if any(found & (select.POLLERR | select.POLLHUP) for _, found in poll.poll(0)):
        raise BrokenPipeError
    return True
