"""What two sessions have in common, turn by turn, and where they part.

A turn is a user message and what follows it until the next one. Turns are found again by their
content, not by their ids, so a fork shows the part it shares with its parent as the same. Ids,
what providers add, and the bookkeeping of queue and rewind are no content.
"""

import difflib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeVar

import msgspec

from threadkeep.base import json
from threadkeep.base.text import printable
from threadkeep.base.tx import Tx
from threadkeep.chat.context import ChatContext
from threadkeep.chat.records import Json, SessionRef, ref_id, without_keys
from threadkeep.chat.rows import need_session
from threadkeep.chat.views import COMPACTION, View, check_view, load, select

Status = Literal["same", "changed", "left", "right"]
T = TypeVar("T")
Pair = tuple[int | None, int | None]

_PREVIEW = 80
_LONGEST_TEXT = 1_000_000
_NO_CONTENT = frozenset(
    {"toolCallId", "providerMetadata", "callProviderMetadata", "resultProviderMetadata"}
)
_BOOKKEEPING = ("hidden_at", "queued_at", "queue_enqueued_at", "queue_canceled_at")


class FieldChange(msgspec.Struct, frozen=True):
    """A field that differs; `diff` is a unified diff where both sides are text."""

    name: str
    left: Any
    right: Any
    diff: str | None = None


class PartDiff(msgspec.Struct, frozen=True):
    """A part that is on one side only, or differs; positions count from 0 within the message."""

    status: Status
    type: str
    left: int | None
    right: int | None
    preview: str
    fields: list[FieldChange] = msgspec.field(default_factory=list)


class MessageDiff(msgspec.Struct, frozen=True):
    """A message that is on one side only, or differs: role, model, usage, metadata, parts."""

    status: Status
    role: str
    left: str | None
    right: str | None
    fields: list[FieldChange] = msgspec.field(default_factory=list)
    parts: list[PartDiff] = msgspec.field(default_factory=list)


class TurnDiff(msgspec.Struct, frozen=True):
    """A turn of either side; turns are numbered from 1, 0 is what came before any user message."""

    status: Status
    left: int | None
    right: int | None
    preview: str
    messages: list[MessageDiff] = msgspec.field(default_factory=list)


class SessionDiff(msgspec.Struct, frozen=True):
    """Two sessions compared by turn."""

    left: str
    right: str
    turns: list[TurnDiff]

    @property
    def same(self) -> bool:
        """Tell whether no turn differs."""
        return all(turn.status == "same" for turn in self.turns)

    @property
    def counts(self) -> dict[str, int]:
        """How many turns there are of each status."""
        found = [turn.status for turn in self.turns]
        return {status: found.count(status) for status in ("same", "changed", "left", "right")}


def diff(
    _ctx: ChatContext, tx: Tx, left: SessionRef, right: SessionRef, view: View = "transcript"
) -> SessionDiff:
    """Compare two sessions by turn, as a view shows them."""
    check_view(view)
    ids = [need_session(tx, ref_id(session, "session")).id for session in (left, right)]
    first, second = (select(load(tx, session_id), view) for session_id in ids)
    return SessionDiff(ids[0], ids[1], diff_messages(first, second))


def diff_messages(left: list[Json], right: list[Json]) -> list[TurnDiff]:
    """Compare two lists of AI SDK messages by turn.

    Turns that differ but stand at the same place between equal ones are compared with each other.
    """
    ours, theirs = split_turns(left), split_turns(right)
    pairs = align(
        [[_content(message) for message in turn.messages] for turn in ours],
        [[_content(message) for message in turn.messages] for turn in theirs],
        question,
        pair_rest=True,
    )
    return [
        _turn(None if i is None else ours[i], None if j is None else theirs[j]) for i, j in pairs
    ]


class TurnMessages(msgspec.Struct, frozen=True):
    """A user message and what follows it; number 0 has no user message."""

    number: int
    messages: list[Json]


def split_turns(messages: Sequence[Json]) -> list[TurnMessages]:
    """Cut a conversation into turns: each user message begins one."""
    turns: list[TurnMessages] = []
    for message in messages:
        if message["role"] == "user" or not turns:
            number = turns[-1].number + 1 if turns else int(message["role"] == "user")
            turns.append(TurnMessages(number, []))
        turns[-1].messages.append(message)
    return turns


def question(turn: list[Json]) -> Any:
    """Return what a turn began with, by which two different answers to it are found."""
    return [turn[0]["role"], turn[0]["parts"]]


# ---------------------------------------------------------------------- content


def _content(message: Json) -> Json:
    """Leave of a message what a person would call its content."""
    return {
        "role": message["role"],
        "metadata": without_keys(message.get("metadata") or {}, *_BOOKKEEPING),
        "parts": [_part_content(part) for part in message["parts"]],
    }


def _part_content(part: Json) -> Json:
    kept = {name: value for name, value in part.items() if name not in _NO_CONTENT}
    if part.get("type") in ("text", "reasoning"):
        kept.pop("id", None)
        if kept.get("state") == "done":  # a text without a state is finished as well
            del kept["state"]
    if part.get("type") == COMPACTION and isinstance(kept.get("data"), dict):
        # It points at a message; the same tail has other ids in a fork.
        kept["data"] = without_keys(kept["data"], "tail_start_id")
    return kept


def _key(value: Any) -> str:
    """Write a value so that equal ones are equal text, whatever the order of their keys."""
    return json.encode(_sorted(value))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


# ---------------------------------------------------------------------- alignment


def align(
    left: Sequence[T], right: Sequence[T], kind: Callable[[T], Any], *, pair_rest: bool
) -> list[Pair]:
    """Pair the items of two lists in order: equal ones first, then those of the same kind.

    With `pair_rest` what then still faces each other is paired too. The sides may be swapped:
    difflib prefers one, so the smaller list always takes its first place.
    """
    ours, theirs = [_key(item) for item in left], [_key(item) for item in right]
    kinds = [_key(kind(item)) for item in left], [_key(kind(item)) for item in right]
    if ours > theirs:
        swapped = _aligned(theirs, ours, (kinds[1], kinds[0]), pair_rest=pair_rest)
        return _left_first([(i, j) for j, i in swapped])
    return _left_first(_aligned(ours, theirs, kinds, pair_rest=pair_rest))


def _aligned(
    ours: list[str], theirs: list[str], kinds: tuple[list[str], list[str]], *, pair_rest: bool
) -> list[Pair]:
    pairs: list[Pair] = []
    for equal, i1, i2, j1, j2 in _blocks(ours, theirs):
        if equal:
            pairs += zip(range(i1, i2), range(j1, j2), strict=True)
            continue
        for alike, a1, a2, b1, b2 in _blocks(kinds[0][i1:i2], kinds[1][j1:j2]):
            facing = min(a2 - a1, b2 - b1) if alike or pair_rest else 0
            pairs += [(i1 + a1 + n, j1 + b1 + n) for n in range(facing)]
            pairs += [(i, None) for i in range(i1 + a1 + facing, i1 + a2)]
            pairs += [(None, j) for j in range(j1 + b1 + facing, j1 + b2)]
    return pairs


def _blocks(ours: list[str], theirs: list[str]) -> Iterator[tuple[bool, int, int, int, int]]:
    """Cut two lists into blocks that are equal and blocks that are not; the common prefix first."""
    start = 0
    while start < min(len(ours), len(theirs)) and ours[start] == theirs[start]:
        start += 1
    if start:
        yield True, 0, start, 0, start
    matcher = difflib.SequenceMatcher(None, ours[start:], theirs[start:])
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        yield tag == "equal", i1 + start, i2 + start, j1 + start, j2 + start


def _left_first(pairs: list[Pair]) -> list[Pair]:
    """Between two pairs, name what is only on the left before what is only on the right."""
    ordered: list[Pair] = []
    waiting: list[Pair] = []
    for pair in pairs:
        if pair[0] is None:
            waiting.append(pair)
            continue
        if pair[1] is not None:
            ordered += waiting
            waiting = []
        ordered.append(pair)
    return ordered + waiting


# ---------------------------------------------------------------------- what differs


def _status(left: object, right: object) -> Status:
    if left is None or right is None:
        return "right" if left is None else "left"
    return "changed"


def _turn(left: TurnMessages | None, right: TurnMessages | None) -> TurnDiff:
    ours, theirs = (left.messages if left else []), (right.messages if right else [])
    pairs = align(
        [_content(message) for message in ours],
        [_content(message) for message in theirs],
        _role_of,
        pair_rest=True,
    )
    messages = [
        _message(None if i is None else ours[i], None if j is None else theirs[j]) for i, j in pairs
    ]
    differing = [message for message in messages if message.status != "same"]
    return TurnDiff(
        status=_status(left, right) if differing or not (left and right) else "same",
        left=left.number if left else None,
        right=right.number if right else None,
        preview=_preview((ours or theirs)[0]["parts"]),
        messages=differing,
    )


def _role_of(message: Json) -> Any:
    return message["role"]


def _message(left: Json | None, right: Json | None) -> MessageDiff:
    ours, theirs = (left or {}).get("parts", []), (right or {}).get("parts", [])
    fields: list[FieldChange] = []
    if left is not None and right is not None:
        before, after = _content(left), _content(right)
        role = {"role": before["role"]}, {"role": after["role"]}
        fields = [*_fields(*role), *_fields(before["metadata"], after["metadata"])]
    parts = _parts(ours, theirs)
    return MessageDiff(
        status=_status(left, right) if fields or parts or not (left and right) else "same",
        role=(left or right or {})["role"],
        left=left["id"] if left else None,
        right=right["id"] if right else None,
        fields=fields,
        parts=parts,
    )


def _parts(ours: list[Json], theirs: list[Json]) -> list[PartDiff]:
    before, after = [_part_content(p) for p in ours], [_part_content(p) for p in theirs]
    found = []
    for i, j in align(before, after, _part_kind, pair_rest=False):
        left, right = None if i is None else before[i], None if j is None else after[j]
        fields = _fields(left, right) if left is not None and right is not None else []
        if fields or left is None or right is None:
            shown: Json = left or right or {}
            name = str(shown.get("type", ""))
            found.append(PartDiff(_status(left, right), name, i, j, _preview([shown]), fields))
    return found


def _part_kind(part: Json) -> Any:
    return [part.get("type"), part.get("toolName")]


def _fields(left: Json, right: Json) -> list[FieldChange]:
    """Name the fields that differ, in a fixed order; a missing one is None."""
    changed = []
    for name in sorted({*left, *right}):
        before, after = left.get(name), right.get(name)
        if _key(before) != _key(after):
            changed.append(FieldChange(name, before, after, _text_diff(name, before, after)))
    return changed


def _text_diff(name: str, before: Any, after: Any) -> str | None:
    if not isinstance(before, str) or not isinstance(after, str):
        return None
    if len(before) + len(after) > _LONGEST_TEXT:
        return f"({len(before):,} and {len(after):,} characters: too long to compare by line)"
    sides = before.split("\n"), after.split("\n")
    lines = difflib.unified_diff(*sides, f"left {name}", f"right {name}", lineterm="", n=2)
    return "\n".join(lines)


def _preview(parts: Sequence[Json]) -> str:
    """Return the beginning of what a message or part says, on one line."""
    for part in parts:
        said = part.get("text") or part.get("toolName") or part.get("url")
        if isinstance(said, str) and said.strip():
            line = " ".join(printable(said[: 4 * _PREVIEW]).split())
            return line if len(line) <= _PREVIEW else line[: _PREVIEW - 1] + "…"
    return str(parts[0].get("type", "")) if parts else ""
