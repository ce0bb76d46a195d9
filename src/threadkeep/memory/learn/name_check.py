"""Nothing is claimed that the source does not say: names that do not stand in it are dropped."""

import re
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from threadkeep.knowledge.records import Mentions, NodeDraft
from threadkeep.memory.learn.text_cleaning import one_line, plain, words

PER_TYPE: Final = 20
TAGS: Final = 20
EMBED_LIMIT: Final = 2_000
_NAME_LIMIT: Final = 200
_EDGES: Final = " \t\r\n,;()[]{}<>\"'`!?"
_MASK: Final = re.compile(r"REDACTED|\[PRIVATE|PRIVATE\]|<redacted|\*{4}")
# Words that models and rough patterns give for names.
_NO_NAMES: Final = words(
    "a an and are as at be but by code command commands data directory error errors false file"
    " files folder for from function has have in into is it its module n/a na nil no none not null"
    " of on or other output path private project result script system test tests that the this to"
    " tool tools true undefined unknown unnamed user was with yes ... … / . .. ~ -"
)
_CODE_SIGN: Final = re.compile(r"[\d_/\\.:=$#@<>{}()\[\]+*%&|~^]|--|(?<=[a-z])[A-Z]|[A-Z]{2}|\w-\w")


def verbatim(draft: NodeDraft, source: str) -> NodeDraft:
    """Drop every name, tag and search word of a draft that does not stand in its source.

    What is left may have an empty `embed_text`: then nothing of it was in the source.
    """
    stands = _standing_in(source)
    found = {
        field: _names(getattr(draft.entities, field), stands)
        for field in Mentions.__struct_fields__
    }
    given = (
        name for field in Mentions.__struct_fields__ for name in getattr(draft.entities, field)
    )
    made_up = {name for name in map(_tidy, given) if name and not stands(name)}
    embed = " ".join(word for word in _words(draft.embed_text, stands) if word not in made_up)
    return msgspec.structs.replace(
        draft,
        entities=Mentions(**found),
        tags=_tags(draft.tags, stands),
        embed_text=embed or " ".join(_words(f"{draft.intent} {draft.summary}", stands)),
    )


def occurs(name: str, source: str) -> bool:
    """Tell whether a name stands in a text as a whole: not as a part of a longer word."""
    at = source.find(name)
    while at >= 0:
        end = at + len(name)
        before = at == 0 or not _joins(source[at - 1], name[0])
        after = end == len(source) or not _joins(source[end], name[-1])
        if before and after:
            return True
        at = source.find(name, at + 1)
    return False


def is_code_like(token: str) -> bool:
    """Tell whether a word looks like an identifier, a path, a flag, a version or a code."""
    return _CODE_SIGN.search(token) is not None or token.startswith("-")


def is_name(name: str) -> bool:
    """Tell whether something may be the name of an entity at all."""
    return (
        1 < len(name) <= _NAME_LIMIT
        and name.lower() not in _NO_NAMES
        and any(character.isalnum() for character in name)
        and not _MASK.search(name)
    )


def _joins(outer: str, inner: str) -> bool:
    return (outer.isalnum() or outer == "_") and (inner.isalnum() or inner == "_")


def _standing_in(source: str) -> Callable[[str], bool]:
    """Return the check for one source; it remembers, as one name is asked for several times."""
    known: dict[str, bool] = {}

    def stands(name: str) -> bool:
        if name not in known:
            known[name] = occurs(name, source)
        return known[name]

    return stands


def _names(given: Iterable[str], stands: Callable[[str], bool]) -> tuple[str, ...]:
    kept: dict[str, None] = {}
    for name in map(_tidy, given):
        if len(kept) < PER_TYPE and name not in kept and is_name(name) and stands(name):
            kept[name] = None
    return tuple(kept)


def _tags(given: Iterable[str], stands: Callable[[str], bool]) -> tuple[str, ...]:
    kept: dict[str, None] = {}
    for tag in map(_tidy, given):
        if len(kept) < TAGS and is_name(tag) and all(map(_allowed(stands), tag.split())):
            kept[tag] = None
    return tuple(kept)


def _allowed(stands: Callable[[str], bool]) -> Callable[[str], bool]:
    return lambda token: not is_code_like(token) or stands(token)


def _tidy(name: str) -> str:
    return one_line(plain(name, _NAME_LIMIT * 4)).strip(_EDGES)


def _words(text: str, stands: Callable[[str], bool]) -> list[str]:
    """Return the words of a text that may be searched for, each once if it looks like code."""
    kept: list[str] = []
    seen: set[str] = set()
    room = EMBED_LIMIT
    line = one_line(plain(text, EMBED_LIMIT * 8))
    is_masked = _MASK.search(line) is not None
    for raw in line.split(" "):
        word = _trimmed(raw)
        coded = is_code_like(word)
        if not word or (coded and (word in seen or not stands(word))):
            continue
        if is_masked and _MASK.search(raw):
            continue
        if len(word) >= room:
            break
        room -= len(word) + 1
        seen.add(word)
        kept.append(word)
    return kept


def _trimmed(raw: str) -> str:
    return raw.lstrip(_EDGES).rstrip(_EDGES + ".:")
