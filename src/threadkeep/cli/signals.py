"""How a command is ended: by signals, in time, or because nobody reads any more."""

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import UnsupportedOperation
from types import FrameType
from typing import Final

_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# How long a command may take to end by itself after a signal, and when SQLite is told to leave
# what it is at: Python runs no handler of signals while the main thread waits for it.
_END_SECONDS: Final = 1.6
_INTERRUPTS: Final = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
_OVER: Final = 0  # no signal has this number
_SHOW_CURSOR: Final = b"\x1b[?25h"


class SignalListener:
    """Sees to it that a signal ends the command within two seconds, whatever it is at.

    The system's own handler writes the number of a signal into a pipe at once, even while the main
    thread is deep inside a library. A thread reads it, and has the last word: nothing that was
    acknowledged is lost when a process is ended, so ending it is always safe.
    """

    def __init__(self) -> None:
        self.asked = False
        self._others = 0
        self._reading, self._writing = os.pipe()
        for descriptor in (self._reading, self._writing):
            os.set_blocking(descriptor, descriptor == self._reading)
        self._before = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._listen, name="threadkeep-end", daemon=True)
        self._thread.start()

    @contextmanager
    def left_to_others(self) -> Iterator[None]:
        """Let signals be the affair of a program that runs in front of us, as a pager does."""
        self._others += 1
        try:
            yield
        finally:
            self._others -= 1

    def _listen(self) -> None:
        while True:
            number = os.read(self._reading, 1)[0]
            if number == _OVER:
                return
            if number in _NUMBERS and not self._others:
                self.asked = True
                self._have_it_end(number)

    def _have_it_end(self, number: int) -> None:
        began = time.monotonic()
        for seconds in (*_INTERRUPTS, _END_SECONDS):
            if self._is_over(began + seconds - time.monotonic()):
                return
            if seconds < _END_SECONDS:
                _interrupt()
        with suppress(OSError):
            os.write(2, (_SHOW_CURSOR if os.isatty(2) else b"") + b"interrupted\n")
        os._exit(128 + number)

    def _is_over(self, seconds: float) -> bool:
        """Wait so long for the end; more signals change nothing."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if select.select([self._reading], [], [], left)[0]:
                number = os.read(self._reading, 1)[0]
                if number == _OVER:
                    os.write(self._writing, bytes([_OVER]))  # for `_listen`
                    return True
        return False

    def over(self) -> None:
        """Stop listening: the command is over."""
        signal.set_wakeup_fd(self._before)
        os.write(self._writing, bytes([_OVER]))
        self._thread.join()
        os.close(self._reading)
        os.close(self._writing)


def _interrupt() -> None:
    if "threadkeep.home" in sys.modules:  # else there is nothing to interrupt
        from threadkeep.base.sqlite.connect import interrupt_all

        interrupt_all()


_CURRENT: list[SignalListener] = []


@contextmanager
def ending_in_time(*, to_the_last: bool) -> Iterator[None]:
    """Have signals end what runs in the block within two seconds; only for the main thread.

    With `to_the_last` that goes for the end of the interpreter as well, which waits for threads.
    """
    if threading.current_thread() is not threading.main_thread() or _CURRENT:
        yield
        return
    ending = SignalListener()
    _CURRENT.append(ending)
    try:
        yield
    finally:
        _CURRENT.remove(ending)
        if not to_the_last:
            ending.over()


def was_asked_to_end() -> bool:
    """Tell whether a signal came that is to end the command."""
    return any(ending.asked for ending in _CURRENT)


@contextmanager
def left_to_others() -> Iterator[None]:
    """Let signals be the affair of a program that runs in front of us: it was meant."""
    if not _CURRENT:
        yield
        return
    with _CURRENT[0].left_to_others():
        yield


@contextmanager
def stopped_by_signals() -> Iterator[Callable[[], bool]]:
    """Let `kill`, and a terminal that goes away, end the command as Ctrl-C does.

    What it gives is asked now and then: an interrupt that is raised inside a finalizer is dropped
    by Python, and the command would follow forever.
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
    """Return an event that is set when somebody wants the command to end: Ctrl-C, kill, hang-up."""
    stop = threading.Event()

    def hear(*_: object) -> None:
        # On a thread: the handler may have cut into `stop.wait()`, which holds the event's lock.
        threading.Thread(target=stop.set, name="threadkeep-stop", daemon=True).start()

    before = {number: signal.signal(number, hear) for number in _NUMBERS}
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
