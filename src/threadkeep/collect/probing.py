"""Probes: synthetic events that go the whole way, so that a broken part of it shows.

A probe carries a tag. Nothing that a user looks at shows it, and it gets no ticket.
"""

from collections.abc import Callable
from io import BytesIO
from typing import Final
from uuid import uuid4

import msgspec

from threadkeep.base.frames import encode_frame
from threadkeep.base.json import encode
from threadkeep.base.spool import Spool
from threadkeep.collect.collector import collect
from threadkeep.collect.native_host import serve
from threadkeep.collect.reporting import report
from threadkeep.collect.storing import Store
from threadkeep.collect.visits import PROBE_DOMAIN, VisitRules
from threadkeep.errors import NotFound
from threadkeep.knowledge.health import note_probe
from threadkeep.knowledge.observed import Command

# The names that the contract's own probes have.
_COMMANDS: Final = {"shell": "__hippo_probe__", "claude-tool": "__hippo_probe_claude_tool__"}
_SESSION: Final = "7a1f3c52-5d0e-5b7e-9a53-0c7d5a0f3f6e"  # all probes are of one session
_KEPT_MS: Final = 86_400_000


class ProbeResult(msgspec.Struct, frozen=True):
    """What became of a probe; `lag_ms` is None if it did not arrive."""

    source: str
    lag_ms: int | None


def probe(store: Store, spool: Spool, source: str, rules: VisitRules) -> ProbeResult:
    """Send a synthetic event of a source the whole way into the store, and note how it went."""
    senders: dict[str, Callable[[str, int], None]] = {
        "shell": lambda tag, at: _send_command(store, spool, "shell", tag, at),
        "claude-tool": lambda tag, at: _send_command(store, spool, "claude-tool", tag, at),
        "browser": lambda tag, at: _send_visit(store, spool, rules, tag, at),
    }
    if source not in senders:
        raise NotFound(f"there is no probe of {source!r}", hint=f"known: {', '.join(senders)}")
    tag, began = str(uuid4()), store.clock()
    senders[source](tag, began)
    collect(store, spool)
    with store.db.write() as tx:
        arrived = tx.value("probe_arrived", {"tag": tag})
        lag = None if arrived is None else max(0, int(arrived) - began)
        note_probe(tx, source, lag_ms=lag, now=store.clock())
        for old in ("old_probes", "old_visit_probes"):
            tx.run(old, {"before": began - _KEPT_MS})
    return ProbeResult(source, lag)


def _send_command(store: Store, spool: Spool, source: str, tag: str, at: int) -> None:
    command = Command(  # noqa: S604  (the name of a shell, not a way to start one)
        envelope_id=str(uuid4()),
        session=_SESSION,
        at=at,
        command=_COMMANDS[source],
        cwd="/",
        exit_code=0,
        shell="probe",
        tool_name="Bash" if source == "claude-tool" else None,
        probe_tag=tag,
    )
    report(spool, store.rules, command)


def _send_visit(store: Store, spool: Spool, rules: VisitRules, tag: str, at: int) -> None:
    """Say it to the native-messaging host as a browser would."""
    message = {
        "url": f"https://{PROBE_DOMAIN}/synthetic",
        "title": "probe",
        "domain": PROBE_DOMAIN,
        "dwell_ms": 60_000,
        "scroll_depth": 1.0,
        "timestamp": at,
        "probe_tag": tag,
    }
    stdin = BytesIO(encode_frame(encode(message).encode(), order="native"))
    serve(stdin, BytesIO(), rules, lambda thing: report(spool, store.rules, thing), store.clock)
