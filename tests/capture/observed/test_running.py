"""Programs that are run with their output kept: nothing about them changes."""

import fcntl
import itertools
import os
import select
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.conftest import REPO
from threadkeep.capture.observed import command_wrapper
from threadkeep.capture.observed.command_wrapper import ProcessResult, run_command
from threadkeep.errors import Invalid

RUN = (
    "import sys; from threadkeep.capture.observed.command_wrapper import run_command\n"
    "sys.exit(run_command(sys.argv[1:], head_lines=50, tail_lines=100).exit_code)"
)
# The same as the leader of a session whose terminal is its standard input.
RUN_IN_TERMINAL = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n" + RUN
ENVIRONMENT = os.environ | {"PYTHONPATH": str(REPO / "src")}
LIMIT = 60  # seconds until a test that hangs fails


class Captured:
    """Runs programs with files as our outputs."""

    def __init__(self, folder: Path) -> None:
        self._paths = folder / "out", folder / "err"

    def run(self, *argv: str) -> ProcessResult:
        with self._paths[0].open("wb") as out, self._paths[1].open("wb") as err:
            return run_command(
                argv,
                head_lines=5,
                tail_lines=5,
                stdout=out.fileno(),
                stderr=err.fileno(),
                clock=itertools.count(1000, 10).__next__,
            )

    @property
    def out(self) -> bytes:
        return self._paths[0].read_bytes()

    @property
    def err(self) -> bytes:
        return self._paths[1].read_bytes()


@pytest.fixture
def captured(tmp_path: Path) -> Captured:
    return Captured(tmp_path)


def python(code: str) -> tuple[str, str, str]:
    return sys.executable, "-c", code


# ---------------------------------------------------------------------- without a terminal


def test_outputs_are_passed_on_apart_and_kept(captured: Captured) -> None:
    ran = captured.run("sh", "-c", "echo out; echo error >&2; printf more; exit 3")
    assert (captured.out, captured.err) == (b"out\nmore", b"error\n")
    assert (ran.stdout.content, ran.stderr.content) == ("out\nmore", "error\n")
    assert (ran.exit_code, ran.started_ms, ran.ended_ms) == (3, 1000, 1010)


def test_every_byte_is_passed_on_and_little_is_kept(captured: Captured) -> None:
    code = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 40_000)"
    ran = captured.run(*python(code))
    assert captured.out == bytes(range(256)) * 40_000
    assert ran.stdout.original_bytes == 256 * 40_000
    assert ran.stdout.truncated
    assert len(ran.stdout.content) < 20_000
    assert ran.exit_code == 0


def test_a_signal_is_an_exit_code_as_in_a_shell(captured: Captured) -> None:
    assert captured.run("sh", "-c", "kill -TERM $$").exit_code == 128 + 15
    assert captured.run("sh", "-c", "kill -KILL $$").exit_code == 128 + 9


def test_a_program_that_is_not_there(captured: Captured) -> None:
    ran = captured.run("no-such-program", "--help")
    assert ran.exit_code == 127
    assert captured.err == b"threadkeep run: no-such-program: no such program\n"
    assert ran.stderr.content == captured.err.decode()
    assert ran.ended_ms > ran.started_ms


def test_a_file_that_is_no_program(captured: Captured, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    ran = captured.run(str(tmp_path / "text"))
    assert ran.exit_code == 126
    assert "cannot be run: Permission denied" in ran.stderr.content


@pytest.mark.parametrize("argv", [[], ["a\0b"], ["ls", "\0"]])
def test_no_program_at_all_is_refused(argv: list[str]) -> None:
    with pytest.raises(Invalid, match="no program"):
        run_command(argv, head_lines=1, tail_lines=1)


def test_no_descriptor_is_left_open(captured: Captured) -> None:
    before = sorted(Path("/dev/fd").iterdir())
    captured.run("true")
    captured.run("no-such-program")
    assert sorted(Path("/dev/fd").iterdir()) == before


def test_signal_handlers_are_as_before(captured: Captured) -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGWINCH)
    before = [signal.getsignal(number) for number in numbers]
    captured.run("true")
    assert [signal.getsignal(number) for number in numbers] == before


def test_it_runs_outside_the_main_thread_too(captured: Captured) -> None:
    found: list[ProcessResult] = []
    thread = threading.Thread(target=lambda: found.append(captured.run("echo", "hi")))
    thread.start()
    thread.join(LIMIT)
    assert found[0].stdout.content == "hi\n"


def test_children_left_behind_do_not_hold_us(captured: Captured) -> None:
    ran = captured.run("sh", "-c", "tail -f /dev/null & echo $!")
    assert ran.exit_code == 0
    assert captured.out == ran.stdout.content.encode()
    os.kill(int(captured.out), signal.SIGKILL)


def test_children_left_behind_that_never_stop_printing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_wrapper, "_LATEST_SECONDS", 0.1)
    reader, err = os.pipe()
    null = os.open(os.devnull, os.O_WRONLY)
    argv = ["sh", "-c", "yes & echo $! >&2"]
    ran = run_command(argv, head_lines=1, tail_lines=1, stdout=null, stderr=err)
    with suppress(ProcessLookupError):  # nobody listened any more
        os.kill(int(os.read(reader, 100)), signal.SIGKILL)
    for descriptor in (reader, err, null):
        os.close(descriptor)
    assert ran.exit_code == 0


def test_a_program_is_told_that_nobody_listens_any_more() -> None:
    reader, out = os.pipe()
    os.close(reader)
    ran = run_command(["yes"], head_lines=1, tail_lines=1, stdout=out, stderr=out)
    os.close(out)
    assert ran.exit_code == 128 + signal.SIGPIPE


def test_an_output_that_does_not_wait_still_gets_everything() -> None:
    reader, out = os.pipe()
    os.set_blocking(out, False)
    got = bytearray()

    def drain() -> None:
        while block := os.read(reader, 1 << 16):
            got.extend(block)

    thread = threading.Thread(target=drain)
    thread.start()
    argv = ["head", "-c", "3000000", "/dev/zero"]
    ran = run_command(argv, head_lines=1, tail_lines=1, stdout=out, stderr=2)
    os.close(out)
    thread.join(LIMIT)
    os.close(reader)
    assert bytes(got) == bytes(3_000_000)
    assert ran.stdout.original_bytes == 3_000_000


# Whoever started the tests may ignore signals, and programs inherit that.
HEARS_SIGNALS = """import signal
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
"""


@contextmanager
def started(code: str, *argv: str, **ends: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program under a process of our own, which is ended if the test fails."""
    given = {name: ends.get(name, subprocess.PIPE) for name in ("stdin", "stdout", "stderr")}
    process = subprocess.Popen(
        [sys.executable, "-c", f"{HEARS_SIGNALS}{code}", *argv],
        env=ENVIRONMENT,
        start_new_session=True,
        stdin=given["stdin"],
        stdout=given["stdout"],
        stderr=given["stderr"],
    )
    watchdog = threading.Timer(LIMIT, os.killpg, (process.pid, signal.SIGKILL))
    watchdog.start()
    try:
        yield process
    finally:
        watchdog.cancel()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe:
                pipe.close()


def test_output_comes_while_the_program_runs_and_input_is_its_own() -> None:
    code = "print('name?', flush=True); print('hello', input())"
    with started(RUN, *python(code)) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"name?\n"
        process.stdin.write(b"you\nleft over")
        process.stdin.close()
        assert process.stdout.read() == b"hello you\n"
        assert process.wait(LIMIT) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_signals_to_us_reach_the_program(number: signal.Signals) -> None:
    code = (
        "import signal, sys\n"
        "def end(number, frame): print('got', number, flush=True); sys.exit(7)\n"
        f"signal.signal({number.value}, end); print('ready', flush=True); signal.pause()"
    )
    with started(RUN, *python(code)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        os.kill(process.pid, number)
        assert process.stdout.readline() == b"got %d\n" % number
        assert process.wait(LIMIT) == 7


def test_a_signal_that_is_ignored_stays_so_for_the_program() -> None:
    ignoring = f"import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n{RUN}"
    code = "import signal; print(signal.getsignal(signal.SIGHUP) == signal.SIG_IGN)"
    with started(ignoring, *python(code)) as process:
        assert process.stdout is not None
        assert process.stdout.read() == b"True\n"


# ---------------------------------------------------------------------- on a terminal


class Screen:
    """A terminal: what a user sees and types is at its other end."""

    def __init__(self) -> None:
        self.user, self.terminal = os.openpty()
        self._ends: tuple[int, ...] = (self.user, self.terminal)
        self.seen = b""

    def until(self, text: bytes) -> None:
        """Read on until this is seen, and forget what was before."""
        while text not in self.seen:
            ready, _, _ = select.select([self.user], [], [], LIMIT)
            assert ready, f"{text!r} never came, but {self.seen!r}"
            self.seen += os.read(self.user, 4096)
        self.seen = self.seen.partition(text)[2]

    def type(self, keys: bytes) -> None:
        os.write(self.user, keys)

    def echoes(self) -> bool:
        return bool(termios.tcgetattr(self.user)[3] & termios.ECHO)

    def hang_up(self) -> None:
        """Close both ends; a second time closes nothing, for the numbers may be others' by then."""
        ends, self._ends = self._ends, ()
        for descriptor in ends:
            os.close(descriptor)


@pytest.fixture
def screen() -> Iterator[Screen]:
    made = Screen()
    yield made
    made.hang_up()


def on(screen: Screen, *argv: str) -> ProcessResult:
    both = screen.terminal
    return run_command(argv, head_lines=5, tail_lines=5, stdout=both, stderr=both)


@contextmanager
def running_on(screen: Screen, *argv: str) -> Iterator[subprocess.Popen[bytes]]:
    ends = dict.fromkeys(("stdin", "stdout", "stderr"), screen.terminal)
    with started(RUN_IN_TERMINAL, *argv, **ends) as process:
        yield process


def test_a_terminal_stays_a_terminal_of_the_same_size(screen: Screen) -> None:
    termios.tcsetwinsize(screen.terminal, (33, 111))
    code = "import os; print(os.isatty(1), os.isatty(2), *os.get_terminal_size())"
    ran = on(screen, *python(code))
    assert ran.stdout.content == "True True 111 33\n"
    screen.until(b"True True 111 33\r\n")
    assert screen.seen == b""


def test_both_outputs_come_in_their_order(screen: Screen) -> None:
    ran = on(screen, "sh", "-c", "for n in 1 2 3; do echo out $n; echo err $n >&2; done")
    assert ran.stdout.content == "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n"
    assert ran.stderr.content == ""


def test_colours_reach_the_screen_and_not_what_is_kept(screen: Screen) -> None:
    ran = on(screen, "printf", r"\033[31mred\033[0m\n")
    screen.until(b"\x1b[31mred\x1b[0m\r\n")
    assert ran.stdout.content == "red\n"


@pytest.mark.parametrize("which", ["stdout", "stderr"])
def test_one_output_may_be_a_terminal_and_the_other_none(
    screen: Screen, tmp_path: Path, which: str
) -> None:
    code = "import os, sys; print(os.isatty(1), os.isatty(2)); print('err', file=sys.stderr)"
    with (tmp_path / "file").open("wb") as file:
        ends = {"stdout": file.fileno(), "stderr": file.fileno()} | {which: screen.terminal}
        ran = run_command(
            python(code), head_lines=5, tail_lines=5, stdout=ends["stdout"], stderr=ends["stderr"]
        )
    assert ran.stdout.content == f"{which == 'stdout'} {which == 'stderr'}\n"
    assert ran.stderr.content == "err\n"


def test_children_left_behind_on_a_terminal_do_not_hold_us(screen: Screen) -> None:
    ran = on(screen, "sh", "-c", "tail -f /dev/null & echo $!")
    os.kill(int(ran.stdout.content), signal.SIGKILL)
    assert ran.exit_code == 0


def test_ctrl_c_reaches_the_program_once(screen: Screen) -> None:
    code = (
        "import os, signal, sys; got = []; woken, wake = os.pipe(); os.set_blocking(wake, False)\n"
        "signal.signal(signal.SIGINT, lambda number, frame: got.append(number))\n"
        "signal.set_wakeup_fd(wake); print('ready', flush=True)\n"
        "os.read(woken, 1); print('interrupted', flush=True)\n"
        "input(); print('times', len(got)); sys.exit(5)"
    )
    with running_on(screen, *python(code)) as process:
        screen.until(b"ready")
        screen.type(b"\x03")
        screen.until(b"interrupted")
        screen.type(b"\n")
        screen.until(b"times 1\r\n")
        assert process.wait(LIMIT) == 5


def test_a_program_that_ctrl_c_ends_has_the_exit_code_of_a_shell(screen: Screen) -> None:
    with running_on(screen, "sh", "-c", "echo ready; exec tail -f /dev/null") as process:
        screen.until(b"ready")
        screen.type(b"\x03")
        assert process.wait(LIMIT) == 128 + signal.SIGINT


def test_a_window_that_changes_its_size_is_followed(screen: Screen) -> None:
    code = (
        "import os, signal\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH]); print('ready', flush=True)\n"
        "while os.get_terminal_size().columns != 123: signal.sigwait([signal.SIGWINCH])\n"
        "print('wide')"
    )
    with running_on(screen, *python(code)) as process:
        screen.until(b"ready")
        termios.tcsetwinsize(screen.user, (40, 123))
        screen.until(b"wide")
        assert process.wait(LIMIT) == 0


def test_modes_that_a_program_sets_on_its_output_hold_for_the_keys(screen: Screen) -> None:
    code = (
        "import termios; modes = termios.tcgetattr(1); modes[3] &= ~termios.ECHO\n"
        "termios.tcsetattr(1, termios.TCSANOW, modes); print('quiet', flush=True); input()"
    )
    assert screen.echoes()
    with running_on(screen, *python(code)) as process:
        screen.until(b"quiet")
        assert not screen.echoes()
        screen.type(b"unseen\n")
        assert process.wait(LIMIT) == 0
        assert screen.echoes()


def test_a_terminal_is_not_read_from(screen: Screen) -> None:
    """What is typed ahead is left for whoever reads next."""
    screen.type(b"typed ahead\n")
    with running_on(screen, "echo", "done") as process:
        assert process.wait(LIMIT) == 0
    assert fcntl.ioctl(screen.terminal, termios.FIONREAD, b"\0" * 4) != b"\0" * 4
