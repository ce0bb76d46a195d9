"""How a home's shell hooks are set up, and which histories of shells its user has."""

from pathlib import Path
from typing import TYPE_CHECKING

from threadkeep.collect.shell_init import (
    ShellInstallPlan,
    install,
    render,
    uninstall,
)
from threadkeep.errors import Invalid, NotFound
from threadkeep.home.waiting import spool_folder
from threadkeep.sources.shell_history import HistoryFile, Kind, find_histories

if TYPE_CHECKING:
    from threadkeep.home.facade import Home


def hook_text(home: "Home", shell: str) -> str:
    """Give the hook of a shell, which reports to the spool of this home."""
    return render(shell, spool_folder(home))


def install_hook(home: "Home", shell: str, *, dry_run: bool = False) -> ShellInstallPlan:
    """Write the hook of a shell and load it in the user's start-up files."""
    return install(shell, home.environ, home.paths().data, dry_run=dry_run)


def uninstall_hook(home: "Home", shell: str, *, dry_run: bool = False) -> ShellInstallPlan:
    """Take the hook of a shell out of the user's start-up files."""
    return uninstall(shell, home.environ, home.paths().data, dry_run=dry_run)


def user_histories(home: "Home", kind: Kind | None = None) -> list[HistoryFile]:
    """List the histories of this home's user, of all shells or of one."""
    below = Path(home.environ.get("HOME") or Path.home())
    found = find_histories(below, home.environ)
    return [file for file in found if kind in (None, file.kind)]


def named_histories(paths: tuple[str, ...], kind: Kind | None = None) -> list[HistoryFile]:
    """Give the histories at these paths; their names tell the kind where it is not given."""
    return [_named(Path(path), kind) for path in paths]


def _named(path: Path, kind: Kind | None) -> HistoryFile:
    if not path.is_file():
        raise NotFound(f"there is no file {path}", hint="give the path of a shell's history")
    found = kind or kind_of(path)
    if found is None:
        msg = f"the name of {path} does not tell which shell wrote it"
        raise Invalid(msg, hint="say it: --shell zsh, bash, fish or atuin")
    return HistoryFile(found, path)


def kind_of(path: Path) -> Kind | None:
    """Tell from a file's name which program keeps its history there."""
    name = path.name.lower()
    if path.suffix == ".db":
        return "atuin"
    if "zsh" in name or name in {".zhistory", ".histfile"}:
        return "zsh"
    if "bash" in name:
        return "bash"
    return "fish" if "fish" in name else None
