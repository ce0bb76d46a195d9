"""Usage by model and task, in files of ours and of newer programs; and usage that is queued."""

import os
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.support.states import Factory
from threadkeep.errors import ThreadkeepError
from threadkeep.state.session_db import SessionDB
from threadkeep.state.usage import spent


def by_model(factory: Factory, db: SessionDB) -> list[tuple[Any, ...]]:
    sql = (
        "SELECT model, billing_provider, task, input_tokens, api_call_count"
        " FROM session_model_usage ORDER BY 1, 2, 3"
    )
    return [tuple(row.values()) for row in factory.rows(db, sql)]


def models(db: SessionDB) -> dict[str, int]:
    return {row["model"]: row["input_tokens"] for row in db.usage()}


def test_a_file_that_is_widened_keeps_what_each_model_had(db: SessionDB, factory: Factory) -> None:
    db.create_session("s", "cli", model="own")
    db.update_token_counts("s", 10, model="own")
    db.update_token_counts("s", 5, model="other")
    db.update_token_counts("s", 3)
    before = models(db)
    db.update_token_counts("s", 1, model="other", api_call_count=1)
    assert by_model(factory, db) == [("other", "", "", 6, 1), ("own", "", "", 13, 0)]
    assert models(db) == before | {"other": 6}


# ---------------------------------------------------------------------- queued


def test_what_is_queued_is_counted_before_it_is_shown(db: SessionDB) -> None:
    db.create_session("s", "cli")
    for _ in range(20):
        db.queue_token_counts("s", input_tokens=1)
    session = db.get_session("s")
    assert session is not None
    assert session["input_tokens"] == 20
    assert db.flush_token_counts()


def test_closing_waits_for_what_is_queued_and_refuses_more(db: SessionDB, factory: Factory) -> None:
    db.create_session("s", "cli")
    for _ in range(20):
        db.queue_token_counts("s", input_tokens=1)
    db.close()
    with pytest.raises(ThreadkeepError):
        db.queue_token_counts("s", input_tokens=1)
    assert (factory.reopen(db).get_session("s") or {})["input_tokens"] == 20


def test_a_usage_that_cannot_be_written_is_told_and_stops_nothing(
    db: SessionDB, caplog: pytest.LogCaptureFixture
) -> None:
    db.create_session("s", "cli")
    db.queue_token_counts("s", no_such_number=1)
    db.queue_token_counts("s", input_tokens=2)
    assert (db.get_session("s") or {})["input_tokens"] == 2
    assert "was not counted" in caplog.text


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_a_forked_process_counts_its_own_usage_once(db: SessionDB) -> None:
    db.create_session("s", "cli")
    db.queue_token_counts("s", input_tokens=1)
    db.flush_token_counts()
    child = os.fork()
    if child == 0:
        db.queue_token_counts("s", input_tokens=10)
        os._exit(0 if db.flush_token_counts(30.0) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (db.get_session("s") or {})["input_tokens"] == 11


# ---------------------------------------------------------------------- the sums

amounts = st.lists(st.integers(0, 50), min_size=7, max_size=7)


@given(
    noted=st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("mn"), amounts), max_size=5),
    more=st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("mn"), amounts), max_size=5),
    tasks=st.lists(st.tuples(st.sampled_from("ab"), amounts), max_size=3),
)
def test_every_token_is_summed_once(noted: Any, more: Any, tasks: Any) -> None:
    """What we noted, what others put in the table by model, and tasks beside: nothing twice."""
    counted: dict[tuple[str, str], list[int]] = {}
    sums: dict[str, list[int]] = {"a": [0] * 7, "b": [0] * 7}
    for session, model, numbers in [*noted, *more]:
        had = counted.setdefault((session, model), [0] * 7)
        counted[session, model] = [x + y for x, y in zip(had, numbers, strict=True)]
        sums[session] = [x + y for x, y in zip(sums[session], numbers, strict=True)]
    pieces = spent(
        [(s, "day", m, "cli", *numbers) for s, m, numbers in noted],
        [
            *((s, "day", m, "cli", "", *numbers) for (s, m), numbers in counted.items()),
            *((s, "day", "m", "cli", "vision", *numbers) for s, numbers in tasks),
        ],
        [(s, "day", "m", "cli", *numbers) for s, numbers in sums.items()],
    )
    total = sum(sum(piece[4:]) for piece in pieces)
    assert total == sum(map(sum, sums.values())) + sum(sum(numbers) for _, numbers in tasks)
