"""ask: an answer of quoted passages, each with the place it stands at; no word of it is made up.

A model may write the answer instead, from the same passages; what it cannot prove stays out, and
whatever goes wrong with it, the quoted passages stand.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, tzinfo
from itertools import takewhile
from typing import Final, Literal

import msgspec

from threadkeep.enrich.grounding import Answered, Passage
from threadkeep.errors import NotFound, ThreadkeepError
from threadkeep.recall.passages import Chosen, Text, best_passages, question_terms
from threadkeep.recall.records import Filters, Found, Hit, Opened
from threadkeep.recall.remembering import Remembering
from threadkeep.recall.wording import day_of, label_of

Confidence = Literal["strong", "weak", "none"]
Answering = Callable[[str, Sequence[Passage]], Answered | None]

_LOOKED_INTO: Final = 12  # hits whose texts are read
_ANSWERED_BY_NEXT: Final = 5  # hits whose following message may be the answer
_BEHIND: Final = 4  # messages that are looked at for the answer
_NEXT_WEIGHT: Final = 0.6
_NAMED_COVERAGE: Final = 0.4  # where the names in code are the same
_STRONG_COVERAGE: Final = 0.7  # of the question's words, by their weight
_NOTHING: Final = "Nothing was found about this."
_WEAK: Final = "Only weak evidence was found; it may not be about what you ask."


class Citation(msgspec.Struct, frozen=True):
    """A passage, word for word, and where it stands."""

    number: int  # [1] in the answer
    ref: str
    quote: str
    label: str  # who or what said it
    source: str
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
    memory: Remembering,
    question: str,
    filters: Filters = Filters(),  # noqa: B008  (a constant)
    *,
    limit: int = 8,
    answer_with: Answering | None = None,
    zone: tzinfo = UTC,
) -> Answer:
    """Answer a question from what is remembered, with quotations that open at their place."""
    found = memory.recall(question, filters, limit=max(limit, _LOOKED_INTO))
    texts, notes = _texts(memory, found)
    chosen = best_passages(question, [Text(text, weight) for _, text, weight in texts], limit)
    cited = tuple(
        _citation(number, texts[one.source][0], one.text, zone)
        for number, one in enumerate(chosen, 1)
    )
    confidence = confidence_of(question, chosen)
    answer = Answer(
        question=question,
        text=extractive(cited, confidence),
        confidence=confidence,
        citations=cited,
        notes=(*found.notes, *notes),
        hits=found.hits,
    )
    return answer if answer_with is None or not cited else _with_model(answer, answer_with)


def confidence_of(question: str, chosen: Sequence[Chosen]) -> Confidence:
    """Judge passages by how much of the question the best of them has."""
    if not chosen:
        return "none"
    enough = len(question_terms(question)) > 1 or len(chosen) > 1
    is_strong = any(
        one.coverage >= (_NAMED_COVERAGE if one.is_named else _STRONG_COVERAGE) for one in chosen
    )
    return "strong" if is_strong and enough else "weak"


def extractive(cited: Sequence[Citation], confidence: Confidence) -> str:
    """Write the answer: quotations with their numbers, and whether they are to be trusted."""
    if not cited:
        return _NOTHING
    quotes = [f"“{one.quote}” [{one.number}]" for one in cited]
    return "\n".join(quotes if confidence == "strong" else [_WEAK, *quotes])


# ---------------------------------------------------------------------- inside

_Read = tuple[Hit, str, float]


def _texts(memory: Remembering, found: Found) -> tuple[list[_Read], list[str]]:
    """Read the texts of the best hits, and of the messages that answer them."""
    read: list[_Read] = []
    notes: list[str] = []
    refs: set[str] = set()
    for place, hit in enumerate(found.hits[:_LOOKED_INTO]):
        opened = _open(memory, hit, notes, _BEHIND if place < _ANSWERED_BY_NEXT else 0)
        if opened is None:
            continue
        read.append((hit, opened.text, hit.score))
        refs.add(hit.ref)
        if hit.role == "user" and place < _ANSWERED_BY_NEXT:
            answers = _answers(memory, opened, refs, notes)
            read += [(one.hit, one.text, hit.score * _NEXT_WEIGHT) for one in answers]
    return read, notes


def _answers(
    memory: Remembering, asked: Opened, refs: set[str], notes: list[str]
) -> Iterator[Opened]:
    """Yield what an agent said right after something was asked."""
    for hit in takewhile(lambda one: one.role != "user", asked.after):
        if hit.role == "assistant" and hit.ref not in refs:
            refs.add(hit.ref)
            answer = _open(memory, hit, notes, 0)
            if answer is not None:
                yield answer


def _open(memory: Remembering, hit: Hit, notes: list[str], around: int) -> Opened | None:
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
        source=hit.source,
        at=hit.at,
        day=day_of(hit.at, zone),
        title=hit.title,
        open=f"threadkeep open {hit.ref}",
    )


def _with_model(answer: Answer, answer_with: Answering) -> Answer:
    """Let a model write the answer; if it cannot be trusted, the quotations stay."""
    passages = [Passage(one.ref, one.quote, _label(one)) for one in answer.citations]
    why = "the model gave no answer that the passages bear out"
    try:
        answered = answer_with(answer.question, passages)
    except ThreadkeepError as error:
        answered, why = None, str(error)
    if answered is None:
        notes = (*answer.notes, f"answered without a model: {why}")
        return msgspec.structs.replace(answer, notes=notes)
    dropped = tuple(f"left out, not borne out: {one}" for one in answered.dropped)
    notes = (*answer.notes, *dropped)
    return msgspec.structs.replace(answer, text=answered.text, by_model=True, notes=notes)


def _label(one: Citation) -> str:
    return ", ".join(part for part in (one.label, one.day, one.title) if part)
