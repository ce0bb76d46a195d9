"""The reducer over recorded results of the AI SDK (optional test data)."""

import gzip
import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from threadkeep.chat.reduce import StreamState, reduce_chunks, validate_chunk
from threadkeep.errors import ProtocolViolation

Case = dict[str, Any]


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


@pytest.fixture(scope="module")
def cases(data: Path) -> list[Case]:
    return read_lines(data / "cases.jsonl")


def read_lines(path: Path) -> list[Case]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def begin(case: Case) -> StreamState:
    initial = case.get("initial_message")
    return StreamState(initial, initial["id"] if initial else "")


def apply_all(state: StreamState, chunks: list[Case]) -> None:
    for chunk in chunks:
        state.apply(validate_chunk(chunk))


def test_all_cases_end_as_in_the_sdk(cases: list[Case], compare: ModuleType) -> None:
    assert len(cases) == 132
    for case in cases:
        made = reduce_chunks(case["chunks"], case.get("initial_message"))
        matches, differences = compare.check(case, made)
        assert matches, (case["id"], differences)


def test_the_state_after_every_chunk_is_the_sdks(cases: list[Case], data: Path) -> None:
    with gzip.open(data / "snapshots.jsonl.gz") as lines:
        snapshots = {case["id"]: case["snapshots"] for case in map(json.loads, lines)}
    for case in cases:
        state = begin(case)
        for number, chunk in enumerate(case["chunks"]):
            try:
                state.apply(validate_chunk(chunk))
            except ProtocolViolation:
                assert "errors" in case, case["id"]
            assert state.message() == snapshots[case["id"]][number], (case["id"], number)


def test_violations_raise_and_keep_what_came_before(data: Path) -> None:
    invalid = [
        json.loads(line) for line in (data / "invalid_cases.jsonl").read_bytes().splitlines()
    ]
    assert len(invalid) == 10
    for case in invalid:
        state = begin(case)
        with pytest.raises(ProtocolViolation):
            apply_all(state, case["chunks"])
        assert state.message() == case["final_message"], case["id"]
