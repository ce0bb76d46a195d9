"""The ledger of models: what was asked and used on each day, and which server is in trouble."""

from datetime import UTC, datetime
from typing import Final

import msgspec

from threadkeep.base.tx import Tx

_DAYS: Final = "tk_model_days"
_TROUBLES: Final = "tk_model_troubles"
_LONGEST_MESSAGE: Final = 500
_REFUSED_FOR_MS: Final = 90 * 86_400_000
_PREFLIGHT: Final = "brain-preflight"


class ModelUsage(msgspec.Struct, frozen=True):
    """What one model used for one purpose on one day."""

    day: str
    model: str
    purpose: str
    calls: int
    failures: int
    input_tokens: int
    output_tokens: int

    @property
    def tokens(self) -> int:
        """What counts against the budget."""
        return self.input_tokens + self.output_tokens


class FailureStreak(msgspec.Struct, frozen=True):
    """How often something failed in a row, and when it did last."""

    failures: int
    last_at: int
    message: str


class LedgerEntry(msgspec.Struct, frozen=True):
    """What is added to a day; numbers below zero take back what was set aside."""

    calls: int = 0
    failures: int = 0
    input: int = 0
    output: int = 0


def day_of(now: int) -> str:
    """Name the day in UTC that a time in epoch milliseconds is in."""
    return datetime.fromtimestamp(now / 1000, UTC).date().isoformat()


def spent(tx: Tx, day: str, until: str | None = None) -> list[ModelUsage]:
    """Return what was used on a day, or from it to another; nothing in a file without a ledger."""
    if _DAYS not in tx.tables():
        return []
    rows = tx.all("model_days", {"since": day, "until": until or day})
    return [ModelUsage(*row) for row in rows]


def total(tx: Tx, day: str) -> int:
    """Return all tokens of a day, whatever they were for."""
    return int(tx.value("model_day_total", {"day": day}))


def add(tx: Tx, day: str, model: str, purpose: str, change: LedgerEntry, now: int) -> None:
    """Count something on a day."""
    key = {"day": day, "model": model, "purpose": purpose, "now": now}
    tx.run("model_day_add", key | msgspec.structs.asdict(change))


def note_call(tx: Tx, endpoint: str, trouble: str | None, now: int) -> None:
    """Write down that a server answered, or why it did not."""
    if trouble is None:
        tx.run("model_answered", {"endpoint": endpoint})
    else:
        message = trouble[:_LONGEST_MESSAGE]
        tx.run("model_failed", {"endpoint": endpoint, "message": message, "now": now})


def troubles(tx: Tx, endpoint: str) -> list[FailureStreak]:
    """Return what is wrong with a server now: its calls, and the look before them."""
    found = []
    if _TROUBLES in tx.tables():
        found += [FailureStreak(*row) for row in tx.all("model_trouble", {"endpoint": endpoint})]
    # A look at another address, before the settings were changed, says nothing about this one.
    looked = tx.all("failed_look", {"source": _PREFLIGHT, "endpoint": f": {endpoint}: "})
    return found + [FailureStreak(*row) for row in looked]


def is_refused(tx: Tx, digest: str, model: str, now: int) -> bool:
    """Tell whether a model was asked about some evidence before, and could make nothing of it."""
    key = {"digest": digest, "model": model, "oldest": now - _REFUSED_FOR_MS}
    return tx.one("model_refused", key) is not None


def refuse(tx: Tx, digest: str, model: str, reason: str, now: int) -> None:
    """Write down that a model could make nothing of some evidence."""
    tx.run("drop_old_refusals", {"oldest": now - _REFUSED_FOR_MS})
    said = {"reason": reason[:_LONGEST_MESSAGE], "now": now}
    tx.run("refuse_model", {"digest": digest, "model": model} | said)
