"""Windows of a transcript: some consecutive blocks, read from the archive where they stand."""

from collections.abc import Mapping
from typing import Final

from threadkeep.base.fts import match_query, snippet_of_match
from threadkeep.base.sqlite import Tx
from threadkeep.browse.outlines import Outline
from threadkeep.browse.records import Block, Spot, Window
from threadkeep.capture.archived import ArchivedEntries
from threadkeep.capture.transcripts import Sources
from threadkeep.errors import NotFound
from threadkeep.knowledge.reading import EntryRow, Session
from threadkeep.sources.records import Entry

MOST_IN_A_WINDOW: Final = 1_000
_WIDTH: Final = 160
_MOST_CHARACTERS: Final = 40  # of text before a match, so that it is seen in its line


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
    archive: ArchivedEntries, outline: Outline, branches: Mapping[int, int], part: tuple[int, int]
) -> Window:
    """Read the blocks from one position up to another."""
    blocks = tuple(
        make_block(outline, position, archive.entry(outline.rows[position]), branches)
        for position in range(*part)
    )
    return Window(blocks, len(outline.rows))


def make_block(
    outline: Outline, position: int, entry: Entry | None, branches: Mapping[int, int]
) -> Block:
    """Put together a block; of an entry whose text is gone its row alone is told."""
    row = outline.rows[position]
    known = entry or Entry(row.key, "system", "note", row.at, "")
    return Block(
        position=position,
        ref=f"message:{row.id}",
        key=row.key,
        role=row.role,
        kind=row.kind,
        at=row.at,
        text=known.text,
        tool=row.tool or known.tool,
        call_id=known.call_id,
        error=row.error,
        model=known.model,
        input=known.input,
        images=tuple(known.images),
        branches=branches.get(position, 0),
        turn=outline.turn_of(position),
    )


def position_in(outline: Outline, session: Session, at: str | int | None) -> int | None:
    """Give the position that is meant by a number, a key, or a name like `message:12`."""
    if at is None:
        return None
    if isinstance(at, int):
        return max(0, min(at, len(outline.rows) - 1))
    found = outline.position_of(at)
    if found is None:
        msg = f"there is no message {at!r} in {session.harness}:{session.session_id}"
        raise NotFound(msg, hint="it may have changed since; open the session without it")
    return found


# ---------------------------------------------------------------------- finding in one session


def find_in(
    tx: Tx, sources: Sources, session: Session, outline: Outline, words: str, limit: int
) -> list[Spot]:
    """Find words in one session, in its order: as they are typed, or as words of the index."""
    wanted = " ".join(words.split()).casefold()
    if not wanted or limit < 1:
        return []
    indexed = _indexed(tx, session, outline, words)
    archive = ArchivedEntries(tx, sources)
    spots: list[Spot] = []
    for position, row in enumerate(outline.rows):
        spot = _spot(archive, position, row, (words, wanted), likely=row.id in indexed)
        if spot is not None:
            spots.append(spot)
            if len(spots) >= limit:
                break
    return spots


def _indexed(tx: Tx, session: Session, outline: Outline, words: str) -> frozenset[int]:
    match = match_query(words)
    if match is None or not outline.rows:
        return frozenset()
    ids = [row.id for row in outline.rows]
    span_ = {"first": min(ids), "last": max(ids), "limit": len(ids)}
    rows = tx.all("browse_matches_within", {"match": match, "session": session.id, **span_})
    return frozenset(row[0] for row in rows)


def _spot(
    archive: ArchivedEntries, position: int, row: EntryRow, asked: tuple[str, str], *, likely: bool
) -> Spot | None:
    words, wanted = asked
    text = archive.text(row)
    at = text.casefold().find(wanted)
    if at < 0 and not likely:
        return None
    cut = _around(text, at, len(wanted)) if at >= 0 else snippet_of_match(text, words, _WIDTH)
    return None if cut is None else Spot(position, row.key, row.kind, cut)


def _around(text: str, at: int, length: int) -> str:
    """Cut a text around a place and mark it; folding case may have moved it by a little."""
    start, end = max(0, at - _MOST_CHARACTERS), min(len(text), at + length + _WIDTH)
    marked = f"{text[start:at]}>>>{text[at : at + length]}<<<{text[at + length : end]}"
    return f"{'...' if start else ''}{marked}{'...' if end < len(text) else ''}"
