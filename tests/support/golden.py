"""Recorded results of the AI SDK (optional test data): streams, and what it made of each."""

import gzip
import json
from pathlib import Path
from typing import Any, NamedTuple

Case = dict[str, Any]


class Golden(NamedTuple):
    """The cases of one version of the stream."""

    protocol: int
    folder: Path
    prefix: str

    def cases(self) -> list[Case]:
        """Return streams with the message that each ends in."""
        return _lines(self.folder / f"{self.prefix}cases.jsonl")

    def invalid(self) -> list[Case]:
        """Return streams with a violation, and the message before it."""
        found = list(self.folder.glob("*invalid*.jsonl"))
        return _lines(found[0])

    def snapshots(self) -> dict[str, list[Case]]:
        """Return the message after every chunk of every case."""
        with gzip.open(self.folder / f"{self.prefix}snapshots.jsonl.gz", "rt") as lines:
            return {case["id"]: case["snapshots"] for case in map(json.loads, lines)}


def golden(shared_data: Path, protocol: int) -> Golden:
    """Return the cases of version 6 or 7."""
    folder = shared_data / "data" / ("chat" if protocol == 6 else "chat_v7")
    return Golden(protocol, folder, "" if protocol == 6 else "v7_")


def without_trailing_steps(message: Case) -> Case:
    """Leave out what the SDK may not have emitted: a start-step alone emits nothing."""
    parts = list(message["parts"])
    while parts and parts[-1] == {"type": "step-start"}:
        parts.pop()
    return {**message, "parts": parts}


def _lines(path: Path) -> list[Case]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]
