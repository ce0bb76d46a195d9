"""Questions over the bundled demo history: the answers quote what is meant, or are not sure."""

from collections.abc import Iterator
from typing import Final

import pytest

from benchmarks.recall.demo import captured_demo, questions
from threadkeep.memory.answer_kinds import is_answer
from threadkeep.memory.ask import Answer
from threadkeep.memory.memory import Memory

_WORDS: Final = 4  # a question has more than a name has
_READ: Final = 3  # citations that a person looks at
# Nothing in the demo history answers these.
UNKNOWN: Final = (
    "why did the kubernetes cluster lose its nodes",
    "which color did we choose for the logo",
    "how many users does the billing service have",
    "when did we move to GitLab",
    "why was the redis cache disabled",
    "how did we fix the login page on Safari",
    "which license did we decide on for atlas",
    "what command deploys the staging server",
    "why did the nightly backup of the wiki fail",
    "how much does the CDN cost per month",
    # The words are there, the fact is not.
    "how many ships sank at lock 3",
    "which port does the departures page listen on",
    "why did PgBouncer crash on Friday",
    "who deleted customer 2093",
    "when will release 0.6.0 be ready",
    "how much does the CDN for tiles cost",
    "which command rotates the DKIM key",
    "why did the horn on board A fail",
    "which port does mosquitto use for websockets",
    "how many customers were billed wrong in March",
    "why did the lens break",
    "who wrote the tide service",
)


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    with captured_demo(tmp_path_factory.mktemp("demo")).memory() as opened:
        yield opened


def is_useful(memory: Memory, answer: Answer, one: dict[str, str]) -> bool:
    """Tell whether a quotation has the answer, or comes from the session that has it."""
    wanted = " ".join(one["answer"].split())
    return any(
        wanted in " ".join(cited.quote.split())
        or one["session"] in ("*", memory.open(cited.ref).hit.session_id)
        for cited in answer.citations[:_READ]
    )


def test_four_of_five_answers_are_useful_and_none_is_confident_nonsense(memory: Memory) -> None:
    asked = [one for one in questions() if len(one["question"].split()) >= _WORDS]
    assert len(asked) >= 40
    answers = {one["question"]: memory.ask(one["question"]) for one in asked}
    missed = [
        one["question"] for one in asked if not is_useful(memory, answers[one["question"]], one)
    ]
    assert len(missed) <= len(asked) * 0.2, missed
    assert [name for name in missed if answers[name].confidence == "strong"] == []


@pytest.mark.parametrize("question", UNKNOWN)
def test_what_nobody_said_is_never_answered_with_confidence(memory: Memory, question: str) -> None:
    assert memory.ask(question).confidence != "strong"


def test_a_decision_answers_whichever_word_it_was_asked_with(memory: Memory) -> None:
    for question in ("why did we choose PMTiles", "why was PMTiles decided on"):
        answer = memory.ask(question)
        assert answer.confidence == "strong"
        assert "because no server is needed" in answer.citations[0].quote


@pytest.mark.parametrize(
    "error, has_fix",
    [
        ("error[E0425]: cannot find value `tide` in this scope", True),  # the code tells it
        ("a.ts(1,2): error TS2304: Cannot find name 'x'.", True),
        ("ImportError: cannot import name 'cgi'", True),
        ("ImportError: cannot import name 'imp'", False),  # the name is the error
        ("AssertionError: expected 3 to be 4", False),
        ("CONFLICT (content): Merge conflict in src/board.py", False),
        ("error: failed to push some refs to 'origin'", False),
        ("Error: harbor not found", False),  # the words of a path are no error's
        ("timeout", False),
        ("F401 `os` imported but unused", False),
    ],
)
def test_a_fix_is_known_for_the_same_error_alone(
    memory: Memory, error: str, *, has_fix: bool
) -> None:
    assert bool(memory.fixed(error)) is has_fix


@pytest.mark.parametrize(
    "question, passage, answers",
    [
        ("why did the tests fail", "Let me look at why the tests fail.", False),
        ("why did the tests fail", "The tests on main failed again.", False),
        ("why did the tests fail", "They failed because the fixture was stale.", True),
        ("how many workers start on Thursday", "The reports start workers.", False),
        ("how many workers start on Thursday", "The reports start 26 workers.", True),
        ("which broker did we choose", "A broker keeps messages.", False),
        ("which broker did we choose", "Decided: mosquitto with QoS 1.", True),
        ("which command restores the backup", "The backup was restored.", False),
        ("which command restores the backup", "Run `pgbackrest restore`.", True),
        ("which color do the badges have", "Committed as `19780ba`: badges have a color.", False),
        ("which color do the badges have", "The badges are amber now.", True),
        ("which license does harbor have", "harbor/LICENSE is in the folder.", False),
        ("which license does harbor have", "harbor has the MIT license.", True),
        ("what is the password of the broker", "The broker has no password file.", False),
        ("who reviewed the guide", "I've reviewed the guide.", False),
        ("who reviewed the guide", "The guide was reviewed by Ines.", True),
        ("where is the broker", "Found the broker. Let me read its log.", False),
        ("where is the broker", "The broker is on board A.", True),
        ("which library draws the graph", "A library that draws the graph was added.", False),
        ("which library draws the graph", "The graph is drawn by `react-flow`.", True),
        ("how was the conflict resolved", "## How the conflict was resolved", False),
        ("how was the conflict resolved", "One conflict. Let me add both sides.", False),
    ],
)
def test_an_answer_says_what_the_question_asks_for(
    question: str, passage: str, *, answers: bool
) -> None:
    assert is_answer(question, passage) is answers
