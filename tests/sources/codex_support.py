"""Shared by the tests of Codex: its fixtures, and a pass over a log in any number of pieces."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from threadkeep.base.json import decode_line
from threadkeep.knowledge.records import Entry, Segment, SessionFacts, Usage
from threadkeep.sources.codex.rollouts import SOURCE
from threadkeep.sources.codex.threads import thread_of
from threadkeep.sources.records import Log, Stamp, UserHome

HOME = Path(__file__).resolve().parent.parent / "fixtures" / "sources" / "codex" / "home"
USER = UserHome(HOME)
THREADS = "0199aaaa-0000-7000-8000-00000000000"
Fed = tuple[Any, bytes]


class Result(msgspec.Struct):
    """What one or several looks at a log gave, put together by key."""

    entries: list[Entry] = []
    facts: dict[str, SessionFacts] = {}
    usage: dict[str, Usage] = {}
    segments: dict[tuple[str, int], Segment] = {}
    unknown: dict[str, int] = {}

    def of(self, kind: str) -> list[str]:
        return [entry.text for entry in self.entries if entry.kind == kind]


def log_of(path: Path) -> Log:
    return Log(path=str(path), stamp=Stamp(0, 0, 0, 0), session_id=thread_of(path.name))


def fed_from(path: Path) -> list[Fed]:
    lines = [line for line in path.read_bytes().split(b"\n") if line]
    return [(value, line) for line in lines for value in decode_line(line)]


def read(log: Log, fed: list[Fed], cuts: Iterable[int] = ()) -> Result:
    """Feed records to parsers; at each cut a new one goes on from the state of the last."""
    result = Result()
    unknown: Counter[str] = Counter()
    parser = SOURCE.parser(log, None)
    borders = sorted({*cuts, len(fed)})
    start = 0
    for end in borders:
        for number in range(start, end):
            value, line = fed[number]
            result.entries += parser.feed(value, line, number)
        harvest = parser.harvest()
        result.facts.update(harvest.facts)
        result.usage.update({usage.key: usage for usage in harvest.usage})
        result.segments.update({(one.session_id, one.index): one for one in harvest.segments})
        unknown.update(harvest.unknown)
        parser, start = SOURCE.parser(log, parser.state()), end
    result.unknown = dict(unknown)
    return result


def fixture(number: int, which: int = 0) -> Path:
    """Find the fixture of a thread by its last digit; `which` of its files, in order."""
    return sorted(HOME.glob(f".codex/sessions/**/rollout-*{THREADS}{number}*.jsonl"))[which]


def read_fixture(number: int, which: int = 0) -> Result:
    path = fixture(number, which)
    return read(log_of(path), fed_from(path))
