"""The questions over the bundled demo history: their answers are found, learned from or not."""

from pathlib import Path

from benchmarks.recall.demo import captured_demo, evaluate, questions
from threadkeep.service.learn import enrich


def test_nine_of_ten_questions_find_their_answer_by_words_alone(tmp_path: Path) -> None:
    asked = questions()
    assert len(asked) >= 100
    home = captured_demo(tmp_path)
    with home.memory() as memory:
        plain = evaluate(memory, asked)
    with home.history() as history:
        assert enrich(home, history, at_once=True, with_model=False).nodes > 20
    with home.memory() as memory:
        learned = evaluate(memory, asked)
    assert plain.recall_at_10 >= 0.9, plain.missed
    assert learned.recall_at_10 >= 0.9, learned.missed
