"""Questions with known answers over the bundled demo history, and whether recall finds them.

Each question names the session and words of the message that answers it; `*` is any session. A
question counts as found when one of the first ten hits is such a message, or a command or a piece
of knowledge that has these very words.
"""

import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from threadkeep.home import Home
from threadkeep.recall.memory import Memory
from threadkeep.recall.records import Hit

QUESTIONS = Path(__file__).parent / "questions.json"
_FIRST = 10


class Score(NamedTuple):
    """How many questions were answered, and how high up."""

    questions: int
    recall_at_10: float
    reciprocal_rank: float
    missed: list[str]


def questions() -> list[dict[str, str]]:
    """Read the questions."""
    found: list[dict[str, str]] = json.loads(QUESTIONS.read_text("utf-8"))
    return found


def captured_demo(folder: Path) -> Home:
    """Capture the bundled demo history into a new home."""
    home = Home(folder)
    bundled = resources.files("threadkeep").joinpath("demo", "history")
    with resources.as_file(bundled) as user, home.history(user_home=user) as history:
        history.capture()
    return home


def evaluate(memory: Memory, asked: Sequence[dict[str, str]]) -> Score:
    """Ask every question and see where its answer stands."""
    ranks, missed = [], []
    for one in asked:
        hits = memory.recall(one["question"], limit=_FIRST).hits
        rank = next((n for n, hit in enumerate(hits, 1) if _answers(memory, hit, one)), 0)
        ranks.append(rank)
        if not rank:
            missed.append(one["question"])
    return Score(
        len(ranks),
        sum(rank > 0 for rank in ranks) / len(ranks),
        sum(1 / rank for rank in ranks if rank) / len(ranks),
        missed,
    )


def _answers(memory: Memory, hit: Hit, one: dict[str, str]) -> bool:
    if hit.kind == "message" and one["session"] not in ("*", hit.session_id):
        return False
    return one["answer"] in memory.open(hit.ref, around=0).text


def rows(folder: Path) -> list[dict[str, Any]]:
    """Measure full text alone on the demo history."""
    with captured_demo(folder).memory() as memory:
        memory.index()
        score = evaluate(memory, questions())
    return [{"set": "demo", "arm": "full text", **score._asdict()}]
