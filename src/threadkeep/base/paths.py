"""Where threadkeep keeps things: the XDG directories, as a pure function of the environment.

| what    | default                          | below one folder (THREADKEEP_HOME) |
|---------|----------------------------------|------------------------------------|
| data    | $XDG_DATA_HOME/threadkeep        | the folder itself                  |
| config  | $XDG_CONFIG_HOME/threadkeep/…    | config.toml                        |
| state   | $XDG_STATE_HOME/threadkeep       | state                              |
| cache   | $XDG_CACHE_HOME/threadkeep       | cache                              |
| runtime | $XDG_RUNTIME_DIR/threadkeep      | run                                |

The same on every system, macOS included: one rule to remember, one place to look.
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path, PurePath

import msgspec

from threadkeep.base.clock import now_ms
from threadkeep.errors import Conflict, Invalid, NoStore, NotFound, ReadOnly

NAME = "threadkeep"
CONFIG_FILE = "config.toml"


class Paths(msgspec.Struct, frozen=True):
    """The folders of one home; `config` is a file."""

    data: Path
    config: Path
    state: Path
    cache: Path
    runtime: Path


def find_paths(environ: Mapping[str, str], home: Path | None = None) -> Paths:
    """Find the folders of an environment; `home`, or else THREADKEEP_HOME, overrides them all.

    THREADKEEP_CONFIG names another configuration file, unless `home` is given.
    """
    if home is not None:
        return below(home)
    named = environ.get("THREADKEEP_HOME")
    if named and named.startswith(("postgresql:", "postgres:")):
        msg = "THREADKEEP_HOME is the URL of a server, and not a folder"
        raise Invalid(
            msg, hint="give the URL as THREADKEEP_DB_URL; mailboxes and settings stay files"
        )
    paths = below(expand(named, environ)) if named else _xdg_paths(environ)
    config = environ.get("THREADKEEP_CONFIG")
    return msgspec.structs.replace(paths, config=expand(config, environ)) if config else paths


def below(home: Path) -> Paths:
    """Put everything below one folder."""
    return Paths(
        data=home,
        config=home / CONFIG_FILE,
        state=home / "state",
        cache=home / "cache",
        runtime=home / "run",
    )


def expand(text: str, environ: Mapping[str, str]) -> Path:
    """Read a path; a leading `~` stands for the HOME of the environment."""
    if text == "~" or text.startswith("~/"):
        return _user_home(environ) / text[2:]
    return Path(text)


def _xdg_paths(environ: Mapping[str, str]) -> Paths:
    state = _xdg(environ, "XDG_STATE_HOME", ".local/state") / NAME
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    return Paths(
        data=_xdg(environ, "XDG_DATA_HOME", ".local/share") / NAME,
        config=_xdg(environ, "XDG_CONFIG_HOME", ".config") / NAME / CONFIG_FILE,
        state=state,
        cache=_xdg(environ, "XDG_CACHE_HOME", ".cache") / NAME,
        # Without a login session there is no runtime folder; then the state folder lends a place.
        runtime=Path(runtime) / NAME if _is_absolute(runtime) else state / "run",
    )


def _xdg(environ: Mapping[str, str], name: str, default: str) -> Path:
    """Return one XDG folder; the specification says that a relative path counts as not set."""
    value = environ.get(name, "")
    return Path(value) if _is_absolute(value) else _user_home(environ) / default


def _is_absolute(text: str) -> bool:
    return PurePath(text).is_absolute()


def _user_home(environ: Mapping[str, str]) -> Path:
    home = environ.get("HOME")
    if not home:
        raise Invalid(
            "HOME is not set, so the data has no folder",
            hint="set HOME, or name a folder with THREADKEEP_HOME or --home",
        )
    return Path(home)


# ------------------------------------------------------------------------------
# Where things are, and which folders cannot hold a store; nothing is opened here.

_HINTS = {
    "chat": "`threadkeep chat record` creates one, `threadkeep demo` shows it",
    "state": "`threadkeep state import` creates one; --db names another, such as Hermes's state.db",
    "mailbox": "`threadkeep mail new NAME` creates one, `threadkeep mail demo` shows it",
    "knowledge": "`threadkeep capture` creates one from the agents' logs on this machine",
}


def environment() -> Mapping[str, str]:
    """Return the process's environment, with the home of the user where HOME is not set."""
    if os.environ.get("HOME"):
        return os.environ
    try:
        return {**os.environ, "HOME": str(Path.home())}
    except RuntimeError:  # an unknown user: `find_paths` says what to do
        return os.environ


def hermes_file(environ: Mapping[str, str]) -> Path | None:
    """Return the file of Hermes Agent: in HERMES_HOME, else in `.hermes` of the user's home."""
    named, home = environ.get("HERMES_HOME"), environ.get("HOME")
    if named:
        return expand(named, environ) / "state.db"
    return Path(home) / ".hermes" / "state.db" if home else None


def refuse_special(path: Path, kind: str) -> None:
    """Refuse what is no file at all before it is opened: a pipe would wait for its writer."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return  # not there, or not ours to look at: opening it tells
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise Invalid(f"{path} is not a regular file", hint=f"give the path of a {kind} file")


def need_file(path: Path, kind: str) -> None:
    """Raise if a store is not there, or if nobody lets us look."""
    try:
        there = path.exists()
    except OSError as error:
        raise ReadOnly(f"cannot read {path}: {error.strerror}") from None
    if not there:
        demo = path.with_name(f"demo-{path.name}")
        shown = f"; the demo is read with --db {demo}" if demo.exists() else ""
        raise NoStore(f"there is no {kind} store at {path} yet", hint=_HINTS[kind] + shown)


def same_file(one: Path, other: Path) -> bool:
    """Tell whether two paths lead to one file."""
    return one.exists() and other.exists() and one.samefile(other)


def free_name(target: Path, source: Path) -> Path:
    """Return the name for a copy: the target itself, or a new name in it if it is a folder."""
    name = target / f"{source.stem}-{now_ms()}.db" if target.is_dir() else target
    if not name.parent.is_dir():
        msg = f"there is no folder {name.parent}"
        raise NotFound(msg, hint="create the folder first, or choose another place for the backup")
    if name.exists():
        msg = f"{name} already exists and was left unchanged"
        raise Conflict(msg, hint="choose another name for the backup")
    return name


# ------------------------------------------------------------------------------
# Copies of a repository that agents work in.


def repository_folder(folder: str) -> str:
    """Return the folder of the repository that an agent's working copy was made of, or the folder.

    Cursor's copies lie below its own folder: there the last name is that of the repository.
    """
    path = folder.replace("\\", "/").rstrip("/")
    for mark in ("/.claude/worktrees/", "/.worktrees/", ".worktrees/"):
        before, found, copy = path.partition(mark)
        if found and before and copy:
            return repository_folder(before)
    before, found, copy = path.partition("/.cursor/worktrees/")
    repository, inside, _ = copy.partition("/")
    return f"{before}{found}{repository}" if inside else before


def project_name(folder: str) -> str:
    """Return the name of the project that a folder is of: the last one of its repository's."""
    return repository_folder(folder).rpartition("/")[2]
