"""Who keeps a file current, in which version, and how its parts fare; told by the file itself.

So that a second process can say who runs already, and a check can compare a running program with
the file that it works on.
"""

from typing import Final, Literal

import msgspec

from threadkeep.base.processes import is_alive, is_stopped
from threadkeep.base.tx import Tx
from threadkeep.knowledge.layout import names

ERROR_LENGTH: Final = 500
# It gives a sign of life every minute, but not while it has a hundred thousand logs to read.
SILENT_MS: Final = 600_000

Hindrance = Literal["", "stopped", "silent"]


class Service(msgspec.Struct, frozen=True):
    """The process that serves a file, or the last one that did."""

    pid: int
    mark: str
    version: str
    schema: int
    started_at: int
    heartbeat: int
    stopped_at: int | None = None

    @property
    def is_running(self) -> bool:
        """Tell whether that very process still runs and has not said that it ended."""
        return self.stopped_at is None and is_alive(self.mark)

    def hindrance(self, now: int) -> Hindrance:
        """Tell what keeps a process that runs from working: it was stopped, or it hangs."""
        if not self.is_running:
            return ""
        if is_stopped(self.pid):
            return "stopped"
        return "silent" if now - self.heartbeat >= SILENT_MS else ""


class ServicePartState(msgspec.Struct, frozen=True):
    """How one part of it fares; `waits_for` says what keeps it from working now."""

    part: str
    started_at: int
    restarts: int = 0
    crashes: int = 0
    last_error: str | None = None
    last_crash_at: int | None = None
    waits_for: str | None = None


def note_start(tx: Tx, service: Service) -> None:
    """Write down who serves the file from now on."""
    tx.run("put_service", msgspec.structs.asdict(service))


def note_beat(tx: Tx, mark: str, now: int) -> None:
    """Give a sign of life."""
    tx.run("beat_service", {"mark": mark, "now": now})


def note_end(tx: Tx, mark: str, now: int) -> None:
    """Write down that it ended in good order."""
    tx.run("end_service", {"mark": mark, "now": now})


def note_part(tx: Tx, state: ServicePartState) -> None:
    """Write down how a part fares."""
    tx.run("put_service_part", msgspec.structs.asdict(state))


def the_service(tx: Tx) -> Service | None:
    """Give who serves the file, or did last; None if nobody ever has."""
    if "tk_service" not in names(tx, "table"):
        return None
    row = tx.one("the_service")
    return None if row is None else Service(*row)


def part_states(tx: Tx) -> list[ServicePartState]:
    """Give how each part fares, or fared last."""
    if "tk_service_parts" not in names(tx, "table"):
        return []
    return [ServicePartState(*row) for row in tx.all("all_service_parts")]
