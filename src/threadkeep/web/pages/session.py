"""One session: its transcript in windows, what stands around it, and finding in it."""

from typing import Final

import msgspec

from threadkeep.errors import NotFound
from threadkeep.knowledge.results import Block, SessionDetail, SessionSummary, Spot, TurnSum, Window
from threadkeep.web.markup import anchor
from threadkeep.web.page import SitePage, SiteRequest

_BLOCKS: Final = 100
_MOST_BLOCKS: Final = 500
_SPOTS: Final = 200
_THE_END: Final = 1 << 60


class SessionShown(msgspec.Struct, frozen=True):
    """What the page of a session shows."""

    title: str
    ref: str
    detail: SessionDetail
    window: Window
    target: str  # the anchor of the block that was asked for
    raw: bool
    words: str = ""
    spots: tuple[Spot, ...] = ()


class Blocks(msgspec.Struct, frozen=True):
    """Some more blocks of a session."""

    ref: str
    window: Window
    children: tuple[SessionSummary, ...]
    raw: bool


class SessionTurns(msgspec.Struct, frozen=True):
    """The turns of a session."""

    ref: str
    turns: tuple[TurnSum, ...]


class OneBlock(msgspec.Struct, frozen=True):
    """One block, whole."""

    ref: str
    block: Block
    raw: bool


class SessionSpots(msgspec.Struct, frozen=True):
    """Where words stand in a session."""

    ref: str
    words: str
    spots: tuple[Spot, ...]


def load(visit: SiteRequest) -> SessionShown:
    """Read a session, and the window of it that the address asks for."""
    detail = visit.stores.browse().session(visit.path["ref"])
    at = visit.query.get("at")
    words = visit.query.get("words", "")
    return SessionShown(
        title=detail.listed.session.name[:120],
        ref=detail.listed.ref,
        detail=detail,
        window=_window(visit, detail.listed.ref),
        target=anchor(at) if at else "",
        raw=_raw(visit),
        words=words,
        spots=_spots(visit, detail.listed.ref, words),
    )


def load_blocks(visit: SiteRequest) -> Blocks:
    """Read a further window of a session; who knows that it started others says so."""
    ref = visit.path["ref"]
    children = visit.stores.browse().session(ref).children if "kids" in visit.query else ()
    return Blocks(ref, _window(visit, ref), children, _raw(visit))


def load_turns(visit: SiteRequest) -> SessionTurns:
    """Read the turns of a session."""
    detail = visit.stores.browse().session(visit.path["ref"])
    return SessionTurns(detail.listed.ref, detail.turns)


def load_block(visit: SiteRequest) -> OneBlock:
    """Read one block."""
    ref, at = visit.path["ref"], visit.query.get("at", "")
    window = visit.stores.browse().window(ref, at=at, limit=1)
    if not window.blocks:
        raise NotFound(f"there is no message {at!r} in {ref}", hint="open the session without it")
    return OneBlock(ref, window.blocks[0], _raw(visit))


def load_found(visit: SiteRequest) -> SessionSpots:
    """Find words in a session."""
    ref, words = visit.path["ref"], visit.query.get("words", "")
    return SessionSpots(ref, words, _spots(visit, ref, words))


def _spots(visit: SiteRequest, ref: str, words: str) -> tuple[Spot, ...]:
    return tuple(visit.stores.browse().find(ref, words, _SPOTS)) if words.strip() else ()


def _window(visit: SiteRequest, ref: str) -> Window:
    limit = visit.number("limit", _BLOCKS, _MOST_BLOCKS) or 1
    browse = visit.stores.browse()
    at = visit.query.get("at")
    if at:
        return browse.window(ref, at=at, limit=limit)
    if "end" in visit.query:
        return browse.window(ref, before=_THE_END, limit=limit)
    if "before" in visit.query:
        return browse.window(ref, before=visit.number("before", 0, _THE_END), limit=limit)
    if "after" in visit.query:
        return browse.window(ref, after=visit.number("after", 0, _THE_END), limit=limit)
    return browse.window(ref, limit=limit)


def _raw(visit: SiteRequest) -> bool:
    return visit.query.get("raw") == "1"


PAGES: Final = (
    SitePage(
        "/sessions/{ref:path}/blocks", "session_blocks.html", load_blocks, "Messages", kept=True
    ),
    SitePage("/sessions/{ref:path}/block", "session_block.html", load_block, "Message", kept=True),
    SitePage("/sessions/{ref:path}/turns", "session_turns.html", load_turns, "Turns", kept=True),
    SitePage("/sessions/{ref:path}/find", "session_find.html", load_found, "Find", kept=True),
    SitePage("/sessions/{ref:path}", "session.html", load, "Session", kept=True),
)
