"""How the capture of shells, browsers and CI is, in words; a section of `threadkeep status`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from threadkeep.cli.history.words import Json, when
from threadkeep.cli.output import counted

if TYPE_CHECKING:
    from threadkeep.knowledge.health import Health
    from threadkeep.service.health import ObservedStatus, SocketStatus


def observed_json(found: "ObservedStatus") -> Json:
    """Shape the section for `--json`."""
    shown: Json = msgspec.to_builtins(found, enc_hook=str)
    return shown


def observed_words(found: "ObservedStatus") -> dict[str, str]:
    """Write the section as names and values."""
    words = {one.source: "; ".join(_health(one)) for one in found.sources}
    drops = [f"{one.source} {one.reason} {one.count:,}" for one in found.drops]
    return {
        **{f"observed {source}": said or "nothing yet" for source, said in words.items()},
        "observed drops": ", ".join(drops) or "none",
        "spool": found.trouble or f"{found.spool}, {counted(found.waiting, 'file')} waiting",
        "watching": _listening(found.listening),
    }


def _health(one: "Health") -> Iterator[str]:
    if one.last_event_ts is not None:
        yield f"last event {when(one.last_event_ts)}"
        yield f"{one.events_last_24h:,} in 24 h"
    if one.consecutive_failures:
        failed = counted(one.consecutive_failures, "failure")
        yield f"{failed} in a row: {one.last_error_msg or 'no message'}"
    if one.probe_last_run_ts is not None:
        ended = f"arrived after {one.probe_lag_ms} ms" if one.probe_ok else "did not arrive"
        yield f"probe {ended} ({when(one.probe_last_run_ts)})"
    if one.last_heartbeat_ts is not None:
        yield f"heartbeat {when(one.last_heartbeat_ts)}"


def _listening(found: "SocketStatus") -> str:
    status = found.status
    if status is None:
        return f"nobody ({found.trouble})" if found.trouble else "nobody"
    told = [
        f"version {status.version}",
        f"up {status.uptime_secs:,} s",
        f"{counted(status.events_today, 'command')} today (UTC)",
        f"{status.queue_depth:,} in the queue",
        f"socket {found.socket}",
    ]
    return ", ".join(told)
