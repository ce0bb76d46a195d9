"""Sentences in which somebody decided something, word for word."""

import re
from collections.abc import Iterable
from typing import Final

from threadkeep.knowledge.records import Decision
from threadkeep.memory.learn.text_cleaning import sentences

_SHORTEST: Final = 25
_LONGEST: Final = 320
_LONGEST_TEXT: Final = 3_000
_DECIDED: Final = re.compile(
    r"^(?:Decided|Decision|Chosen): |\b(?:[Dd]ecided (?:to|on|that|against)|going with|went with"
    r"|chose|opt(?:ed)? for|agreed"
    r"|(?:I|we)(?:['’]ll| will| should) (?:go with|use|keep|switch to|avoid|stick with|drop)"
    r"|[Ll]et['’]s (?:go with|use|keep|switch to|drop|not|do)|[Ww]e prefer|I prefer"
    r"|the right (?:approach|fix|call)|out of scope|won['’]t (?:need|use|do))\b"
)
_LABELS: Final = ("Decided: ", "Decision: ", "Chosen: ")
_COMPARED: Final = ("instead of", "rather than")
_DOING: Final = re.compile(
    r"\b(?:[Uu]s(?:e|ing)|[Kk]eep(?:ing)?|[Aa]dd(?:ing)?|I['’]m|[Ww]e|[Ll]et['’]s)\b"
)
# All three must be named in one sentence; anything less is a guess.
_WEIGHED: Final = re.compile(
    r"\b(?:use|used|using|chose|choose|picked|go with|going with|went with|switch(?:ed|ing)? to"
    r"|keep|prefer) (?P<chosen>[^.;:\n]{3,100}?),? (?:instead of|rather than|over)"
    r" (?P<considered>[^.;:\n]{3,100}?)(?:,| —| –| -)? (?:because|since|so that|as it|so)"
    r" (?P<reason>[^\n]{8,200})",
    re.IGNORECASE,
)


def telling_sentences(texts: Iterable[str]) -> list[str]:
    """Return the sentences that tell of a decision, as they stand, each once."""
    found: dict[str, None] = {}
    for text in texts:
        # A prompt of several pages is a guide that somebody wrote for many sessions.
        if len(text) <= _LONGEST_TEXT and _may_tell(text):
            fitting = (one for one in sentences(text) if _SHORTEST <= len(one) <= _LONGEST)
            found.update((one, None) for one in fitting if _tells(one))
    return list(found)


def _may_tell(text: str) -> bool:
    return any(words in text for words in (*_COMPARED, *_LABELS)) or bool(_DECIDED.search(text))


def _tells(sentence: str) -> bool:
    at = min((sentence.find(words) for words in _COMPARED if words in sentence), default=0)
    # What is done stands before what it is done instead of.
    decided = _DECIDED.search(sentence) or _DOING.search(sentence[:at])
    return bool(decided) and not sentence.endswith("?")


def weighed_in(telling: Iterable[str], limit: int = 4) -> tuple[Decision, ...]:
    """Return the decisions whose sentence names what was chosen, what else, and why."""
    found = []
    for match in filter(None, map(_WEIGHED.search, telling)):
        parts = {name: text.strip(" ,*`") for name, text in match.groupdict().items()}
        found.append(Decision(parts["considered"], parts["chosen"], parts["reason"].rstrip(".")))
    return tuple(found[:limit])
