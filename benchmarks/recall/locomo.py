"""LoCoMo through the product: ten long conversations, captured, then asked about.

Each session of a conversation becomes a log of Claude Code in a folder of its own conversation;
the logs are captured, and every question is asked of that folder. Evidence recall@10 is the share
of a question's evidence among its first ten hits; the reciprocal rank is that of the first one.
The data are for evaluation only and are no part of the project: they are read where they lie.
"""

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

from threadkeep.knowledge.hit_rows import load_messages
from threadkeep.knowledge.query import Query
from threadkeep.knowledge.search_index import entries_of_sessions
from threadkeep.knowledge.search_scope import ANY_NODE, scope_of
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.memory.memory import Memory
from threadkeep.memory.records import Meaning

REPO: Final = Path(__file__).parents[2]
_FIRST: Final = 10
_LONGEST: Final = 5_000  # turns of one conversation
_PLACE: Final = re.compile(r"D\d+:\d+")


class Asked(NamedTuple):
    """A question, the folder it is asked of, and the turns that answer it."""

    text: str
    project: str
    evidence: frozenset[str]


class Score(NamedTuple):
    """How much of the evidence was found, how high up, and how long a question took."""

    questions: int
    recall: float
    reciprocal_rank: float
    milliseconds: float


def data_file() -> Path | None:
    """Find the conversations: below THREADKEEP_SHARED, else beside the project."""
    folder = Path(os.environ.get("THREADKEEP_SHARED") or REPO.parent / "shared")
    path = folder / "data" / "recall" / "locomo10.json"
    return path if path.is_file() else None


def write_logs(data: Sequence[dict[str, Any]], user: Path) -> int:
    """Write every session as a log of Claude Code; give the time just after the last one."""
    latest = 0
    for number, sample in enumerate(data):
        for session, begun, turns in _sessions(sample["conversation"]):
            project = f"/locomo/{_project(number)}"
            folder = user / ".claude" / "projects" / project.replace("/", "-")
            folder.mkdir(parents=True, exist_ok=True)
            name = f"{_project(number)}-{session}"
            lines = [_record(turn, n, project, (name, begun)) for n, turn in enumerate(turns)]
            (folder / f"{name}.jsonl").write_text("".join(lines), "utf-8")
            latest = max(latest, int(begun.timestamp() * 1000))
    return latest + 86_400_000


def _project(number: int) -> str:
    return f"conversation{number}"


def _sessions(conversation: dict[str, Any]) -> Iterator[tuple[int, datetime, list[Any]]]:
    number = 1
    while f"session_{number}_date_time" in conversation:
        said = conversation[f"session_{number}_date_time"]
        begun = datetime.strptime(said, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        yield number, begun, conversation.get(f"session_{number}") or []
        number += 1


def _record(turn: dict[str, Any], number: int, cwd: str, session: tuple[str, datetime]) -> str:
    name, begun = session
    role = "assistant" if number % 2 else "user"
    shared = turn.get("blip_caption")
    text = f"{turn['speaker']}: {turn['text']}" + (f" [shares {shared}]" if shared else "")
    record = {
        "type": role,
        "uuid": f"{name} {turn['dia_id']}",
        "sessionId": name,
        "timestamp": (begun + timedelta(seconds=30 * number)).strftime("%Y-%m-%dT%H:%M:%S.000Z"),
        "cwd": cwd,
        "message": {"role": role, "content": text},
    }
    return json.dumps(record) + "\n"


def questions(data: Sequence[dict[str, Any]]) -> list[Asked]:
    """Return every question that names its evidence."""
    return [
        Asked(
            one["question"],
            _project(number),
            frozenset(place for said in one["evidence"] for place in _PLACE.findall(said)),
        )
        for number, sample in enumerate(data)
        for one in sample["qa"]
        if one.get("evidence")
    ]


def ask_all(memory: Memory, asked: Sequence[Asked]) -> Score:
    """Ask memory every question."""

    def keys(one: Asked) -> list[str]:
        found = memory.recall(one.text, Query(project=(one.project,)), limit=_FIRST)
        return [hit.key or "" for hit in found.hits]

    return _scored(asked, keys)


def ask_vectors(store: KnowledgeStore, meaning: Meaning, asked: Sequence[Asked]) -> Score:
    """Ask the vectors alone."""

    def keys(one: Asked) -> list[str]:
        vector = meaning.embedder.embed([one.text])[0]
        with store.read() as tx:
            scope = scope_of(tx, Query(project=(one.project,)), ANY_NODE, 0)
            ids = entries_of_sessions(tx, scope.sessions or (), _LONGEST)
            near = meaning.vectors.similarities(tx, vector, "message", ids)
            best = sorted(near, key=lambda number: -near[number])[:_FIRST]
            messages = load_messages(tx, best)
        return [messages[number].row.key for number in best]

    return _scored(asked, keys)


def _scored(asked: Sequence[Asked], keys: Callable[[Asked], list[str]]) -> Score:
    """See where the evidence of each question stands among its first ten hits."""
    shares, ranks, spent = [], [], []
    for one in asked:
        started = time.perf_counter()
        found = keys(one)
        spent.append(time.perf_counter() - started)
        places = [place_of(key) for key in found]
        first = next((n for n, place in enumerate(places, 1) if place in one.evidence), 0)
        shares.append(len(one.evidence & set(places[:_FIRST])) / max(1, len(one.evidence)))
        ranks.append(1 / first if first else 0.0)
    count = len(asked)
    return Score(count, sum(shares) / count, sum(ranks) / count, sum(spent) / count * 1000)


def place_of(key: str) -> str:
    """Return the place of a turn in its conversation, from the key of its message."""
    found = _PLACE.search(key)
    return found[0] if found else ""
