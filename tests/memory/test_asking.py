"""ask: passages word for word, citations that open, and an honest word where there is little."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st

from threadkeep.errors import Busy, Damaged, NotFound
from threadkeep.knowledge.query import Query
from threadkeep.knowledge.search_scope import ANY_NODE, NodeChoice
from threadkeep.memory.answer_kinds import is_answer
from threadkeep.memory.ask import Answer, ask, confidence_of
from threadkeep.memory.learn.cited_answers import GroundedAnswer, Passage
from threadkeep.memory.passages import (
    MOST_CHARACTERS,
    WIDE,
    PassageSource,
    best_passages,
    excerpt,
    pieces_of,
    question_terms,
    widened,
)
from threadkeep.memory.records import Fold, Hit, HitDetail, RecallResult

ANY = Query()
AT = 1_790_000_000_000
TEXTS = st.lists(
    st.text(max_size=300) | st.text(alphabet="port 8080.\nwe fixed?!`", max_size=300), max_size=5
)


class Shelf:
    """A memory of a few texts that are found in their order."""

    store: Any = None
    clock: Any = None
    sources: Any = None

    def __init__(self, *texts: str | tuple[str, str], broken: Sequence[int] = ()) -> None:
        said = [("assistant", one) if isinstance(one, str) else one for one in texts]
        self.texts = [text for _, text in said]
        self.broken = broken
        self.hits = tuple(_hit(at, role, len(said)) for at, (role, _) in enumerate(said))

    def recall(
        self,
        text: str,
        within: Query = ANY,
        *,
        nodes: NodeChoice = ANY_NODE,
        limit: int = 10,
        explain: bool = False,
        newest: bool = False,
        fold: Fold = "text",
    ) -> RecallResult:
        found = tuple(hit for hit in self.hits if hit.score > 0)
        return RecallResult(
            text, found[:limit], len(self.hits), by_meaning=False, notes=("a note",)
        )

    def open(self, ref: str, around: int = 3) -> HitDetail:
        number = int(ref.partition(":")[2])
        if number in self.broken:
            raise Damaged(f"block {number} is damaged", hint="restore a backup")
        if number >= len(self.hits):
            raise NotFound("gone", hint="none")
        return HitDetail(
            self.hits[number], self.texts[number], after=self.hits[number + 1 :][:around]
        )


def _hit(at: int, role: str, count: int) -> Hit:
    return Hit(
        ref=f"message:{at}",
        kind="message",
        score=1.0 - at / count,
        at=AT,
        title="a talk",
        snippet="",
        contract_ref=f"claude-{at}",
        role=role,
    )


def quotes(answer: Answer) -> list[str]:
    return [one.quote for one in answer.citations]


# ---------------------------------------------------------------------- passages


@given(st.text(), TEXTS, st.integers(0, 6))
def test_every_passage_stands_in_its_text(question: str, texts: list[str], limit: int) -> None:
    chosen = best_passages(question, [PassageSource(text, 1.0) for text in texts], limit)
    assert len(chosen) <= limit
    for one in chosen:
        assert one.text in texts[one.source]
        assert 0 < len(one.text) <= MOST_CHARACTERS
    assert chosen == sorted(chosen, key=lambda one: -one.score)


@given(st.text())
def test_pieces_stand_where_they_say(text: str) -> None:
    for piece in pieces_of(text):
        assert text[piece.begin : piece.end] == piece.text


@given(st.text(), st.lists(st.text(max_size=5)), st.integers(10, 50))
def test_an_excerpt_is_a_part(text: str, terms: list[str], most: int) -> None:
    cut = excerpt(text, terms, most)
    assert cut in text
    assert len(cut) <= max(most, 0) or cut == text


@given(st.text())
def test_any_question_has_terms_or_no_words(question: str) -> None:
    assert isinstance(question_terms(question), tuple)


def test_small_words_do_not_count_unless_there_are_no_others() -> None:
    assert question_terms("how did I use sqlite and postgres") == ("sqlite", "postgres")
    assert question_terms("what is it") == ("what", "is", "it")


def best(question: str, *texts: str) -> str:
    return best_passages(question, [PassageSource(text, 1.0) for text in texts], 1)[0].text


def test_an_answer_is_better_than_the_question_asked_before() -> None:
    told = "We chose port 8123 because 8080 was taken."
    assert best("which port does the server use", "Which port does the server use?", told) == told


def test_what_is_asked_for_decides() -> None:
    said = "The deploy was slow.\nThe deploy took 14 minutes.\nThe deploy ran on Monday."
    assert best("how long did the deploy take", said) == "The deploy took 14 minutes."
    assert best("when was the deploy", said) == "The deploy ran on Monday."
    fix = "The build broke.\nThe build broke because the lock file was stale."
    assert best("why did the build break", fix).endswith("stale.")


def test_names_in_code_are_worth_more_than_words() -> None:
    texts = ["The parser handles dates in a file.", "Call parse_iso_date in src/dates.py there."]
    assert best("where is parse_iso_date in the parser file", *texts) == texts[1]


def test_a_reason_is_found_by_what_it_was_said_to() -> None:
    asked, reason = "zsh takes two seconds to start.", "nvm_auto takes half of it, so it is slow."
    texts = [
        PassageSource("The ferry is slow to start.", 1.0),
        PassageSource(reason, 1.0, about=asked),
    ]
    assert best_passages("why was zsh slow to start", texts, 1)[0].text == reason


@pytest.mark.parametrize(
    "question, passage, answers",
    [
        ("how many lines did board.py have", "2. Use this in board.py when lines are long.", False),
        ("how many lines did board.py have", "See line 94 of board.py.", False),
        ("how many lines did board.py have", "board.py has 509 lines.", True),
        ("how many tests pass", "All 2,842 tests pass in 3 files.", True),
        ("how many tests pass", "The suite took 12 s; all green.", False),
        ("what does the status command open", "It opens the list of sessions.", True),
        ("which command opens the list", "It opens the list of sessions.", False),
    ],
)
def test_a_number_counts_what_is_asked_and_a_command_is_wanted_only_if_asked(
    question: str, passage: str, *, answers: bool
) -> None:
    assert is_answer(question, passage) is answers


def test_a_choice_is_answered_by_a_decision() -> None:
    texts = ["The broker is on board A, says the broker.", "Decided: the broker is mosquitto."]
    assert best("which broker did we choose", *texts) == texts[1]


def test_a_sentence_stands_with_the_rest_of_its_paragraph() -> None:
    said = "The firewall accepts one address. Board B has another, so it is dropped."
    assert best("why is board B dropped", f"Well.\n{said}\nThat is all.") == said
    long = "Board B is dropped because it has another address. " + "It goes on and on. " * 40
    cut = best("why is board B dropped", f"{'Before it. ' * 40}{long}")
    assert cut.startswith("Board B is dropped")
    assert len(cut) <= WIDE


@given(st.text(max_size=200), st.integers(0, 200), st.integers(0, 50), st.integers(5, 60))
def test_a_widened_piece_is_a_part(text: str, begin: int, length: int, most: int) -> None:
    begin = min(begin, len(text))
    end = min(begin + length, len(text))
    wide = widened(text, begin, end, most)
    assert wide in text
    assert text[begin:end].strip() in wide


def test_the_same_thing_is_told_once_and_no_text_fills_the_answer() -> None:
    same = "The cache lives in redis now."
    chosen = best_passages(
        "where is the cache", [PassageSource(same, 1.0), PassageSource(same, 0.5)], 8
    )
    assert [one.text for one in chosen] == [same]
    many = "\n".join(f"The cache number {name} is large." for name in ("one", "two", "six", "ten"))
    assert len(best_passages("cache", [PassageSource(many, 1.0)], 8)) <= 2


# ---------------------------------------------------------------------- answers


def test_an_answer_quotes_and_cites() -> None:
    shelf = Shelf("Intro.\nWe fixed the timeout by raising pool_size to 20.\nBye.", "Unrelated.")
    answer = ask(shelf, "how did we fix the timeout", limit=3)
    assert answer.confidence == "strong"
    assert answer.text == "“We fixed the timeout by raising pool_size to 20.” [1]"
    (cited,) = answer.citations
    assert (cited.ref, cited.contract_ref, cited.day) == ("message:0", "claude-0", "2026-09-21")
    assert (cited.label, cited.open) == ("agent said", "threadkeep open message:0")
    assert answer.notes == ("a note",)
    assert len(answer.hits) == 2


@given(st.text(), TEXTS)
def test_no_word_of_an_answer_is_made_up(question: str, texts: list[str]) -> None:
    answer = ask(Shelf(*texts), question)
    for one in answer.citations:
        assert one.quote in texts[int(one.ref.partition(":")[2])]
    assert (answer.confidence == "none") == (not answer.citations)


def test_nothing_found_is_said() -> None:
    answer = ask(Shelf(), "anything at all")
    assert (answer.text, answer.confidence) == ("No matches for this.", "none")
    assert ask(Shelf("Entirely other words here."), "quantum flux").confidence == "none"


def test_little_evidence_is_called_little() -> None:
    answer = ask(Shelf("The database was restarted."), "how large is the database backup in S3")
    assert answer.confidence == "weak"
    assert answer.text.startswith("No certain answer")
    assert confidence_of("x", []) == "none"


def test_a_name_in_code_is_strong_evidence() -> None:
    told = "Set pool_size higher and it went away."
    assert ask(Shelf(told), "how was pool_size changed").confidence == "strong"
    assert ask(Shelf(told), "how was the value of the pool changed").confidence == "weak"


def test_an_answer_is_about_the_thing_that_was_asked_about() -> None:
    """What stands in another sentence of the session, or apart, does not count."""
    apart = "Changed the status bar item so that it runs another command: `focus_view`."
    together = "The status command opens the list in `focus_view`."
    question = "which view does the status command open"
    assert ask(Shelf(apart), question).confidence == "weak"
    assert ask(Shelf(together), question).confidence == "strong"
    renamed = "We rename the fallback path to `runDefault`, because it is traced too often."
    assert ask(Shelf(renamed), "why did we rename agentv").confidence == "weak"


def test_little_evidence_is_kept_short() -> None:
    shelf = Shelf(*(f"The database of {name} was restarted." for name in ("a1", "b2", "c3", "d4")))
    assert len(ask(shelf, "how large is the database backup in S3").citations) <= 3


def test_the_message_after_a_question_may_be_the_answer() -> None:
    shelf = Shelf(("user", "Which port is the proxy on?"), "The proxy is on port 7070.")
    shelf.hits = (shelf.hits[0], Hit(**{**_fields(shelf.hits[1]), "score": 0.0}))
    assert quotes(ask(shelf, "which port is the proxy on"))[0] == "The proxy is on port 7070."


def _fields(hit: Hit) -> dict[str, Any]:
    return {name: getattr(hit, name) for name in hit.__struct_fields__}


def test_a_text_that_cannot_be_read_leaves_the_others() -> None:
    shelf = Shelf("The proxy is on port 1.", "The proxy is on port 7070.", broken=[0])
    answer = ask(shelf, "port of the proxy")
    assert quotes(answer) == ["The proxy is on port 7070."]
    assert answer.notes == ("a note", "message:0 cannot be read: block 0 is damaged")


# ---------------------------------------------------------------------- with a model


def test_a_model_answers_from_the_same_passages() -> None:
    given_: list[Passage] = []

    def model(question: str, passages: Sequence[Passage]) -> GroundedAnswer:
        given_.extend(passages)
        return GroundedAnswer("It is 7070 [1].", (1,), (passages[0].ref,), ("It is nice.",))

    answer = ask(Shelf("The proxy is on port 7070."), "port of the proxy", answer_with=model)
    assert (answer.text, answer.by_model) == ("It is 7070 [1].", True)
    assert given_ == [
        Passage("message:0", "The proxy is on port 7070.", "agent said, 2026-09-21, a talk")
    ]
    assert quotes(answer) == ["The proxy is on port 7070."]
    assert "It is nice." in answer.notes[-1]


def refuses(_: str, __: Sequence[Passage]) -> None:
    return None


def breaks(_: str, __: Sequence[Passage]) -> None:
    raise Busy("the model is away", hint="start it")


@pytest.mark.parametrize("model, why", [(refuses, "no answer"), (breaks, "the model is away")])
def test_without_its_answer_the_quotations_stand(model: Any, why: str) -> None:
    answer = ask(Shelf("The proxy is on port 7070."), "port of the proxy", answer_with=model)
    assert (answer.by_model, answer.confidence) == (False, "strong")
    assert answer.text == "“The proxy is on port 7070.” [1]"
    assert why in answer.notes[-1]
    assert ask(Shelf(), "x", answer_with=model).confidence == "none"
