"""Opening a hit: the whole thing, with what comes before and after it."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal

import msgspec

from threadkeep.base.text import decoded
from threadkeep.base.tx import Tx
from threadkeep.errors import Invalid, NotFound
from threadkeep.knowledge import hit_rows
from threadkeep.knowledge.archived import ArchivedEntries
from threadkeep.knowledge.records import EntryRow, Readers
from threadkeep.knowledge.search_index import is_indexable
from threadkeep.memory.hits import evidence_of, load_thing, message_hit, thing_hit
from threadkeep.memory.records import Hit, HitDetail

_THINGS: Final = ("node", "command", "visit", "run", "lesson", "segment", "memory")
_MOST_AROUND: Final = 100
# What the contract calls a source -> what it is here.
_BY_SOURCE: Final = {
    "shell": "command",
    "browser": "visit",
    "workflow": "run",
    "lesson": "lesson",
    "memory": "memory",
}
_BEFORE: Final = {"page": "visit", "ci": "run"}  # as they were called before
_AGENTS: Final = "segment"


def parse_ref(ref: str) -> tuple[str, str]:
    """Split a reference into its kind and its number: `message:12`, or a source like `shell-1`."""
    kind, colon, number = ref.strip().partition(":")
    if not colon:
        source, dash, number = ref.strip().rpartition("-")
        kind = _BY_SOURCE.get(source, _AGENTS) if dash and number.isdecimal() else ""
    kind = _BEFORE.get(kind, kind)
    if kind not in {"message", *_THINGS} or not number:
        msg = f"{ref!r} is not a reference such as `recall` gives"
        raise Invalid(msg, hint="give a ref from `recall`, such as message:12 or node:3")
    return kind, number


def open_ref(tx: Tx, sources: Readers, ref: str, around: int = 3) -> HitDetail:
    """Open what a reference names; raises NotFound if it is not there any more."""
    kind, name = parse_ref(ref)
    number = _number(tx, kind, name)
    beside = max(0, min(around, _MOST_AROUND))
    if number is not None and kind == "message":
        opened = _message(tx, sources, number, beside)
    elif number is not None:
        opened = _thing(tx, sources, (kind, number), beside)
    else:
        opened = None
    if opened is None:
        raise NotFound(f"there is no {ref}", hint="it may have been deleted; search again")
    return opened


def _number(tx: Tx, kind: str, name: str) -> int | None:
    if name.isdecimal() and len(name) < 19:  # noqa: PLR2004  (digits of a 64-bit number)
        return int(name)
    return hit_rows.node_number(tx, name) if kind == "node" else None


# ---------------------------------------------------------------------- messages


def _message(tx: Tx, sources: Readers, number: int, around: int) -> HitDetail | None:
    message = hit_rows.load_messages(tx, [number]).get(number)
    if message is None:
        return None
    row, session, _ = message
    before, after = hit_rows.entries_beside(tx, row, around)
    beside = hit_rows.load_messages(tx, [*before, *after])
    texts = ArchivedEntries(tx, sources)

    def shown(ids: list[int]) -> tuple[Hit, ...]:
        near = (beside[one] for one in ids if one in beside)
        return tuple(message_hit(one, texts.text(one.row)) for one in near)

    facts = {
        "kind": row.kind,
        "tool": row.tool,
        "error": row.error,
        "model": session.model or None,
        "session": f"{session.agent}:{session.session_id}",
        "title": session.name,
    }
    text = texts.text(row)
    hit = message_hit(message, text)
    return HitDetail(hit, text, shown(before), shown(after), _known(facts))


# ---------------------------------------------------------------------- things


def _thing(tx: Tx, sources: Readers, what: tuple[str, int], around: int) -> HitDetail | None:
    kind, number = what
    thing = load_thing(tx, kind, number, indexed=is_indexable(tx))
    if thing is None and kind == "segment":  # its session is archived: open it where it begins
        first = hit_rows.first_of_segment(tx, number)
        return None if first is None else _message(tx, sources, first, around)
    if thing is None:
        return None
    before, after = _commands_around(tx, number, around) if kind == "command" else ((), ())
    facts = _facts_of_node(tx, number) if kind == "node" else hit_rows.facts_of(tx, kind, number)
    return HitDetail(thing_hit(thing), thing.text, before, after, _known(facts))


def _commands_around(tx: Tx, number: int, around: int) -> tuple[tuple[Hit, ...], tuple[Hit, ...]]:
    before, after = hit_rows.commands_beside(tx, number, around)

    def shown(ids: list[int]) -> tuple[Hit, ...]:
        things = (load_thing(tx, "command", one) for one in ids)
        return tuple(thing_hit(thing) for thing in things if thing is not None)

    return shown(before), shown(after)


def _facts_of_node(tx: Tx, number: int) -> dict[str, Any]:
    row = hit_rows.thing_row(tx, "node", number, indexed=False)
    try:
        content = msgspec.json.decode(decoded(row[2])) if row else None
    except (msgspec.DecodeError, RecursionError):
        content = None
    rests_on = evidence_of(tx, number)
    return {"evidence": rests_on, "entities": hit_rows.entities_of(tx, number), "content": content}


def _known(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if value not in (None, "", [], {})}


# ------------------------------------------------------------------------------
# Turns of a conversation: what was asked, what was answered, and how many calls stood between.


class TimelineTurn(msgspec.Struct, frozen=True):
    """A prompt, or an answer with the work that led to it."""

    row: EntryRow  # where it stands
    at: int
    kind: Literal["prompt", "answer", "work"]  # work: calls without a word at the end
    tools: dict[str, int] = {}
    errors: int = 0


def turns_of(rows: Iterable[EntryRow]) -> Iterator[TimelineTurn]:
    """Fold entries, in their order, into prompts and answers; calls are counted."""
    answer: list[EntryRow] = []
    for row in rows:
        if row.kind == "prompt":
            yield from _answer(answer)
            answer = []
            yield TimelineTurn(row, row.at or 0, "prompt")
        else:
            answer.append(row)
    yield from _answer(answer)


def _answer(rows: list[EntryRow]) -> Iterator[TimelineTurn]:
    """Fold what followed a prompt into its last word."""
    if not rows:
        return
    tools = Counter(row.tool or "tool" for row in rows if row.kind == "tool_call")
    errors = sum(row.error for row in rows if row.kind == "tool_result")
    said = [row for row in rows if row.kind == "text"]
    last = said[-1] if said else rows[-1]
    yield TimelineTurn(last, last.at or 0, "answer" if said else "work", dict(tools), errors)
