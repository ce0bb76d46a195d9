"""How much of the evidence recall finds, on a sample of the questions of LoCoMo."""

import json
from pathlib import Path

import pytest

from benchmarks.recall import locomo
from tests.lengths import at_length
from threadkeep.home.home import Home
from threadkeep.memory.memory import Memory


def test_words_alone_find_three_quarters_of_the_evidence(shared_data: Path, tmp_path: Path) -> None:
    path = shared_data / "data" / "recall" / "locomo10.json"
    if not path.is_file():
        pytest.skip("needs the conversations of LoCoMo among the optional test data")
    data = json.loads(path.read_text("utf-8"))[: at_length(4, 2)]
    user = tmp_path / "user"
    user.mkdir()
    now = locomo.write_logs(data, user)
    with Home(tmp_path / "home").history(user_home=user) as history:
        history.capture()
        memory = Memory(history.store, history.sources, clock=lambda: now)
        score = locomo.ask_all(memory, locomo.questions(data)[:: at_length(5, 3)])
    assert score.questions > 100
    assert score.recall >= 0.74
    assert score.reciprocal_rank >= 0.45
