"""Tool calls as events: a call is completed by its first result, whatever that says."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.lengths import examples
from tests.support.tickets import Factory
from threadkeep.base.tx import Sql, Tx
from threadkeep.knowledge.commands import write_tool_runs
from threadkeep.knowledge.records import ToolRun

NOW = 1_800_000_000_000
CALL = ToolRun("toolu_1", "s", NOW, "Bash", "make", "/u/app", "main")


@pytest.fixture
def tx(factory: Factory) -> Iterator[Tx]:
    store = factory.open(clock=lambda: NOW)
    with store, store.context.db.write() as tx:
        yield tx


def write(tx: Tx, run: ToolRun) -> int:
    return write_tool_runs(tx, [run], shell="claude-code", hostname="vm", username="me", now=NOW)


def result(tx: Tx) -> tuple[Any, ...]:
    sql = "SELECT stdout, stdout_truncated, exit_code, duration_ms FROM events"
    (found,) = tx.all(Sql(sql))
    return tuple(found)


@pytest.mark.parametrize(
    "said, stored",
    [
        ({"output": "ok", "duration_ms": 5}, ("ok", 0, 0, 5)),
        ({"output": ""}, ("", 0, 0, 0)),
        ({"duration_ms": 5}, (None, None, 0, 5)),
        # An error that says nothing, written in the same millisecond.
        ({"exit_code": 1}, (None, None, 1, 0)),
    ],
)
def test_a_result_that_comes_later_completes_the_call(
    tx: Tx, said: dict[str, Any], stored: tuple[Any, ...]
) -> None:
    assert write(tx, CALL) == 1
    assert write(tx, msgspec.structs.replace(CALL, **said)) == 0
    assert result(tx) == stored
    write(tx, CALL)  # a log that repeats the call without its result
    assert result(tx) == stored


results: st.SearchStrategy[dict[str, Any]] = st.builds(
    dict,
    output=st.none() | st.sampled_from(["", "ok"]),
    exit_code=st.sampled_from([0, 1]),
    duration_ms=st.sampled_from([0, 5]),
)


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=results, second=results)
def test_the_first_result_stays(tx: Tx, first: dict[str, Any], second: dict[str, Any]) -> None:
    tx.run(Sql("DELETE FROM enrichment_queue"))
    tx.run(Sql("DELETE FROM events"))
    write(tx, CALL)
    write(tx, msgspec.structs.replace(CALL, **first))
    before = result(tx)
    write(tx, msgspec.structs.replace(CALL, **second))
    assert result(tx) == before or before == (None, None, 0, 0)
