"""Real interactive shells in a pseudo-terminal, and what their hooks left in the spool.

Every prompt carries a number that counts up, so a test reads until the prompt it waits for: a
redrawn prompt or an echoed line cannot be taken for it, and nothing sleeps.
"""

import fcntl
import os
import pty
import select
import shlex
import signal
import subprocess
import termios
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.conftest import need_tool
from threadkeep.capture.observed.shell_hooks import render

# Only a test that is broken ever waits this long.
_PATIENCE = 30.0
_BLOCK = 65_536
RS, US, GS = "\x1e", "\x1f", "\x1d"

# The user's own start-up file: a numbered prompt, made by the user's own prompt code.
_ZSHRC = """
unsetopt prompt_sp; unset zle_bracketed_paste
setopt prompt_subst; HISTSIZE=1000
typeset -i prompt_number=0
precmd() { (( prompt_number++ )); }
PROMPT='[${prompt_number}]> '
"""
_BASHRC = """
prompt_number=0
PROMPT_COMMAND='prompt_number=$((prompt_number + 1))'
PS1='[${prompt_number}]> '
bind 'set enable-bracketed-paste off' 2>/dev/null
HISTFILE=$HOME/.bash_history
"""
_FISHRC = """
set -g prompt_number 0
function count_prompts --on-event fish_prompt
    set -g prompt_number (math $prompt_number + 1)
end
function fish_prompt
    printf '[%s]> ' $prompt_number
end
function fish_greeting; end
function fish_title; end
"""
_RC = {
    "zsh": (".zshrc", _ZSHRC),
    "bash": (".bashrc", _BASHRC),
    "fish": ("config/fish/config.fish", _FISHRC),
}


Record = dict[str, str]  # the fields by name, and "kind"

_COMMON = ("session", "pid", "seq", "shell", "host", "user", "started")
_NAMES = {
    "start1": (*_COMMON, "cwd", "chars", "command"),
    "end1": (*_COMMON, "ended", "exit", "cwd", "chars", "command"),
}


def read_spool(spool: Path) -> list[Record]:
    """Read every record of every shell, in the order of the files' names."""
    return [record for file in sorted(spool.glob("*.tk")) for record in _records(file)]


def _records(file: Path) -> Iterator[Record]:
    text = file.read_bytes().decode("utf-8", "surrogateescape")
    assert text.startswith(RS), "a record begins with RS"
    for piece in text[1:].split(RS):
        assert piece.endswith(GS + "\n"), f"a record ends with GS LF: {piece!r}"
        kind, *values = piece[:-2].split(US)
        if kind == "env1":
            session, pid, *pairs = values
            named = dict(pair.split("=", 1) for pair in pairs)
            yield {"kind": kind, "session": session, "pid": pid} | named
        else:
            yield {"kind": kind} | dict(zip(_NAMES[kind], values, strict=True))


class Terminal:
    """A shell on a terminal of its own."""

    def __init__(self, argv: list[str], environ: Mapping[str, str], cwd: Path) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, b"\x18\0\x50\0\0\0\0\0")
        self.process = subprocess.Popen(
            argv,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=dict(environ),
            cwd=cwd,
            start_new_session=True,
            preexec_fn=_take_terminal,  # noqa: PLW1509  (one system call, which nothing locks)
        )
        os.close(slave)
        self.seen = b""
        self.prompts = 0

    def type(self, text: str | bytes) -> None:
        """Type some keys, and wait for nothing."""
        data = text.encode() if isinstance(text, str) else text
        while data:
            # A terminal takes about 4 KiB ahead; the shell's echo must be read meanwhile.
            readable, writable, _ = select.select([self.master], [self.master], [], _PATIENCE)
            assert readable or writable, f"the shell reads nothing: {self.seen[-500:]!r}"
            if readable:
                self._read()
            if writable:
                data = data[os.write(self.master, data[:256]) :]

    def read_until(self, text: str) -> str:
        """Read what the shell shows up to `text`, and give what stands before it."""
        wanted = text.encode()
        while wanted not in self.seen:
            ready, _, _ = select.select([self.master], [], [], _PATIENCE)
            assert ready and self._read(), f"no {text!r} after {self.seen[-500:]!r}"  # noqa: PT018
        before, _, self.seen = self.seen.partition(wanted)
        return before.decode("utf-8", "replace")

    def prompt(self) -> str:
        """Wait for the next prompt, and give what was shown before it."""
        self.prompts += 1
        return self.read_until(f"[{self.prompts}]> ")

    def run(self, line: str | bytes) -> str:
        """Type a line, wait for the next prompt, and give what was shown before it."""
        self.type(line)
        self.type("\r")
        return self.prompt()

    def interrupt(self) -> None:
        """Press Ctrl-C at the prompt until the shell shows the next one.

        A line editor that gets the signal just before it waits for a key notices it with the next.
        """
        self.type("\x03")
        while f"[{self.prompts + 1}]> ".encode() not in self.seen:
            ready, _, _ = select.select([self.master], [], [], 1)
            if not ready:
                self.type("\x03")
            elif not self._read():
                break
        self.prompt()

    def close(self) -> None:
        """Close the terminal as a user closes a window, and wait for the shell's end."""
        os.close(self.master)
        self.master = -1
        self.process.wait(_PATIENCE)

    def ended(self) -> int:
        """Wait until the shell has ended by itself, and give its exit status."""
        while self._read():
            pass
        return self.process.wait(_PATIENCE)

    def kill(self) -> None:
        """End what is left."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        if self.master >= 0:
            os.close(self.master)

    def _read(self) -> bool:
        try:
            data = os.read(self.master, _BLOCK)
        except OSError:  # Linux says EIO when nobody has the other side any more
            return False
        self.seen += data
        return bool(data)


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    for number in (signal.SIGHUP, signal.SIGINT):  # whoever started us may ignore them
        signal.signal(number, signal.SIG_DFL)


class World(NamedTuple):
    """A user's home with a spool, in which shells are started."""

    home: Path
    spool: Path

    def records(self, kind: str = "") -> list[Record]:
        """Return the records of the spool, of one kind or of all."""
        return [r for r in read_spool(self.spool) if kind in {"", r["kind"]}]

    def commands(self) -> list[str]:
        """Return the commands that were seen to end."""
        return [record["command"] for record in self.records("end1")]

    @contextmanager
    def shell(
        self,
        name: str,
        before: str = "",
        after: str = "",
        *,
        hook: bool = True,
        environ: Mapping[str, str] | None = None,
    ) -> Iterator[Terminal]:
        """Start an interactive shell whose start-up file loads the hook, at its first prompt."""
        rc, counting = _RC[name]
        text = render(name, self.spool) if hook else ""
        hook_file = self.home / f"hook.{name}"
        hook_file.write_text(text, encoding="utf-8")
        source = f"source {shlex.quote(str(hook_file))}\n"
        (self.home / rc).parent.mkdir(parents=True, exist_ok=True)
        (self.home / rc).write_text(f"{counting}{before}\n{source}{after}\n", encoding="utf-8")
        terminal = Terminal(self.argv(name), self.environ() | dict(environ or {}), self.home)
        try:
            terminal.prompt()
            yield terminal
        finally:
            terminal.kill()

    def argv(self, name: str) -> list[str]:
        """Return the command that starts a shell as the terminal would."""
        options = {
            "zsh": ["-i", "-o", "no_global_rcs"],
            "bash": ["--rcfile", str(self.home / ".bashrc"), "-i"],
            "fish": ["-i"],
        }
        return [need_tool(name), *options[name]]

    def environ(self) -> dict[str, str]:
        """Return a small environment: nothing of the machine's own leaks into the tests."""
        return {
            "HOME": str(self.home),
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "TERM": "dumb",
            "LANG": "C.UTF-8",
            "USER": "tester",
            "ZDOTDIR": str(self.home),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "XDG_DATA_HOME": str(self.home / "data"),
        }


def make_world(folder: Path) -> World:
    """Make a home with an empty spool."""
    world = World(folder / "home", folder / "spool")
    # Where this folder is missing, fish reads all manual pages in the background.
    (world.home / "data" / "fish" / "generated_completions").mkdir(parents=True)
    world.spool.mkdir(mode=0o700)
    return world
