"""How the capture of shells, browsers and CI is, found out without a change."""

from contextlib import suppress
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Final

import msgspec

from threadkeep.collect.client import CollectorClient
from threadkeep.collect.protocol import CollectorStatus, GetStatus
from threadkeep.errors import NotFound, ThreadkeepError
from threadkeep.home.waiting import reports_waiting, socket_path, spool_folder
from threadkeep.knowledge.health import Drop, Health
from threadkeep.knowledge.layout import names

if TYPE_CHECKING:
    from threadkeep.home.facade import Home


SOURCES: Final = ("shell", "claude-tool", "browser", "github-actions")
_ANSWER_SECONDS: Final = 0.1
_LONGEST_SECONDS: Final = 0.5  # for an answer that comes in drops


class SocketStatus(msgspec.Struct, frozen=True):
    """Whether somebody listens on the socket of a home; `trouble` says why one does not answer."""

    socket: Path
    answers: bool = False
    status: CollectorStatus | None = None
    trouble: str = ""


class ObservedStatus(msgspec.Struct, frozen=True):
    """How the capture of shells, browsers and CI is."""

    sources: tuple[Health, ...]  # of those that were ever heard of
    drops: tuple[Drop, ...]
    spool: Path
    waiting: int  # files that nobody has collected yet
    listening: SocketStatus
    trouble: str = ""  # why the spool cannot be looked into


def observed_status(home: "Home", path: str | Path | None = None) -> ObservedStatus:
    """Look at the health of these sources, at the spool and at the socket of a home.

    A store that cannot be read says nothing here: its own status tells why.
    """
    sources, drops = _of_store(home, path)
    waiting, trouble = 0, ""
    try:
        waiting = reports_waiting(home, path)
    except ThreadkeepError as error:
        trouble = error.message
    listening = ask_listener(socket_path(home))
    return ObservedStatus(sources, drops, spool_folder(home), waiting, listening, trouble)


def _of_store(home: "Home", path: str | Path | None) -> tuple[tuple[Health, ...], tuple[Drop, ...]]:
    with suppress(ThreadkeepError), home.knowledge(path, read_only=True) as store:
        with store.context.db.read() as tx:
            tables = names(tx, "table")
        # A file that only Hippo wrote, or an old one, does not have them all.
        health = store.health() if "source_health" in tables else []
        drops = store.drops() if "tk_drops" in tables else []
        return tuple(one for one in health if one.source in SOURCES), tuple(drops)
    return (), ()


def ask_listener(path: Path) -> SocketStatus:
    """Ask whoever listens at a path how it is going; half a second is all it gets."""
    try:
        with CollectorClient(path, _ANSWER_SECONDS) as client:
            ends = Timer(_LONGEST_SECONDS, client.close)
            ends.daemon = True
            ends.start()
            try:
                answer = client.ask(GetStatus())
            finally:
                ends.cancel()
    except NotFound:
        return SocketStatus(path)
    except ThreadkeepError as error:
        return SocketStatus(path, trouble=error.message)
    status = answer if isinstance(answer, CollectorStatus) else None
    return SocketStatus(path, answers=status is not None, status=status)
