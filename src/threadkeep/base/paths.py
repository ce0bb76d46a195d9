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

from collections.abc import Mapping
from pathlib import Path, PurePath

import msgspec

from threadkeep.errors import Invalid

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
    """Give one XDG folder; the specification says that a relative path counts as not set."""
    value = environ.get(name, "")
    return Path(value) if _is_absolute(value) else _user_home(environ) / default


def _is_absolute(text: str) -> bool:
    return PurePath(text).is_absolute()


def _user_home(environ: Mapping[str, str]) -> Path:
    home = environ.get("HOME")
    if not home:
        raise Invalid(
            "there is no HOME in the environment, so there is no place for data",
            hint="set HOME, or name a folder with THREADKEEP_HOME or --home",
        )
    return Path(home)
