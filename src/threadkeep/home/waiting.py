"""Where reports lie until they are collected, and how many do; loads nothing of what collects."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from threadkeep.base.config import store_path
from threadkeep.base.spool import Spool

if TYPE_CHECKING:
    from threadkeep.home.facade import Home

FALLBACK: Final = "fallback"  # where Hippo's programs leave what they cannot deliver
_SPOOL: Final = "spool"
_SOCKET: Final = "daemon.sock"


def spool_folder(home: "Home") -> Path:
    """Give the folder of a home in which reports lie until they are collected."""
    return home.paths().data / _SPOOL


def socket_path(home: "Home") -> Path:
    """Give the place where a home listens for reports."""
    named = home.config.socket.path
    if named is None:
        return home.paths().data / _SOCKET
    return store_path(named, home.paths().config, home.environ)


def fallback_folders(home: "Home", store: Path) -> tuple[Path, ...]:
    """Give where Hippo's programs leave what they cannot deliver: by the store, by the socket."""
    return tuple(dict.fromkeys(near.parent / FALLBACK for near in (store, socket_path(home))))


def reports_waiting(home: "Home", path: str | Path | None = None) -> int:
    """Count the files that wait to be collected: in the spool, and where Hippo leaves them."""
    folders = (spool_folder(home), *fallback_folders(home, home.knowledge_path(path)))
    return sum(len(Spool(folder).waiting()) for folder in folders)
