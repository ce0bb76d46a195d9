"""The doctor: every check over the facts, in the order in which a person reads them."""

from collections.abc import Iterator

from threadkeep.doctor.capture_checks import check_capture
from threadkeep.doctor.facts import DoctorFacts
from threadkeep.doctor.findings import Finding
from threadkeep.doctor.store_checks import check_machine, check_store
from threadkeep.doctor.work_checks import check_work


def examine(facts: DoctorFacts) -> list[Finding]:
    """Judge everything that was gathered; the same facts give the same findings."""
    return list(_all(facts))


def _all(facts: DoctorFacts) -> Iterator[Finding]:
    yield from check_machine(facts)
    for store in facts.stores:
        yield from check_store(store, facts)
    yield from check_capture(facts)
    yield from check_work(facts)
