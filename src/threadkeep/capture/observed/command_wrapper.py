"""Running a program while what it prints is passed on, live and unchanged, and kept aside.

The program keeps our standard input and our process group: what is typed, Ctrl-C and Ctrl-Z reach
it as if we were not there. Where our output is a terminal, so is its own; one terminal then takes
both outputs, in the order in which they were printed.
"""

import errno
import os
import re
import select
import selectors
import signal
import subprocess
import termios
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType
from typing import Any, Final, NamedTuple, Self

import msgspec

from threadkeep.base.clock import Clock, now_ms
from threadkeep.errors import Invalid
from threadkeep.knowledge.records import Output

# ------------------------------------------------------------------------------
# What a command printed, kept in bounded memory: its first and its last lines, as plain text.

SIDE_BYTES: Final = 64 << 10  # of UTF-8, at most, before and behind the omission

_ESCAPE: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]?"  # colours, cursor moves, erasing
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, links and other strings
    r"|\x1b[ -/]*[0-~]?"  # two-character escapes, and an escape that was cut
)
_CONTROL: Final = re.compile(r"[\x01-\x08\x0a-\x1f\x7f-\x9f]+")
_MARK_ROOM: Final = 64  # bytes for the mark of what was cut out of a line


def plain_text(raw: bytes) -> str:
    """Return what a line shows: no control sequences, other than text replaced by U+FFFD."""
    text = raw.decode("utf-8", "replace")
    if text.isprintable():
        return text
    text = _ESCAPE.sub("", text)
    shown = _overstruck(text) if "\b" in text else text
    return _CONTROL.sub("", shown).replace("\0", "\ufffd")


def _overstruck(text: str) -> str:
    """Let a backspace take away the character before it, as in a page of `man`."""
    first, *more = text.split("\b")
    shown = [first]
    for part in more:
        while shown and not shown[-1]:
            shown.pop()
        if shown:
            shown[-1] = shown[-1][:-1]
        shown.append(part)
    return "".join(shown)


class _Raw(NamedTuple):
    """A line as it was printed; `missing` bytes between its two ends are gone."""

    front: bytes
    missing: int = 0
    back: bytes = b""

    @property
    def size(self) -> int:
        return len(self.front) + len(self.back) + 1


class _Shown(NamedTuple):
    text: str
    size: int  # in UTF-8, with its line feed
    cut: bool = False


class _Line:
    """The line that is being printed: its first and its last bytes, if it is long."""

    def __init__(self, half: int) -> None:
        self._half = half
        self._front = bytearray()
        self._back = bytearray()
        self._length = 0
        self._returned = False

    def add(self, data: bytes) -> None:
        """Print on; what comes behind a carriage return takes the place of what was before."""
        body = data.rstrip(b"\r")
        if body:
            if self._returned or b"\r" in body:
                self._clear()
            self._append(body.rpartition(b"\r")[2])
        self._returned = len(body) < len(data) or (self._returned and not body)

    def _clear(self) -> None:
        self._front.clear()
        self._back.clear()
        self._length = 0

    def _append(self, data: bytes) -> None:
        room = self._half - len(self._front)
        self._front += data[:room]
        self._back += data[room:][-self._half :]
        if len(self._back) > 2 * self._half:  # now and then, so that few bytes are moved
            del self._back[: -self._half]
        self._length += len(data)

    def is_empty(self) -> bool:
        """Tell whether nothing was printed on it, not even a carriage return."""
        return not self._length and not self._returned

    def raw(self) -> _Raw:
        """Return what is kept of it."""
        back = bytes(self._back[-self._half :])
        missing = self._length - len(self._front) - len(back)
        front = bytes(self._front)
        return _Raw(front, missing, back) if missing else _Raw(front + back)


class HeadTail:
    """Keeps the first and the last lines of what it is fed with, and counts the others.

    Each side holds at most `side_bytes` (at least 256), so there may be fewer lines than asked for.
    What is kept is made readable when somebody asks for it: most lines only pass through.
    """

    def __init__(self, head_lines: int, tail_lines: int, side_bytes: int = SIDE_BYTES) -> None:
        self._head_lines = head_lines
        self._tail_lines = tail_lines
        self._limit = side_bytes
        self._head: list[_Raw] = []
        self._head_room = side_bytes
        self._head_open = head_lines > 0
        self._tail: deque[_Raw] = deque()
        self._tail_size = 0
        self._line = self._new_line()
        self._lines = 0
        self._bytes = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes that were printed."""
        self._bytes += len(data)
        at = 0
        while self._head_open and (end := data.find(b"\n", at)) >= 0:
            self._end_line(data[at:end])
            at = end + 1
        *lines, unfinished = self._latest(data[at:]).split(b"\n")
        for line in lines:
            self._end_line(line)
        self._line.add(unfinished)

    def output(self) -> Output:
        """Return what is kept so far."""
        raw_head, raw_tail, lines = self._head, list(self._tail), self._lines
        unfinished = not self._line.is_empty()
        if unfinished:
            raw_head, raw_tail = self._with(self._line.raw())
            lines += 1
        head = _fitting(raw_head, self._limit)
        tail = _fitting(raw_tail[::-1], self._limit)[::-1]
        omitted = lines - len(head) - len(tail)
        marker = [f"... ({omitted} lines omitted) ..."] if omitted else []
        texts = [*(line.text for line in head), *marker, *(line.text for line in tail)]
        return Output(
            content="\n".join(texts) + ("\n" if texts and not unfinished else ""),
            truncated=omitted > 0 or any(line.cut for line in [*head, *tail]),
            original_bytes=self._bytes,
        )

    def _new_line(self) -> _Line:
        return _Line((self._limit - 1) // 2)

    def _end_line(self, data: bytes) -> None:
        self._line.add(data)
        self._keep(self._line.raw())
        self._line = self._new_line()

    def _latest(self, data: bytes) -> bytes:
        """Leave out at once what could only pass through the last lines: most of a long output."""
        count = 0 if self._head_open else data.count(b"\n")
        if count <= self._tail_lines:
            return data
        at = len(data)
        for _ in range(self._tail_lines + 1):
            at = data.rfind(b"\n", 0, at)
        self._lines += count - self._tail_lines
        self._line = self._new_line()
        self._tail.clear()
        self._tail_size = 0
        return data[at + 1 :]

    def _keep(self, line: _Raw) -> None:
        self._lines += 1
        if self._fits_head(line):
            self._head.append(line)
            self._head_room -= line.size
            self._head_open = len(self._head) < self._head_lines
            return
        self._head_open = False
        self._tail.append(line)
        self._tail_size += line.size
        while len(self._tail) > self._tail_lines or self._tail_size > self._limit:
            self._tail_size -= self._tail.popleft().size

    def _fits_head(self, line: _Raw) -> bool:
        return self._head_open and line.size <= self._head_room

    def _with(self, line: _Raw) -> tuple[list[_Raw], list[_Raw]]:
        """Return both sides as if this line had ended."""
        if self._fits_head(line):
            return [*self._head, line], []
        tail = [*self._tail, line][-self._tail_lines :] if self._tail_lines else []
        return self._head, tail


def _fitting(lines: list[_Raw], limit: int) -> list[_Shown]:
    """Make lines readable, as many as a side holds."""
    fitting: list[_Shown] = []
    size = 0
    for line in lines:
        shown = _shown(line, limit)
        size += shown.size
        if size > limit:
            break
        fitting.append(shown)
    return fitting


def _shown(line: _Raw, limit: int) -> _Shown:
    """Make a line readable; a mark says how many bytes are missing in a long one."""
    front, back = plain_text(line.front).encode(), plain_text(line.back).encode()
    if not line.missing and len(front) < limit:
        return _Shown(front.decode(), len(front) + 1)
    room = (limit - _MARK_ROOM) // 2
    head, tail = front[:room], (back if line.missing else front)[-room:]
    lost = len(front) + line.missing + len(back) - len(head) - len(tail)
    mark = f"…[{lost} bytes omitted]…"
    text = head.decode("utf-8", "ignore") + mark + tail.decode("utf-8", "ignore")
    return _Shown(text, len(text.encode()) + 1, cut=True)


_BLOCK: Final = 64 << 10
# When the program has ended, others that it left behind may hold its output open forever. What
# it printed itself is here by then, or on its way through the kernel.
_QUIET_SECONDS: Final = 0.1
_LATEST_SECONDS: Final = 2.0
_TYPED: Final = (signal.SIGINT, signal.SIGQUIT)
_PASSED_ON: Final = (
    *(*_TYPED, signal.SIGTERM, signal.SIGHUP),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH),
)
_OUTPUT_FLAGS: Final = 1  # where they are in what tcgetattr() gives
_NOT_FOUND: Final = 127  # as shells have it
_NOT_RUNNABLE: Final = 126
_SIGNALLED: Final = 128


class ProcessResult(msgspec.Struct, frozen=True):
    """How a program ran, and what it printed."""

    exit_code: int  # as a shell gives it: 128 + the number of a signal
    started_ms: int
    ended_ms: int
    stdout: Output  # on a terminal both outputs, as they came
    stderr: Output


def run_command(
    argv: Sequence[str],
    *,
    head_lines: int,
    tail_lines: int,
    stdout: int = 1,
    stderr: int = 2,
    clock: Clock = now_ms,
) -> ProcessResult:
    """Run a program to its end; its outputs go to these descriptors and, in part, into the result.

    A program that cannot be started is told about on `stderr`, with the exit code of a shell.
    """
    if not argv or any("\0" in word for word in argv):
        raise Invalid("there is no program to run", hint="name it after --, with its arguments")
    kept = HeadTail(head_lines, tail_lines), HeadTail(head_lines, tail_lines)
    started = clock()
    with ExitStack() as stack:
        channels = _channels((stdout, stderr), kept)
        for channel in channels:
            stack.callback(channel.close)
        ran = _run(argv, channels, clock)
    if isinstance(ran, OSError):
        ran, message = _cannot_start(argv[0], ran, clock())
        kept[1].feed(message)
        _write(stderr, message)
    return ProcessResult(ran.code, started, ran.at, kept[0].output(), kept[1].output())


def _cannot_start(program: str, error: OSError, at: int) -> tuple["_Ended", bytes]:
    missing = error.errno in (errno.ENOENT, errno.ENOTDIR)
    reason = "no such program" if missing else f"cannot be run: {error.strerror}"
    message = f"threadkeep run: {program}: {reason}\n".encode("utf-8", "surrogateescape")
    return _Ended(_NOT_FOUND if missing else _NOT_RUNNABLE, at), message


class _Ended(NamedTuple):
    code: int
    at: int


def _run(argv: Sequence[str], channels: list["_Channel"], clock: Clock) -> _Ended | OSError:
    """Start the program and see it to its end; give the reason if it cannot be started."""
    relay = _Relay(channels)
    with relay.listening(), _Ending(clock) as ending:
        try:
            child = subprocess.Popen(  # noqa: S603  to run what the user names is the purpose
                list(argv), stdout=channels[0].theirs, stderr=channels[-1].theirs
            )
        except OSError as error:
            return error
        ending.watch(child)
        relay.reach(child)
        try:
            for channel in channels:
                channel.hand_over()
            _pump(channels, ending.descriptor)
        finally:
            for channel in channels:
                channel.end()
    code = child.returncode
    return _Ended(_SIGNALLED - code if code < 0 else code, ending.at)


# ---------------------------------------------------------------------- outputs


def _channels(targets: tuple[int, int], kept: tuple[HeadTail, HeadTail]) -> list["_Channel"]:
    """Open a way out for each output; two that end on a terminal are one, to keep their order."""
    terminals = {os.fstat(target).st_rdev for target in targets if os.isatty(target)}
    if len(terminals) == 1 and all(os.isatty(target) for target in targets):
        return [_Channel(targets[0], kept[0])]
    return [_Channel(target, keeper) for target, keeper in zip(targets, kept, strict=True)]


class _Channel:
    """A way from the program to one of our outputs: a pipe, or a terminal where ours is one."""

    def __init__(self, target: int, keeper: HeadTail) -> None:
        self._target = target
        self._keeper = keeper
        self._is_terminal = os.isatty(target)
        self.ours, self.theirs = os.openpty() if self._is_terminal else os.pipe()
        self._open = {self.ours, self.theirs}
        self._modes: list[Any] = []  # of the program's terminal
        self._own_modes: list[Any] = []  # of ours, before the program changed them
        if self._is_terminal:
            self._set_up()

    def _set_up(self) -> None:
        modes = termios.tcgetattr(self._target)
        modes[_OUTPUT_FLAGS] &= ~termios.OPOST  # our terminal does that, once is enough
        termios.tcsetattr(self.theirs, termios.TCSANOW, modes)
        self._modes = termios.tcgetattr(self.theirs)
        self.follow_size()

    def follow_size(self) -> None:
        """Give the program's terminal the size of ours."""
        if self._is_terminal:
            with suppress(OSError, termios.error):  # ours may be gone
                termios.tcsetwinsize(self.ours, termios.tcgetwinsize(self._target))

    def _follow_modes(self) -> None:
        """Do to our terminal, where keys are typed, what the program did to its own.

        Programs that fill the screen switch echo off where they print, not where they read.
        """
        with suppress(OSError, termios.error):
            modes = termios.tcgetattr(self.ours)
            if modes != self._modes:
                self._modes = modes.copy()
                ours = termios.tcgetattr(self._target)
                self._own_modes = self._own_modes or ours
                modes[_OUTPUT_FLAGS] |= ours[_OUTPUT_FLAGS] & termios.OPOST
                termios.tcsetattr(self._target, termios.TCSANOW, modes)

    def hand_over(self) -> None:
        """Close our copy of the program's end, so that its last one ends the output."""
        self._shut(self.theirs)

    def pass_on(self) -> bool:
        """Pass on what is there; False if no more can come, or nobody takes it any more."""
        try:
            data = os.read(self.ours, _BLOCK)
        except OSError as error:
            if error.errno != errno.EIO:  # how a terminal says that nobody has it open
                raise
            data = b""
        if self._is_terminal:
            self._follow_modes()
        self._keeper.feed(data)
        return bool(data) and _write(self._target, data)

    def end(self) -> None:
        """Close our end: a program that prints on is told that nobody listens."""
        self._shut(self.ours)

    def close(self) -> None:
        """Close what is open, and give our terminal its modes back."""
        for descriptor in (self.ours, self.theirs):
            self._shut(descriptor)
        if self._own_modes:
            with suppress(OSError, termios.error):
                termios.tcsetattr(self._target, termios.TCSANOW, self._own_modes)

    def _shut(self, descriptor: int) -> None:
        if descriptor in self._open:
            self._open.remove(descriptor)
            os.close(descriptor)


def _write(target: int, data: bytes) -> bool:
    """Write everything; False if nobody takes it."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(target, rest) :]
        except BlockingIOError:  # another program made the descriptor so, for all who share it
            select.select([], [target], [])
        except OSError:
            return False
    return True


def _pump(channels: list[_Channel], ended: int) -> None:
    """Pass output on until the program has ended and its outputs have, or are quiet."""
    latest: float | None = None
    with selectors.DefaultSelector() as selector:
        for channel in channels:
            selector.register(channel.ours, selectors.EVENT_READ, channel)
        selector.register(ended, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(None if latest is None else _QUIET_SECONDS)
            if latest is not None and (not ready or time.monotonic() > latest):
                return
            for key, _ in ready:
                if key.data is None:
                    selector.unregister(ended)
                    latest = time.monotonic() + _LATEST_SECONDS
                elif not key.data.pass_on():
                    selector.unregister(key.fd)
                    key.data.end()


# ---------------------------------------------------------------------- the end, and signals


class _Ending:
    """Waits for a program in a thread of its own; its descriptor is ready to read from then on."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._thread: threading.Thread | None = None
        self.descriptor, self._wake = os.pipe()
        self.at = 0

    def watch(self, child: subprocess.Popen[bytes]) -> None:
        """Begin to wait."""
        self._thread = threading.Thread(target=self._wait, args=(child,), daemon=True)
        self._thread.start()

    def _wait(self, child: subprocess.Popen[bytes]) -> None:
        child.wait()
        self.at = self._clock()
        os.write(self._wake, b".")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread:
            self._thread.join()
        os.close(self.descriptor)
        os.close(self._wake)


class _Relay:
    """Passes signals on to the program; those that we ignore it ignores as well."""

    def __init__(self, channels: list[_Channel]) -> None:
        self._channels = channels
        self._child: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []  # came before there was a program to get them

    def reach(self, child: subprocess.Popen[bytes]) -> None:
        """Name the program, which gets what has come before."""
        self._child = child
        for number in self._early:
            child.send_signal(number)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Listen to signals; only the main thread is told of them."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in _PASSED_ON}
        ours = {number: old for number, old in before.items() if old not in (signal.SIG_IGN, None)}
        try:
            for number in ours:
                signal.signal(number, self._take)
            yield
        finally:
            for number, old in ours.items():
                signal.signal(number, old)

    def _take(self, number: int, _: FrameType | None) -> None:
        if number == signal.SIGWINCH:
            for channel in self._channels:
                channel.follow_size()
        # What was typed the program got from the terminal; the size it may have asked too early.
        if number in _TYPED and _in_foreground():
            return
        if self._child:
            self._child.send_signal(number)
        else:
            self._early.append(number)


def _in_foreground() -> bool:
    """Tell whether keys reach us: then the terminal sends their signals to the program itself."""
    for descriptor in range(3):
        with suppress(OSError):
            if os.tcgetpgrp(descriptor) == os.getpgrp():
                return True
    return False
