"""Questions with known answers over the bundled demo history, and whether recall finds them.

Each question names the session and words of the message that answers it; `*` is any session. A
question counts as found when one of the first ten hits is such a message, or a command or a piece
of knowledge that has these very words.
"""

import json
import time
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from threadkeep.home.home import Home
from threadkeep.memory.memory import Memory
from threadkeep.memory.records import Meaning

QUESTIONS = Path(__file__).parent / "questions.json"
_FIRST = 10

Find = Callable[[str], Sequence[str]]


class Score(NamedTuple):
    """How many questions were answered, and how high up."""

    questions: int
    recall_at_10: float
    reciprocal_rank: float
    missed: list[str]
    milliseconds: float


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


def evaluate(memory: Memory, asked: Sequence[dict[str, str]], find: Find | None = None) -> Score:
    """Ask every question and see where its answer stands; `find` is recall unless it is given."""
    ranks, missed, started = [], [], time.perf_counter()
    for one in asked:
        refs = _recalled(memory, one["question"]) if find is None else find(one["question"])
        rank = next((n for n, ref in enumerate(refs, 1) if answers(memory, ref, one)), 0)
        ranks.append(rank)
        if not rank:
            missed.append(one["question"])
    return Score(
        len(ranks),
        sum(rank > 0 for rank in ranks) / len(ranks),
        sum(1 / rank for rank in ranks if rank) / len(ranks),
        missed,
        (time.perf_counter() - started) / len(ranks) * 1000,
    )


def by_meaning(memory: Memory, meaning: Meaning) -> Find:
    """Return a search by vectors alone."""

    def find(question: str) -> list[str]:
        (vector,) = meaning.embedder.embed([question])
        with memory.store.context.db.read() as tx:
            near = meaning.vectors.nearest(tx, vector, kinds=("message", "node"), limit=_FIRST)
        return [f"{kind}:{number}" for kind, number, _ in near]

    return find


def _recalled(memory: Memory, question: str) -> list[str]:
    return [hit.ref for hit in memory.recall(question, limit=_FIRST).hits]


def answers(memory: Memory, ref: str, one: dict[str, str]) -> bool:
    """Tell whether a hit has the answer to a question."""
    opened = memory.open(ref, around=0)
    if opened.hit.kind == "message" and one["session"] not in ("*", opened.hit.session_id):
        return False
    return one["answer"] in opened.text
