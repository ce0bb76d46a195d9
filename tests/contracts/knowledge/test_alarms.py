"""Alarms: one for each rule and source at a time, in the contract's form."""

import json

import pytest
from hypothesis import given, settings, strategies as st

from tests.lengths import examples
from tests.support.tickets import Factory
from threadkeep.errors import Invalid, NotFound
from threadkeep.knowledge.health import (
    Changes,
    Violation,
    ack_alarm,
    list_alarms,
    prune_alarms,
    settle_alarms,
)
from threadkeep.knowledge.store import KnowledgeStore

NOW = 1_800_000_000_000
TICK = 30_000
HOUR = 3_600_000


@pytest.fixture
def store(factory: Factory) -> KnowledgeStore:
    return factory.open(clock=lambda: NOW)


def broken(invariant: str = "I-8", source: str = "shell", since: int = NOW) -> Violation:
    return Violation(invariant, source, since, f"{source} is broken")


def look(store: KnowledgeStore, *violations: Violation, at: int = NOW) -> Changes:
    with store.context.db.write(durable=False) as tx:
        found = {one.key: one for one in violations}
        return settle_alarms(tx, found, now=at, interval_ms=HOUR)


def kept(factory: Factory, store: KnowledgeStore) -> list[tuple[object, ...]]:
    sql = "SELECT invariant_id, raised_at, acked_at, resolved_at, clean_ticks FROM capture_alarms"
    return [tuple(row.values()) for row in factory.rows(store, sql)]


def test_an_alarm_has_the_contracts_form(store: KnowledgeStore, factory: Factory) -> None:
    look(store, broken(since=NOW - 5))
    (row,) = factory.rows(store, "SELECT details_json FROM capture_alarms")
    assert json.loads(row["details_json"]) == {
        "source": "shell",
        "since_ms": NOW - 5,
        "details": "shell is broken",
    }
    assert kept(factory, store) == [("I-8", NOW, None, None, 0)]


def test_three_sources_raise_three_alarms_of_one_rule(
    store: KnowledgeStore, factory: Factory
) -> None:
    three = [broken(source=name) for name in ("shell", "browser", "claude-tool")]
    assert len(look(store, *three).raised) == 3
    assert look(store, *three, at=NOW + TICK) == Changes()
    assert len(kept(factory, store)) == 3


def test_an_outage_that_goes_on_is_one_row_however_long(
    store: KnowledgeStore, factory: Factory
) -> None:
    for tick in range(300):  # two and a half hours
        look(store, broken(), at=NOW + tick * TICK)
    assert len(kept(factory, store)) == 1


def test_two_looks_in_vain_resolve_and_one_does_not(
    store: KnowledgeStore, factory: Factory
) -> None:
    look(store, broken())
    look(store, at=NOW + 1)
    assert kept(factory, store)[0][3:] == (None, 1)
    look(store, broken(), at=NOW + 2)
    assert kept(factory, store)[0][3:] == (None, 0)
    look(store, at=NOW + 3)
    (resolved,) = look(store, at=NOW + 4).resolved
    assert (resolved.resolved_at, resolved.clean_ticks) == (NOW + 4, 2)
    assert look(store, at=NOW + 5) == Changes()


def test_what_comes_back_soon_is_opened_again_and_later_is_new(store: KnowledgeStore) -> None:
    look(store, broken())
    look(store, at=NOW + 1)
    look(store, at=NOW + 2)
    (again,) = look(store, broken(since=NOW + 3), at=NOW + 3).reopened
    assert (again.id, again.resolved_at, again.since_ms) == (1, None, NOW + 3)
    look(store, at=NOW + 4)
    look(store, at=NOW + 5)
    (new,) = look(store, broken(), at=NOW + 2 * HOUR).raised
    assert new.id == 2


def test_an_alarm_that_was_put_away_is_seen_again_when_it_comes_back(store: KnowledgeStore) -> None:
    look(store, broken())
    look(store, at=NOW + 1)
    look(store, at=NOW + 2)
    with store.context.db.write() as tx:
        assert prune_alarms(tx, store.clock()) == 1
    look(store, broken(), at=NOW + 3)
    with store.context.db.read() as tx:
        (alarm,) = list_alarms(tx)
    assert (alarm.active, alarm.ack_note) == (True, None)


def test_ack_is_idempotent_and_an_acked_alarm_is_not_raised_again(store: KnowledgeStore) -> None:
    look(store, broken())
    with store.context.db.write() as tx:
        first = ack_alarm(tx, 1, store.clock(), "known")
        again = ack_alarm(tx, 1, store.clock(), "another note")
    assert first == again
    assert (first.acked_at, first.ack_note, first.active) == (NOW, "known", False)
    assert look(store, broken(), at=NOW + 2 * HOUR) == Changes()


@pytest.mark.parametrize("number, error", [(7, NotFound), (0, Invalid), (-1, Invalid)])
def test_an_unknown_number_is_named(
    store: KnowledgeStore, number: int, error: type[Exception]
) -> None:
    with pytest.raises(error, match=str(number)), store.context.db.write() as tx:
        ack_alarm(tx, number, store.clock())


def test_prune_puts_away_only_what_was_resolved(store: KnowledgeStore, factory: Factory) -> None:
    look(store, broken(), broken(source="browser"))
    look(store, broken(), at=NOW + 1)
    look(store, broken(), at=NOW + 2)
    with store.context.db.write() as tx:
        assert prune_alarms(tx, store.clock()) == 1
        assert prune_alarms(tx, store.clock()) == 0
    notes = factory.rows(store, "SELECT ack_note FROM capture_alarms ORDER BY id")
    assert notes == [{"ack_note": None}, {"ack_note": "auto-resolved"}]


@pytest.mark.parametrize(
    "details", ["", "no json", "[1, 2]", '{"source": 7}', "{}", "null", '{"source": "\\ud800"}']
)
def test_details_nobody_can_read_never_resolve_and_never_crash(
    store: KnowledgeStore, details: str
) -> None:
    with store.context.db.write() as tx:
        tx.run("raise_alarm", {"invariant": "I-8", "now": NOW, "details": details})
    for tick in range(1, 5):
        look(store, broken(), at=NOW + tick)
    with store.context.db.read() as tx:
        alarms = list_alarms(tx, active=False)
    strange = alarms[-1]
    assert isinstance(strange.details, str)
    if strange.source is None:
        assert (strange.resolved_at, strange.clean_ticks) == (None, 0)


def test_hippos_own_alarms_are_kept_up_and_resolved(
    store: KnowledgeStore, factory: Factory
) -> None:
    details = json.dumps({"source": "shell", "since_ms": 900_000, "details": {"probe_ok": 0}})
    factory.rows(
        store,
        "INSERT INTO capture_alarms (invariant_id, raised_at, details_json)"
        f" VALUES ('I-8', {NOW - HOUR}, '{details}')",
    )
    assert look(store, broken()) == Changes()
    look(store, at=NOW + 1)
    (resolved,) = look(store, at=NOW + 2).resolved
    assert resolved.details == '{"probe_ok":0}'


@pytest.fixture(scope="module")
def one_store(lasting_factory: Factory) -> KnowledgeStore:
    return lasting_factory.open()


@settings(max_examples=examples(40))
@given(st.lists(st.lists(st.sampled_from(["a", "b", "c"]), unique=True), max_size=10))
def test_at_every_moment_a_broken_source_has_exactly_one_standing_alarm(
    lasting_factory: Factory, one_store: KnowledgeStore, ticks: list[list[str]]
) -> None:
    store = one_store
    lasting_factory.rows(store, "DELETE FROM capture_alarms")
    for number, sources in enumerate(ticks):
        look(store, *(broken(source=name) for name in sources), at=NOW + number * TICK)
        with store.context.db.read() as tx:
            alarms = list_alarms(tx, active=False)
        standing = [alarm.source for alarm in alarms if alarm.resolved_at is None]
        assert len(standing) == len(set(standing))
        assert set(sources) <= set(standing)
        assert len(alarms) <= 3
