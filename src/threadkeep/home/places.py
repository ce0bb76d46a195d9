"""Where things are, and what is no place for a store; nothing is opened here."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from threadkeep.base.clock import now_ms
from threadkeep.base.paths import expand
from threadkeep.errors import Conflict, Invalid, NotFound, UnsupportedEngine

_HINTS = {
    "chat": "`threadkeep chat record` begins one, `threadkeep demo` shows it",
    "state": "`threadkeep state import` begins one; --db names another, such as Hermes's state.db",
    "mailbox": "`threadkeep mail new NAME` begins one, `threadkeep mail demo` shows it",
    "knowledge": "`threadkeep capture` begins one with what agents did on this machine",
}


def environment() -> Mapping[str, str]:
    """Give the process's environment, with the home of the user where HOME is not set."""
    if os.environ.get("HOME"):
        return os.environ
    try:
        return {**os.environ, "HOME": str(Path.home())}
    except RuntimeError:  # an unknown user: `find_paths` says what to do
        return os.environ


def hermes_file(environ: Mapping[str, str]) -> Path | None:
    """Give the file of Hermes Agent: in HERMES_HOME, else in `.hermes` of the user's home."""
    named, home = environ.get("HERMES_HOME"), environ.get("HOME")
    if named:
        return expand(named, environ) / "state.db"
    return Path(home) / ".hermes" / "state.db" if home else None


def refuse_url(path: str | Path) -> None:
    """Refuse a location that is no path of a file."""
    text = str(path)
    if text.startswith(("postgres:", "postgresql:")):
        raise UnsupportedEngine(
            "PostgreSQL is not available in this version",
            hint="give the path of a folder or a file: stores are SQLite files",
        )


def refuse_special(path: Path, kind: str) -> None:
    """Refuse what is no file at all before it is opened: a pipe would wait for its writer."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return  # not there, or not ours to look at: opening it tells
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise Invalid(f"{path} is no regular file", hint=f"give the path of a {kind} file")


def need_file(path: Path, kind: str) -> None:
    """Raise if a store is not there."""
    if not path.exists():
        demo = path.with_name(f"demo-{path.name}")
        shown = f"; the demo is read with --db {demo}" if demo.exists() else ""
        raise NotFound(f"there is no {kind} store at {path} yet", hint=_HINTS[kind] + shown)


def same_file(one: Path, other: Path) -> bool:
    """Tell whether two paths lead to one file."""
    return one.exists() and other.exists() and one.samefile(other)


def free_name(target: Path, source: Path) -> Path:
    """Give the name for a copy: the target itself, or a new name in it if it is a folder."""
    name = target / f"{source.stem}-{now_ms()}.db" if target.is_dir() else target
    if not name.parent.is_dir():
        msg = f"there is no folder {name.parent}"
        raise NotFound(msg, hint="make the folder first, or choose another place for the backup")
    if name.exists():
        msg = f"{name} exists already and was left as it is"
        raise Conflict(msg, hint="choose another name for the backup")
    return name
