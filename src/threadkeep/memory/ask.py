"""ask: an answer of quoted passages, each with the place it stands at; no word of it is made up.

A model may write the answer instead, from the same passages; what it cannot prove stays out, and
whatever goes wrong with it, the quoted passages stand.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, tzinfo
from itertools import islice, takewhile
from typing import Final, Literal

import msgspec

from threadkeep.errors import NotFound, ThreadkeepError
from threadkeep.knowledge.query import Query
from threadkeep.knowledge.search_scope import ANY_NODE, NodeChoice
from threadkeep.memory.hits import day_of, label_of
from threadkeep.memory.learn.cited_answers import GroundedAnswer, Passage
from threadkeep.memory.learn.draft_text import RESULT
from threadkeep.memory.memory import ANYTHING, MemoryReader
from threadkeep.memory.passages import PassageSource, ScoredPassage, best_passages, question_terms
from threadkeep.memory.records import Hit, HitDetail, RecallResult

Confidence = Literal["strong", "weak", "none"]
Answering = Callable[[str, Sequence[Passage]], GroundedAnswer | None]

_LOOKED_INTO: Final = 12  # hits whose texts are read
_ANSWERED_BY_NEXT: Final = 5  # hits whose following messages may be the answer
_BEHIND: Final = 16  # messages that are looked at for the answer; most are calls of tools
_ASKING_ANSWERS: Final = 4  # of these, what an agent said
_NEXT_WEIGHT: Final = 0.6
_OF_EACH: Final = 1_000  # characters of a message that tell what its session is about
# How likely the answer is in such a text; what has less than the full weight is never sure.
# A prompt says what is wrong, not why; a node says again what a message says better; a call is a
# file's text, and so is most of what it gives; a thought is what may come.
_OF_A_PROMPT: Final = 0.6
_OF_A_NODE: Final = 0.7
_TRUST: Final = {
    "note": 0.6,  # what a program put in front of a model
    "tool_call": 0.7,
    "tool_result": 0.9,
    "reasoning": 0.9,
}
_FEW: Final = 3  # quotations that may not answer the question
_NOTHING: Final = "No matches for this."
_WEAK: Final = "No certain answer; the closest passages:"


class Citation(msgspec.Struct, frozen=True):
    """A passage, word for word, and where it stands."""

    number: int  # [1] in the answer
    ref: str
    quote: str
    label: str  # who or what said it
    contract_ref: str  # as the contract's tools name it: shell-1, claude-5
    agent: str | None
    at: int | None
    day: str  # in the zone that was asked for, empty if unknown
    title: str
    open: str  # the command that opens it


class Answer(msgspec.Struct, frozen=True):
    """The answer to a question, with everything that it rests on."""

    question: str
    text: str
    confidence: Confidence
    citations: tuple[Citation, ...]
    by_model: bool = False
    notes: tuple[str, ...] = ()
    hits: tuple[Hit, ...] = ()  # everything that was found, the best first


def ask(
    memory: MemoryReader,
    question: str,
    within: Query = ANYTHING,
    *,
    nodes: NodeChoice = ANY_NODE,
    limit: int = 8,
    answer_with: Answering | None = None,
    zone: tzinfo = UTC,
) -> Answer:
    """Answer a question from what is remembered, with quotations that open at their place."""
    found = memory.recall(
        question, within, nodes=nodes, limit=max(limit, _LOOKED_INTO), fold="text"
    )
    texts, notes = _texts(memory, found)
    chosen = best_passages(question, [text for _, text in texts], limit)
    asked = {at for at, (hit, _) in enumerate(texts) if hit.role == "user"}
    chosen.sort(key=lambda one: (not one.is_sure, not one.is_likely, one.source in asked))
    confidence = confidence_of(question, chosen)
    if confidence == "weak":
        chosen = chosen[:_FEW]
    cited = tuple(
        _citation(number, texts[one.source][0], one.text, zone)
        for number, one in enumerate(chosen, 1)
    )
    answer = Answer(
        question=question,
        text=extractive(cited, confidence),
        confidence=confidence,
        citations=cited,
        notes=(*found.notes, *notes),
        hits=found.hits,
    )
    return answer if answer_with is None or not cited else _with_model(answer, answer_with)


def confidence_of(question: str, chosen: Sequence[ScoredPassage]) -> Confidence:
    """Judge passages: one must have much of the question, and say what it asks for."""
    if not chosen:
        return "none"
    enough = len(question_terms(question)) > 1 or len(chosen) > 1
    return "strong" if enough and any(one.is_sure for one in chosen) else "weak"


def extractive(cited: Sequence[Citation], confidence: Confidence) -> str:
    """Write the answer: quotations with their numbers, and whether they are to be trusted."""
    if not cited:
        return _NOTHING
    quotes = [f"“{one.quote}” [{one.number}]" for one in cited]
    return "\n".join(quotes if confidence == "strong" else [_WEAK, *quotes])


# ---------------------------------------------------------------------- inside

_Read = tuple[Hit, PassageSource]


def _texts(memory: MemoryReader, found: RecallResult) -> tuple[list[_Read], list[str]]:
    """Read the texts of the best hits, and of the messages that answer them."""
    read: dict[str, _Read] = {}
    notes: list[str] = []
    for place, hit in enumerate(found.hits[:_LOOKED_INTO]):
        behind = _BEHIND if place < _ANSWERED_BY_NEXT and hit.kind == "message" else 0
        opened = _open(memory, hit, notes, behind)
        if opened is None:
            continue
        read[hit.ref] = (hit, _own(opened))
        for answer in _answers(memory, opened, notes):
            said = PassageSource(answer.text, hit.score * _NEXT_WEIGHT)
            read.setdefault(answer.hit.ref, (answer.hit, said))
    return _with_sessions(list(read.values())), notes


def _with_sessions(read: Sequence[_Read]) -> list[_Read]:
    """Tell of each message what its session is about: a title, and what else was found in it."""
    about: dict[str, str] = {}
    for hit, text in read:
        if hit.session_id is not None:
            known = about.setdefault(hit.session_id, hit.title)
            about[hit.session_id] = f"{known}\n{text.text[:_OF_EACH]}"
    return [
        (hit, text if hit.session_id is None else text._replace(about=about[hit.session_id]))
        for hit, text in read
    ]


def _own(opened: HitDetail) -> PassageSource:
    """Return the text of a hit; of what was learned only how it ended, if that is told."""
    hit, text = opened.hit, opened.text
    if hit.kind == "node":
        told = text.partition(RESULT)[2]
        return PassageSource(told or text, hit.score, about=text, trust=_OF_A_NODE)
    usual = _OF_A_PROMPT if hit.role == "user" else 1.0
    return PassageSource(text, hit.score, trust=_TRUST.get(opened.facts.get("kind", ""), usual))


def _answers(memory: MemoryReader, asked: HitDetail, notes: list[str]) -> Iterator[HitDetail]:
    """Yield what an agent said right after something was said, up to the next prompt."""
    behind = takewhile(lambda one: one.role != "user", asked.after)
    said = [hit for hit in behind if hit.role == "assistant"]
    opened = (_open(memory, hit, notes, 0) for hit in said)
    texts = (one for one in opened if one is not None and one.facts.get("kind") != "tool_call")
    return islice(texts, _ASKING_ANSWERS)


def _open(memory: MemoryReader, hit: Hit, notes: list[str], around: int) -> HitDetail | None:
    try:
        return memory.open(hit.ref, around)
    except NotFound:  # forgotten a moment ago
        return None
    except ThreadkeepError as error:  # one damaged block does not hide the other sources
        notes.append(f"{hit.ref} cannot be read: {error.message}")
        return None


def _citation(number: int, hit: Hit, quote: str, zone: tzinfo) -> Citation:
    return Citation(
        number=number,
        ref=hit.ref,
        quote=quote,
        label=label_of(hit),
        contract_ref=hit.contract_ref,
        agent=hit.agent,
        at=hit.at,
        day=day_of(hit.at, zone),
        title=hit.title,
        open=f"threadkeep open {hit.ref}",
    )


def _with_model(answer: Answer, answer_with: Answering) -> Answer:
    """Let a model write the answer; if it cannot be trusted, the quotations stay."""
    passages = [Passage(one.ref, one.quote, _label(one)) for one in answer.citations]
    why = "the model gave no answer that the passages support"
    try:
        answered = answer_with(answer.question, passages)
    except ThreadkeepError as error:
        answered, why = None, str(error)
    if answered is None:
        notes = (*answer.notes, f"answered without a model: {why}")
        return msgspec.structs.replace(answer, notes=notes)
    dropped = tuple(f"left out, not supported: {one}" for one in answered.dropped)
    notes = (*answer.notes, *dropped)
    return msgspec.structs.replace(answer, text=answered.text, by_model=True, notes=notes)


def _label(one: Citation) -> str:
    return ", ".join(part for part in (one.label, one.day, one.title) if part)
