"""Windows of a transcript: some consecutive blocks, read from the archive where they stand."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from threadkeep.base.fts import match_query, snippet_of_match
from threadkeep.base.tx import Tx
from threadkeep.browse.outlines import Outline, Prompt, branches_at
from threadkeep.browse.records import Block, Spot, Window
from threadkeep.capture.archived import ArchivedEntries
from threadkeep.errors import NotFound
from threadkeep.knowledge.copies import COPY
from threadkeep.knowledge.reading import CapturedSession
from threadkeep.knowledge.records import Entry

MOST_IN_A_WINDOW: Final = 1_000
_WIDTH: Final = 160
_BEFORE: Final = 40  # characters before what was found, so that it is seen in its line


def span(
    total: int, at: int | None, before: int | None, after: int | None, limit: int
) -> tuple[int, int]:
    """Choose the positions of a window: around one, before one, after one, or from the start.

    `before` and `after` are positions that are no part of the window.
    """
    size = max(1, min(limit, MOST_IN_A_WINDOW))
    if at is not None:
        start = max(0, min(at - size // 2, total - size))
    elif before is not None:
        end = max(0, min(before, total))
        return max(0, end - size), end
    else:
        start = 0 if after is None else max(0, after + 1)
    return min(start, total), min(start + size, total)


def read_window(
    archive: ArchivedEntries, outline: Outline, part: tuple[int, int], prompts: Sequence[Prompt]
) -> Window:
    """Read the blocks from one position up to another.

    Branches are those among `prompts`; where none are given, those among the blocks themselves.
    """
    entries = {position: archive.entry(outline.entry(position)) for position in range(*part)}
    known = dict(zip(outline.starts, (one.parent for one in prompts), strict=False))
    if not prompts:
        inside = (position for position in outline.starts if position in entries)
        known = {one: entry.parent for one in inside if (entry := entries[one]) is not None}
    branches = branches_at(outline, known)
    blocks = (make_block(outline, at, entry, branches) for at, entry in entries.items())
    return Window(tuple(blocks), outline.total)


def make_block(
    outline: Outline, position: int, entry: Entry | None, branches: Mapping[int, int]
) -> Block:
    """Put together a block; of an entry whose text is gone its row alone is told."""
    row = outline.entry(position)
    known = entry or Entry(row.key, "system", "note", row.at, "")
    return Block(
        position=position,
        ref=f"message:{row.id}",
        key=row.key,
        role=row.role,
        kind=known.kind if row.kind == COPY else row.kind,
        at=row.at,
        text=known.text,
        tool=row.tool or known.tool,
        call_id=known.call_id,
        error=row.error,
        model=known.model,
        input=known.input,
        images=tuple(known.images),
        copied=row.kind == COPY,
        branches=branches.get(position, 0),
        turn=outline.turn_of(position),
    )


def position_in(outline: Outline, session: CapturedSession, at: str | int | None) -> int | None:
    """Give the position that is meant by a number, a key, or a name like `message:12`."""
    if at is None:
        return None
    if isinstance(at, int):
        return max(0, min(at, outline.total - 1))
    found = outline.position_of(at)
    if found is None:
        msg = f"there is no message {at!r} in {session.harness}:{session.session_id}"
        raise NotFound(msg, hint="it may have changed since; open the session without it")
    return found


# ---------------------------------------------------------------------- finding in one session


def read_texts(archive: ArchivedEntries, outline: Outline) -> Iterator[str]:
    """Read the texts of all entries of a session, one by one."""
    return (archive.text(outline.entry(position)) for position in range(outline.total))


def find_in(
    tx: Tx, session: CapturedSession, outline: Outline, texts: Iterable[str], words: str, limit: int
) -> list[Spot]:
    """Find words in one session, in its order: as they are typed, or as words of the index."""
    literally = finder_of(words)
    indexed = _indexed(tx, session, outline, words)
    spots: list[Spot] = []
    for position, text in enumerate(texts):
        found = literally(text)
        cut = _around(text, *found.span()) if found else None
        if cut is None and outline.number(position) in indexed:
            cut = snippet_of_match(text, words, _WIDTH)
        if cut is not None:
            row = outline.entry(position)
            spots.append(Spot(position, row.key, row.kind, cut))
            if len(spots) >= limit:
                break
    return spots


def finder_of(words: str) -> Callable[[str], re.Match[str] | None]:
    """Give a function that finds words in a text as they are typed, but for case and spaces."""
    typed = words.split()
    pattern = re.compile(r"\s+".join(map(re.escape, typed)), re.IGNORECASE)
    longest = max(typed, key=len).lower()
    plain = longest.isascii()

    def find(text: str) -> re.Match[str] | None:
        # Most texts lack the word, and a plain look is cheap. Other letters fold in other ways.
        if plain and text.isascii() and longest not in text.lower():
            return None
        return pattern.search(text)

    return find


def _indexed(tx: Tx, session: CapturedSession, outline: Outline, words: str) -> frozenset[int]:
    match = match_query(words)
    ids = outline.numbers()
    if match is None or not ids:
        return frozenset()
    span_ = {"first": min(ids), "last": max(ids), "limit": len(ids)}
    rows = tx.all("browse_matches_within", {"match": match, "session": session.id, **span_})
    return frozenset(row[0] for row in rows)


def _around(text: str, at: int, to: int) -> str:
    """Cut a text around a place and mark it."""
    start, end = max(0, at - _BEFORE), min(len(text), to + _WIDTH)
    marked = f"{text[start:at]}>>>{text[at:to]}<<<{text[to:end]}"
    return f"{'...' if start else ''}{marked}{'...' if end < len(text) else ''}"
