"""What the watchdog remembers from one look to the next, and what it concludes from it."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from threadkeep.knowledge.health import Drop
from threadkeep.service.doctor.invariants import LostReports, RefusedReports

# How much longer than the machine's own counter the clock may have gone: more is a sleep, or
# somebody set the clock. Either way nobody could have captured anything in between.
_JUMP_MS: Final = 30_000
# A process that looks twice a minute and did not look for so long was stopped itself, and capture
# with it: what changed meanwhile has to get its time first.
_STOPPED_MS: Final = 45_000
_LOST_WINDOW_MS: Final = 300_000
_RATE_WINDOW_MS: Final = 3_600_000
_SAMPLE_MS: Final = 60_000
_WISHED: Final = frozenset({"excluded"})  # the user keeps these out
# What came and was no report: it is set aside, and only many of them are a sign.
_UNCLEAR: Final = frozenset(
    {"not understood", "unknown payload", "too long", "damaged", "invalid", "unsupported"}
)


class SeenLog(msgspec.Struct, frozen=True, array_like=True):
    """A log that was behind: how it stood in the store, and when that was first seen."""

    mark: str
    first_seen: int


class SeenHistory(msgspec.Struct, frozen=True, array_like=True):
    """A shell's history as it was read: how it looked, from when on, and what was missing."""

    looks: tuple[int, int]  # mtime in ns, size
    after: int
    since: int
    commands: int


class DropSample(msgspec.Struct, frozen=True, array_like=True):
    """The counters of drops at one moment, by source and reason."""

    at: int
    counts: dict[str, int]


class DoctorState(msgspec.Struct, frozen=True):
    """What was seen at the last look; the zero of `at` is none."""

    at: int = 0
    monotonic_ms: int = 0
    awake_since: int = 0
    logs: dict[str, SeenLog] = {}
    histories: dict[str, SeenHistory] = {}
    drops: tuple[DropSample, ...] = ()
    browser_since: int | None = None
    nodes: tuple[int, int, int] = (0, 0, 0)  # how many, the highest number, how many twice
    vectors: tuple[int, int] = (0, 0)  # when they were counted, how many are missing


def read_memory(text: str | None, now: int) -> DoctorState:
    """Read what was remembered; what cannot be read is forgotten.

    So is what was seen later than now: the clock was ahead, and no time in it can be counted from.
    """
    try:
        found = DoctorState() if text is None else msgspec.json.decode(text, type=DoctorState)
    except (msgspec.MsgspecError, ValueError):
        return DoctorState()
    return DoctorState() if found.at > now + _JUMP_MS else found


def write_memory(memory: DoctorState) -> str:
    """Write what is to be remembered."""
    return msgspec.json.encode(memory).decode()


def awake_since(
    memory: DoctorState,
    now: int,
    monotonic_ms: int,
    up_since: int | None,
    *,
    resident: bool = False,
) -> int:
    """Tell from when on the machine was awake, and whoever captures was at work.

    `resident` is who looks all the time: if it did not for long, it was stopped, capture with it.
    """
    begun = up_since or 0
    begun = begun if begun <= now else 0  # by a clock that was ahead; since when is not known
    if not memory.at:
        return min(begun, now)
    passed = now - memory.at
    slept = monotonic_ms < memory.monotonic_ms  # it was started again
    slept = slept or passed - (monotonic_ms - memory.monotonic_ms) > _JUMP_MS
    stopped = resident and passed > _STOPPED_MS
    return now if slept or stopped else min(max(memory.awake_since, begun), now)


# ---------------------------------------------------------------------- drops


def sample_drops(memory: DoctorState, drops: Iterable[Drop], now: int) -> tuple[DropSample, ...]:
    """Remember the counters once a minute, for a little more than an hour."""
    kept = tuple(one for one in memory.drops if 0 <= now - one.at <= _RATE_WINDOW_MS + _SAMPLE_MS)
    if kept and now - kept[-1].at < _SAMPLE_MS:
        return kept
    return (*kept, DropSample(now, {_name(one): one.count for one in drops}))


def lost_lately(memory: DoctorState, drops: Iterable[Drop], now: int) -> tuple[LostReports, ...]:
    """Return what was lost in the last minutes; what the user keeps out is not lost."""
    before = _counts_at(memory, now - _LOST_WINDOW_MS)
    found: dict[str, LostReports] = {}
    for one in drops:
        new = one.count - before.get(_name(one), 0)
        if before is not _NOTHING and new > 0 and one.reason not in _WISHED | _UNCLEAR:
            found.setdefault(one.source, LostReports(one.source, one.reason, new, one.last_at))
    return tuple(found.values())


def unclear_lately(
    memory: DoctorState, drops: Iterable[Drop], stored: int, now: int
) -> RefusedReports | None:
    """Return how much of the last hour was not understood; None if nothing."""
    before = _counts_at(memory, now - _RATE_WINDOW_MS)
    of_kind = [one for one in drops if one.reason in _UNCLEAR]
    if before is _NOTHING or not of_kind:
        return None
    refused = sum(max(0, one.count - before.get(_name(one), 0)) for one in of_kind)
    return RefusedReports(refused, stored, max(one.last_at for one in of_kind)) if refused else None


_NOTHING: Final[Mapping[str, int]] = {}


def _counts_at(memory: DoctorState, moment: int) -> Mapping[str, int]:
    """Return the counters as they were at a moment, or as far back as is remembered."""
    if not memory.drops:
        return _NOTHING
    older = [one for one in memory.drops if one.at <= moment]
    return dict((older[-1] if older else memory.drops[0]).counts)


def _name(drop: Drop) -> str:
    return f"{drop.source}/{drop.reason}"
