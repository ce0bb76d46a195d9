"""The reducer over recorded results of the AI SDK (optional test data)."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.chunks import reduce_chunks
from tests.support.golden import Case, Golden, golden, without_trailing_steps
from threadkeep.chat.wire.protocol import validate_chunk
from threadkeep.chat.wire.reduce import StreamState
from threadkeep.errors import ProtocolViolation


@pytest.fixture(scope="module")
def data(shared_data: Path) -> Path:
    return shared_data / "data" / "chat"


@pytest.fixture(scope="module")
def compare(data: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("compare", data / "compare.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module", params=[6, 7])
def given(request: pytest.FixtureRequest, shared_data: Path) -> Golden:
    return golden(shared_data, request.param)


def begin(case: Case, protocol: int) -> StreamState:
    initial = case.get("initial_message")
    return StreamState(initial, initial["id"] if initial else "", protocol=protocol)


def test_all_cases_end_as_in_the_sdk(given: Golden, compare: ModuleType) -> None:
    cases = given.cases()
    assert len(cases) == {6: 132, 7: 100}[given.protocol]
    for case in cases:
        made = reduce_chunks(case["chunks"], case.get("initial_message"), protocol=given.protocol)
        matches, differences = compare.check(case, made)
        assert matches, (case["id"], differences)


def test_the_state_after_every_chunk_is_the_sdks(given: Golden) -> None:
    snapshots = given.snapshots()
    assert sum(map(len, snapshots.values())) == {6: 4393, 7: 3779}[given.protocol]
    for case in given.cases():
        state = begin(case, given.protocol)
        for number, chunk in enumerate(case["chunks"]):
            try:
                state.apply(validate_chunk(chunk, given.protocol))
            except ProtocolViolation:
                assert "errors" in case, case["id"]
            assert state.message() == snapshots[case["id"]][number], (case["id"], number)


def test_violations_raise_and_keep_what_came_before(given: Golden) -> None:
    invalid = given.invalid()
    assert len(invalid) == {6: 10, 7: 4}[given.protocol]
    for case in invalid:
        state = begin(case, given.protocol)
        with pytest.raises(ProtocolViolation):
            for chunk in case["chunks"]:
                state.apply(validate_chunk(chunk, given.protocol))
        emitted = without_trailing_steps(case["final_message"])
        assert without_trailing_steps(state.message()) == emitted, case["id"]
