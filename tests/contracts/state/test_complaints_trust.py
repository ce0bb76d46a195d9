"""What users of Hermes complain about: migrations, accounting, backups, secrets.

Issue numbers are those of NousResearch/hermes-agent unless a test says otherwise.
"""

import stat
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.support.states import Clock, Factory
from threadkeep.errors import ThreadkeepError
from threadkeep.state.hermes_state import SessionDB

Make = Callable[..., list[int]]


# ---------------------------------------------------------------------- accounting


def tokens(db: SessionDB) -> tuple[int, int]:
    session = db.get_session("s")
    assert session is not None
    return session["input_tokens"], session["output_tokens"]


def total(db: SessionDB, by: Any = "session", **options: Any) -> dict[Any, int]:
    return {
        row.get(by, row.get("session_id")): row["input_tokens"] for row in db.usage(by, **options)
    }


@pytest.fixture
def s(db: SessionDB) -> SessionDB:
    db.create_session("s", "cli")
    return db


def test_accounting_retry_with_its_key_counts_once(s: SessionDB) -> None:
    """#3222, #3317: double counting."""
    for _ in range(3):
        s.update_token_counts("s", 10, 5, "m", idempotency_key="call-1")
    s.update_token_counts("s", 1, 1, "m", idempotency_key="call-2")
    assert tokens(s) == (11, 6)
    assert total(s) == {"s": 11}


def test_accounting_absolute_updates_count_the_difference(s: SessionDB) -> None:
    """#3317, #71578: a running total reported again and again."""
    for so_far in (10, 10, 25):
        s.update_token_counts("s", so_far, so_far, "m", absolute=True)
    assert tokens(s) == (25, 25)
    assert total(s) == {"s": 25}
    assert sum(total(s, "model").values()) == 25


def test_accounting_by_model_source_and_day(s: SessionDB, clock: Clock) -> None:
    """#71578, #73823: a model switched in the middle, and totals of zero."""
    s.create_session("t", "telegram")
    first_day = datetime.fromtimestamp(clock.now, tz=UTC).date()
    s.update_token_counts("s", 10, 1, "small", estimated_cost_usd=0.5)
    clock.pass_days(3)
    s.update_token_counts("s", 20, 2, "large", estimated_cost_usd=1.0)
    s.update_token_counts("t", 5, 5, "small")
    assert total(s, "model") == {"small": 15, "large": 20}
    assert total(s, "source") == {"cli": 30, "telegram": 5}
    assert total(s, "session") == {"s": 30, "t": 5}
    days = total(s, "day")
    assert sorted(days.values()) == [10, 25]
    assert all(abs((datetime.fromisoformat(day).date() - first_day).days) <= 4 for day in days)
    assert sum(row["estimated_cost_usd"] for row in s.usage("model")) == 1.5
    assert total(s, "source", since=clock.now - 86_400) == {"cli": 20, "telegram": 5}
    assert total(s, "model", source="cli") == {"small": 10, "large": 20}


def test_accounting_of_other_programs_is_not_zero(s: SessionDB, factory: Factory) -> None:
    """#73823: sessions that Hermes counted are part of the sums."""
    with factory.raw(s) as other:
        other.execute("UPDATE sessions SET input_tokens = 7, output_tokens = 3, model = 'theirs'")
    assert total(s, "model") == {"theirs": 7}
    assert total(s, "source") == {"cli": 7}
    s.update_token_counts("s", 1, 0, "ours")
    assert total(s, "session") == {"s": 8}


def test_accounting_refuses_an_unknown_kind(s: SessionDB) -> None:
    """#71578."""
    with pytest.raises(ThreadkeepError, match="moon"):
        s.usage("moon")


def test_backup_has_a_place_of_its_own_by_default(db: SessionDB, make: Make) -> None:
    """#95531."""
    make("s", "one")
    first, second = db.backup(), db.backup()
    assert first != second
    assert first.is_file()
    assert stat.S_IMODE(second.stat().st_mode) == 0o600
