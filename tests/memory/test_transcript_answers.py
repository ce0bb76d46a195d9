"""Questions over real transcripts: four of five are answered, and no answer is sure and wrong."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from benchmarks.recall.demo import QUESTIONS
from tests.support.user_homes import real_home
from threadkeep.home.home import Home
from threadkeep.memory.ask import Answer
from threadkeep.memory.memory import Memory

_READ: Final = 3  # citations that a person looks at
_LARGE: Final = 1_500_000  # bytes of a log: the questions are about smaller ones
_ASKED: Final = json.loads((QUESTIONS.parent / "transcript_questions.json").read_text("utf-8"))
# Nobody had these errors; some share words, or the exception, with one that somebody had.
UNKNOWN_ERRORS: Final = (
    "CONFLICT (content): Merge conflict in packages/core/src/index.ts",
    "AssertionError: expected 3 to be 4",
    "ModuleNotFoundError: No module named 'flask'",
    "fatal: not a git repository (or any of the parent directories): .git",
    "bash: jq: command not found",
    "KeyError: 'zzz'",
)


@pytest.fixture(scope="module")
def memory(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    user = real_home(shared_data, tmp_path_factory.mktemp("user"))
    for path in user.rglob("*"):
        if path.is_file() and path.suffix != ".db" and path.stat().st_size > _LARGE:
            path.unlink()
    home = Home(tmp_path_factory.mktemp("home"), environ={})
    with home.history(user_home=user) as history:
        history.capture()
    with home.memory() as opened:
        yield opened


def is_useful(memory: Memory, answer: Answer, one: dict[str, Any]) -> bool:
    """Tell whether a message that is quoted has the answer, in the session that is meant."""
    cited = [memory.open(citation.ref) for citation in answer.citations[:_READ]]
    return any(
        (said.hit.session_id or "").startswith(one["session"])
        and any(words.lower() in said.text.lower() for words in one["answers"])
        for said in cited
    )


@pytest.mark.slow
def test_four_of_five_answers_are_useful_and_none_is_sure_and_wrong(memory: Memory) -> None:
    known = _ASKED["known"]
    assert len(known) >= 130
    answers = [(one, memory.ask(one["question"])) for one in known]
    missed = [(one, answer) for one, answer in answers if not is_useful(memory, answer, one)]
    assert len(missed) <= len(known) * 0.2, [one["question"] for one, _ in missed]
    assert [one["question"] for one, answer in missed if answer.confidence == "strong"] == []
    sure = [one for one, answer in answers if answer.confidence == "strong"]
    assert len(sure) >= len(known) * 0.25  # who is never sure is never wrong


def test_what_nobody_said_is_never_answered_with_confidence(memory: Memory) -> None:
    unknown = [one for one in _ASKED["unknown"] if memory.ask(one).confidence == "strong"]
    assert unknown == []


@pytest.mark.parametrize("error", UNKNOWN_ERRORS)
def test_an_error_that_nobody_had_has_no_known_fix(memory: Memory, error: str) -> None:
    assert memory.fixed(error) == []


def test_an_error_that_somebody_had_has_its_fix(memory: Memory) -> None:
    (first, *_) = memory.fixed("src/app.ts(3,7): error TS2304: Cannot find name 'foo'.")
    assert "TS2304" in first.error
    assert first.success is not None
