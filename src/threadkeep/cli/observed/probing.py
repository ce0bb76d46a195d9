"""`threadkeep probe`: synthetic events that go the whole way, so that a broken part shows."""

from typing import TYPE_CHECKING

import click

from threadkeep.cli.command import PROBLEMS, Call, store_command
from threadkeep.cli.output import table

if TYPE_CHECKING:
    from threadkeep.capture.observed.observed import ProbeResult

_SOURCES = ("shell", "claude-tool", "browser")


@store_command("probe", "threadkeep probe", "threadkeep probe --source browser --json", lists=True)
@click.option("--source", type=click.Choice(_SOURCES), help="Only this one.")
def probe(call: Call, *, source: str | None) -> int:
    """Send a synthetic event of each source the whole way into the store; nobody gets to see it.

    Exit code 1 if one did not arrive. `threadkeep status` shows the last ones.
    """
    with call.home.observations(call.db) as observations:
        done = [observations.probe(name) for name in ([source] if source else _SOURCES)]
    if call.as_json:
        call.answer("probes", probes=[_as_json(one) for one in done])
    else:
        table(("source", "arrived", "after"), [_row(one) for one in done])
    return PROBLEMS if any(one.lag_ms is None for one in done) else 0


def _as_json(one: "ProbeResult") -> dict[str, object]:
    return {"source": one.source, "ok": one.lag_ms is not None, "lag_ms": one.lag_ms}


def _row(one: "ProbeResult") -> tuple[str, ...]:
    if one.lag_ms is None:
        return (one.source, "no", "")
    return (one.source, "yes", f"{one.lag_ms} ms")
