"""What runs in a fresh process of our own.

python -m benchmarks.capture_worker ORDER …

nothing                   only starts, with everything imported that capture needs
capture STORE USERHOME    captures the logs below USERHOME into the home STORE
unmasked STORE USERHOME   the same without looking for secrets
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from threadkeep.base.clock import now_ms
from threadkeep.capture.engine import capture
from threadkeep.capture.intake import CaptureContext, this_machine
from threadkeep.capture.records import CaptureReport, Exclusion
from threadkeep.capture.redact.engine import MaskedBlock
from threadkeep.home.home import Home
from threadkeep.sources.records import UserHome
from threadkeep.sources.registry import foreign_sources


def nothing() -> None:
    """Do nothing: what this costs is the start."""


def captured(store: str, user_home: str) -> dict[str, Any]:
    """Capture as `threadkeep capture` does."""
    with Home(store, environ={}).history(user_home=user_home) as history:
        return summary(history.capture())


def unmasked(store: str, user_home: str) -> dict[str, Any]:
    """Capture with every line left as it is; users have no such switch."""
    with Home(store, environ={}).knowledge() as knowledge:
        around = CaptureContext(
            store=knowledge,
            user=UserHome(Path(user_home)),
            mask=lambda lines, _before, _after: MaskedBlock(lines),
            clock=now_ms,
            who=this_machine(),
            exclusion=Exclusion(),
        )
        return summary(capture(around, foreign_sources()))


def summary(report: CaptureReport) -> dict[str, Any]:
    """Sum up what a run did."""
    parts = report.agents.values()
    return {
        "logs": sum(part.found for part in parts),
        "changed": sum(part.changed for part in parts),
        "bytes": sum(part.source_bytes for part in parts),
        "entries": sum(part.entries for part in parts),
        "masked": sum(part.masked_lines for part in parts),
        "bad": sum(part.bad_lines for part in parts),
        "unknown": sum(sum(part.unknown.values()) for part in parts),
        "errors": report.errors,
    }


ORDERS: Final[dict[str, Callable[..., Any]]] = {
    "nothing": nothing,
    "capture": captured,
    "unmasked": unmasked,
}


if __name__ == "__main__":
    print(json.dumps(ORDERS[sys.argv[1]](*sys.argv[2:])))
