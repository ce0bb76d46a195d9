"""Other views of sessions: the turns and tool calls of one over time, and two side by side."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from threadkeep.errors import Invalid
from threadkeep.knowledge.results import SessionDetail, TranscriptMessage, TurnSum
from threadkeep.web.messages import headline
from threadkeep.web.page import SitePage, SiteRequest
from threadkeep.web.renderer import all_messages

_MOST: Final = 5_000  # messages that are drawn
_SHORTEST: Final = 0.3  # percent: what took no time at all is seen, too
_TOOLS: Final = 12
_PROMPTS: Final = 40
_ANSWER: Final = 2_000
_NOTE: Final = 160  # characters of what a call was asked


class Span(msgspec.Struct, frozen=True):
    """Something that took a while: where it stands on the time of the session, in percent."""

    name: str
    note: str
    key: str
    begin: float
    width: float
    took: int  # milliseconds
    failed: bool = False


class WaterfallTurn(msgspec.Struct, frozen=True):
    """One turn with its tool calls, on the time that the session worked."""

    turn: TurnSum
    span: Span
    tokens: int
    token_width: float  # of the turn with the most, in percent
    calls: tuple[Span, ...]


class WaterfallPage(msgspec.Struct, frozen=True):
    """A session over time."""

    title: str
    ref: str
    detail: SessionDetail
    turns: tuple[WaterfallTurn, ...]
    worked: int  # milliseconds, without the time between turns
    cut: bool


class ComparedSession(msgspec.Struct, frozen=True):
    """One of two sessions."""

    detail: SessionDetail
    took: int | None
    tools: tuple[tuple[str, int], ...]
    prompts: tuple[str, ...]
    answer: str  # the last thing that was answered


class ComparePage(msgspec.Struct, frozen=True):
    """Two sessions side by side."""

    left: ComparedSession
    right: ComparedSession


def show_waterfall(visit: SiteRequest) -> WaterfallPage:
    """Lay a session's turns and tool calls out over time."""
    browse = visit.stores.browse()
    detail = browse.session(visit.path["ref"])
    read = list(islice(all_messages(browse, detail.listed.ref), _MOST + 1))
    turns, worked = waterfall(detail.turns, read[:_MOST])
    name = detail.listed.session.name[:120]
    ref = detail.listed.ref
    return WaterfallPage(f"Waterfall of {name}", ref, detail, turns, worked, len(read) > _MOST)


def compare(visit: SiteRequest) -> ComparePage:
    """Put two sessions side by side."""
    left, right = (visit.query.get(side, "").strip() for side in ("left", "right"))
    if not left or not right:
        hint = "check two in the list of sessions, or give ?left=…&right=…"
        raise Invalid("two sessions are needed to compare them", hint=hint)
    return ComparePage(_side(visit, left), _side(visit, right))


def _side(visit: SiteRequest, ref: str) -> ComparedSession:
    browse = visit.stores.browse()
    detail = browse.session(ref)
    session = detail.listed.session
    tools: Counter[str] = Counter()
    answer = ""
    for message in islice(all_messages(browse, detail.listed.ref), _MOST):
        if message.part == "tool_call":
            tools[message.tool or "tool"] += 1
        elif message.part == "text":
            answer = message.text
    known = session.started_at is not None and session.ended_at is not None
    took = (session.ended_at or 0) - (session.started_at or 0) if known else None
    prompts = tuple(turn.prompt for turn in detail.turns[:_PROMPTS])
    return ComparedSession(
        detail, took, tuple(tools.most_common(_TOOLS)), prompts, answer[:_ANSWER]
    )


# ---------------------------------------------------------------------- pure


def waterfall(
    turns: Sequence[TurnSum], messages: Iterable[TranscriptMessage]
) -> tuple[tuple[WaterfallTurn, ...], int]:
    """Lay turns one behind the other, without the time between them; give how long they took."""
    took = [_took(turn) for turn in turns]
    whole = max(1, sum(took))
    most = max((_tokens(turn) for turn in turns), default=0) or 1
    calls: dict[int, list[tuple[TranscriptMessage, int, bool]]] = {}
    for call, ended, failed in paired(messages):
        calls.setdefault(call.turn, []).append((call, ended, failed))
    found, before = [], 0
    for turn, long in zip(turns, took, strict=True):
        inside = _Place(turn.at or 0, before, long, whole)
        spans = (_call_span(inside, *one) for one in calls.get(turn.turn, ()))
        span = _span(turn.prompt, "", turn.key, before, long, whole)
        tokens = _tokens(turn)
        found.append(WaterfallTurn(turn, span, tokens, 100 * tokens / most, tuple(spans)))
        before += long
    return tuple(found), sum(took)


def paired(
    messages: Iterable[TranscriptMessage],
) -> Iterator[tuple[TranscriptMessage, int, bool]]:
    """Yield each tool call with the time of its result, and whether that failed."""
    calls: dict[str, TranscriptMessage] = {}
    for message in messages:
        if message.part == "tool_call" and message.at is not None:
            calls[message.call_id or message.key] = message
        elif message.part == "tool_result" and message.at is not None:
            call = calls.pop(message.call_id or message.key, None)
            if call is not None:
                yield call, message.at, message.error
    for call in calls.values():
        yield call, call.at or 0, False


class _Place(NamedTuple):
    """Where a turn stands."""

    at: int
    before: int  # what the turns before it took
    long: int
    whole: int


def _call_span(turn: _Place, call: TranscriptMessage, ended: int, failed: bool) -> Span:  # noqa: FBT001
    at = call.at or 0
    began = max(0, min(turn.long, at - turn.at))
    took = max(0, min(ended - at, turn.long - began))
    note = headline(call.input, call.text)[:_NOTE]
    span = _span(call.tool or "tool", note, call.key, turn.before + began, took, turn.whole)
    return msgspec.structs.replace(span, failed=failed)


def _span(name: str, note: str, key: str, begin: int, took: int, whole: int) -> Span:
    width = max(_SHORTEST, 100 * took / whole)
    return Span(name, note, key, min(100 * begin / whole, 100 - width), width, took)


def _took(turn: TurnSum) -> int:
    return 0 if turn.at is None or turn.ended_at is None else max(0, turn.ended_at - turn.at)


def _tokens(turn: TurnSum) -> int:
    return turn.input + turn.output + turn.cache_read + turn.cache_write


PAGES: Final = (
    SitePage("/sessions/{ref:path}/waterfall", "waterfall.html", show_waterfall, kept=True),
    SitePage("/compare", "compare.html", compare, "Compare", kept=True),
)
