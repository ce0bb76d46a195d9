"""Real shells in pseudo-terminals for `prompt`: bare, with our hook, and with git asked."""

import fcntl
import os
import pty
import select
import shutil
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from threadkeep.capture.observed.shell_hooks import render

BARE, OURS, GIT = "bare", "threadkeep", "git asked"
_PATIENCE: Final = 60.0
_WINDOW: Final = b"\x18\0\x50\0\0\0\0\0"  # 24 lines of 80 columns

# The prompt counts up, so that the wanted one cannot be taken for another.
_COUNTING: Final = {
    "zsh": """
unsetopt prompt_sp; unset zle_bracketed_paste; setopt prompt_subst
integer number=0; precmd() { (( ++number )) }; PROMPT='[$number]> '; HISTSIZE=1000
""",
    "bash": """
number=0; PROMPT_COMMAND='number=$((number + 1))'; PS1='[$number]> '; HISTCONTROL=ignoreboth
bind 'set enable-bracketed-paste off'
""",
    "fish": """
set -g number 0; function count --on-event fish_prompt; set number (math $number + 1); end
function fish_prompt; printf '[%s]> ' $number; end
function fish_greeting; end; function fish_title; end
""",
}

# What Hippo's hook does before a prompt is shown when it looks at git, and the program it then
# starts in the background (here one that does nothing).
_ASKING: Final = """
git rev-parse --is-inside-work-tree >/dev/null 2>&1
git rev-parse --abbrev-ref HEAD >/dev/null 2>&1
git rev-parse --short HEAD >/dev/null 2>&1
git remote get-url origin >/dev/null 2>&1
git rev-parse --show-toplevel >/dev/null 2>&1
git status --porcelain >/dev/null 2>&1
"""
_GIT: Final = {
    "zsh": f"precmd_functions+=(asking); asking() {{ {_ASKING} ( command true & ) }}",
    "bash": f"PROMPT_COMMAND+=(asking); asking() {{ {_ASKING} ( command true & ) }}",
    "fish": f"function asking --on-event fish_postexec; {_ASKING} command true & disown; end",
}

# Both functions of the hook, with a clock around them; a file takes the sums, in microseconds.
_CLOCK: Final = {
    "zsh": """
functions[their_preexec]=$functions[__threadkeep_preexec]
functions[their_precmd]=$functions[__threadkeep_precmd]
float begun spent=0
__threadkeep_preexec() {
  begun=$EPOCHREALTIME; their_preexec "$@"; spent=$((EPOCHREALTIME - begun))
}
__threadkeep_precmd() {
  begun=$EPOCHREALTIME; their_precmd; spent+=$((EPOCHREALTIME - begun))
  print -r -- $((spent * 1000000)) >>$HOME/inside; spent=0
}
""",
    "bash": """
eval "their_$(declare -f __threadkeep_prompt)"; eval "their_$(declare -f __threadkeep_ready)"
__threadkeep_prompt() {
  local begun=${EPOCHREALTIME/[.,]/}; their___threadkeep_prompt
  spent=$((${EPOCHREALTIME/[.,]/} - begun))
}
__threadkeep_ready() {
  local begun=${EPOCHREALTIME/[.,]/}; their___threadkeep_ready
  printf '%s\\n' $((spent + ${EPOCHREALTIME/[.,]/} - begun)) >>"$HOME/inside"
}
""",
    "fish": "",
}
_START_UP: Final = {"zsh": ".zshrc", "bash": ".bashrc", "fish": "config/fish/config.fish"}


class Shell:
    """A shell at its prompt."""

    def __init__(self, argv: list[str], environ: Mapping[str, str], cwd: Path) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, _WINDOW)
        self._process = subprocess.Popen(
            argv,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=dict(environ),
            cwd=cwd,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509
        )
        os.close(slave)
        self._prompts = 0
        self._wait()

    def run(self, line: str) -> float:
        """Enter a line, and give the seconds until the next prompt."""
        begun = time.perf_counter()
        os.write(self._master, f"{line}\r".encode())
        self._wait()
        return time.perf_counter() - begun

    def _wait(self) -> None:
        self._prompts += 1
        wanted, seen = f"[{self._prompts}]> ".encode(), b""
        while wanted not in seen:
            if not select.select([self._master], [], [], _PATIENCE)[0]:
                raise TimeoutError(f"no prompt {self._prompts} after {seen[-200:]!r}")
            seen += os.read(self._master, 65_536)

    def end(self) -> None:
        """End the shell."""
        self._process.kill()
        self._process.wait()
        os.close(self._master)


@contextmanager
def shell_at_prompt(name: str, way: str, folder: Path, *, clock: bool = False) -> Iterator[Shell]:
    """Start a shell with a home of its own, in a repository with one commit."""
    home = folder / f"{name}-{way}-{clock}".replace(" ", "-")
    program = shutil.which(name)
    assert program is not None
    (home / "data/fish/generated_completions").mkdir(parents=True)
    (home / "spool").mkdir(mode=0o700)
    start_up = home / _START_UP[name]
    start_up.parent.mkdir(parents=True, exist_ok=True)
    loaded = {BARE: "", OURS: render(name, home / "spool"), GIT: _GIT[name]}[way]
    text = _COUNTING[name] + loaded + (_CLOCK[name] if clock else "")
    start_up.write_text(text, encoding="utf-8")
    options = {"zsh": ["-o", "no_global_rcs"], "bash": ["--rcfile", str(start_up)], "fish": []}
    shell = Shell([program, *options[name], "-i"], _environ(home), _repository(home))
    try:
        yield shell
    finally:
        shell.end()


def _environ(home: Path) -> dict[str, str]:
    return {
        "HOME": str(home),
        "ZDOTDIR": str(home),
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_DATA_HOME": str(home / "data"),
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "TERM": "dumb",
        "LANG": "C.UTF-8",
        "USER": "bench",
    }


def _repository(home: Path) -> Path:
    folder = home / "repository"
    git = ["git", "-c", "user.name=b", "-c", "user.email=b@example.org", "-C", str(folder)]
    subprocess.run(["git", "init", "-q", str(folder)], check=True, env=_environ(home))
    first = ["commit", "-q", "--allow-empty", "-m", "first"]
    subprocess.run([*git, *first], check=True, env=_environ(home))
    origin = ["remote", "add", "origin", "https://example.org/owner/name.git"]
    subprocess.run([*git, *origin], check=True, env=_environ(home))
    return folder
