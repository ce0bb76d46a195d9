"""Replies for the fault tests: the same chunks for the same key, in every process.

A reply is told in segments. Each segment is one stream: the first begins the message, later ones
continue it after an approval. A late segment holds one tool result that arrives in the stream of
the next reply. The pure reducer is the oracle: it says what the message is after every chunk.
"""

import hashlib
import json
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from threadkeep.chat.wire.reduce import Change, StreamState

Chunk = dict[str, Any]

_WORDS = (
    *("alpha", "beta", "gamma", "delta", "disk", "lock", "naïve", "日本語", "ไทย", "😀"),
    *("e\u0301", "\u2028", "\x00", '"quoted"', "back\\slash", "new\nline", "\u202egnp", "</b>"),
)
_LONG_SHARE = 0.2
_MONOLOGUE = 2500


class Story(NamedTuple):
    """One message: the streams that make it, and the result that comes with the next one."""

    key: str
    segments: tuple[tuple[Chunk, ...], ...]
    late: Chunk | None


class Moment(NamedTuple):
    """What a message is after a chunk; `rev` is the number of the last chunk that changed it."""

    rev: int
    digest: str


def digest(message: Chunk) -> str:
    """Hash what a reader sees of a message: everything but its id."""
    shown = [message["role"], message.get("metadata") or {}, message["parts"]]
    return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()[:16]


def story(key: str) -> Story:
    """Make the reply of this key; one that begins with "r" is a single text of many deltas."""
    rng = random.Random(key)
    if key.startswith("r"):
        text = _grown(rng, "text", "t", _MONOLOGUE)
        return Story(key, (({"type": "start", "messageId": key}, *text),), None)
    start = {"type": "start", "messageId": key, "messageMetadata": {"model": "m", "opened": key}}
    first = [start]
    for step in range(rng.randrange(1, 4)):
        first += _step(rng, key, step)
    segments = [first]
    if rng.random() < 0.3:
        first += _asks(key)
        segments.append([{"type": "start", "messageId": key}, *_goes_on(rng, key)])
    for segment in segments[:-1]:
        segment.append({"type": "finish", "finishReason": "tool-calls"})
    segments[-1] += _ending(rng)
    late = _late(key) if rng.random() < 0.5 else None
    if late is not None:
        first[1:1] = _call_without_result(key)
    return Story(key, tuple(map(tuple, segments)), late)


def moments(told: Story) -> Iterator[Moment]:
    """Say what the message is after each chunk, the late result last."""
    for rev, state, _ in _states(told):
        yield Moment(rev, digest(state.message()))


def _states(told: Story) -> Iterator[tuple[int, StreamState, bool]]:
    """Return (revision, state, whether a stream ends here) after each chunk."""
    state, rev, number = StreamState(message_id=told.key), 0, 0
    late = () if told.late is None else ((told.late,),)
    for place, segment in enumerate((*told.segments, *late)):
        if place:
            state = StreamState(state.message())
        for chunk in segment:
            number += 1
            rev = number if _shows(state.apply(chunk)) else rev
            yield rev, state, chunk is segment[-1]


def _shows(change: Change) -> bool:
    cut = change.truncated_to is not None
    return bool(change.parts or change.grew or cut or change.metadata)


def revision_of(key: str, found: str) -> int:
    """Return the revision of a reply that looks like this, -1 if none ever did."""
    told = story(key)
    # Nearly all replies are complete: look there first, hashing every chunk's state is slow.
    for rev, state, ends in _states(told):
        if ends and digest(state.message()) == found:
            return rev
    return {moment.digest: moment.rev for moment in moments(told)}.get(found, -1)


def words(rng: random.Random, count: int) -> str:
    """Write so many words."""
    return " ".join(rng.choices(_WORDS, k=count))


# The pieces of a stream ------------------------------------------------------------------


def _step(rng: random.Random, key: str, step: int) -> list[Chunk]:
    name = f"{key}.{step}"
    pieces = [_thought(rng, name), _text(rng, name), _call(rng, name), _extras(rng, name)]
    rng.shuffle(pieces)
    body = [chunk for piece in pieces for chunk in piece]
    begin: list[Chunk] = [{"type": "start-step"}]
    if rng.random() < 0.15:
        # The metadata keeps the state after the reset apart from the one before the step.
        begin += [
            *_text(rng, f"{name}.dropped"),
            {"type": "message-metadata", "messageMetadata": {f"tried.{step}": True}},
            {"type": "reset-step"},
        ]
    return [*begin, *body, {"type": "finish-step"}]


def _grown(rng: random.Random, kind: str, name: str, count: int) -> list[Chunk]:
    deltas = [_delta(rng) for _ in range(count)]
    begin: Chunk = {"type": f"{kind}-start", "id": name}
    end: Chunk = {"type": f"{kind}-end", "id": name}
    if rng.random() < 0.5:
        end["providerMetadata"] = {"p": {"signature": words(rng, 3)}}
    return [begin, *({"type": f"{kind}-delta", "id": name, "delta": d} for d in deltas), end]


def _delta(rng: random.Random) -> str:
    # A stream cut by UTF-16 units delivers one character as two halves in two deltas.
    if rng.random() < 0.03:
        return rng.choice(("half \ud83d", "\ude00 whole", ""))
    return words(rng, rng.randrange(1, 4)) + " "


def _text(rng: random.Random, name: str) -> list[Chunk]:
    is_long = rng.random() < _LONG_SHARE
    return _grown(rng, "text", f"t.{name}", rng.randrange(200, 500) if is_long else 12)


def _thought(rng: random.Random, name: str) -> list[Chunk]:
    return _grown(rng, "reasoning", f"r.{name}", rng.randrange(1, 25))


def _call(rng: random.Random, name: str) -> list[Chunk]:
    call: Chunk = {"toolCallId": f"c.{name}", "toolName": rng.choice(("search", "run-code"))}
    if rng.random() < 0.3:
        call["dynamic"] = True
    given = {"query": words(rng, 20), "list": [1, 2.5, None, {"deep": words(rng, 5)}]}
    text = json.dumps(given, ensure_ascii=rng.random() < 0.5)
    cuts = sorted(rng.sample(range(1, len(text)), k=12))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    chunks: list[Chunk] = [{"type": "tool-input-start", **call, "title": "T"}]
    for piece in pieces:
        delta = {"type": "tool-input-delta", "toolCallId": call["toolCallId"]}
        chunks.append({**delta, "inputTextDelta": piece})
    return [*chunks, *_outcome(rng, call, given)]


def _outcome(rng: random.Random, call: Chunk, given: Any) -> list[Chunk]:
    about = {"toolCallId": call["toolCallId"]}
    if rng.random() < 0.1:
        return [{"type": "tool-input-error", **call, "input": given, "errorText": "bad input"}]
    chunks: list[Chunk] = [{"type": "tool-input-available", **call, "input": given}]
    for number in range(rng.randrange(3)):
        early = {"type": "tool-output-available", **about, "preliminary": True}
        chunks.append({**early, "output": {"done": number}})
    ends: tuple[Chunk, ...] = (
        {"type": "tool-output-available", **about, "output": {"rows": words(rng, 150)}},
        {"type": "tool-output-error", **about, "errorText": words(rng, 5)},
        {"type": "tool-output-denied", **about},
    )
    return [*chunks, rng.choices(ends, (8, 1, 1))[0]]


def _extras(rng: random.Random, name: str) -> list[Chunk]:
    extras: list[Chunk] = [
        {"type": "file", "url": f"https://example.com/{name}", "mediaType": "image/png"},
        {"type": "source-url", "sourceId": name, "url": "https://example.com/", "title": "S"},
        {"type": "source-document", "sourceId": name, "mediaType": "text/plain", "title": "D"},
        {"type": "data-progress", "id": f"d.{name}", "data": {"at": 1}},
        {"type": "data-progress", "id": f"d.{name}", "data": {"at": 2}},
        {"type": "data-passing", "data": {"seen": False}, "transient": True},
        {"type": "message-metadata", "messageMetadata": {"at": {name: words(rng, 2)}}},
        {"type": "custom", "kind": "acme.note", "providerMetadata": {"p": {"n": name}}},
        {"type": "from-the-future", "field": 1},
    ]
    return rng.sample(extras[:3], k=1) + extras[3:5] + rng.sample(extras[5:], k=2)


def _asks(key: str) -> list[Chunk]:
    call = {"toolCallId": f"c.{key}.ask", "toolName": "deploy"}
    return [
        {"type": "start-step"},
        {"type": "tool-input-available", **call, "input": {"target": key}},
        {
            "type": "tool-approval-request",
            "approvalId": f"a.{key}",
            "toolCallId": call["toolCallId"],
        },
        {"type": "finish-step"},
    ]


def _goes_on(rng: random.Random, key: str) -> list[Chunk]:
    answer: Chunk = {"type": "tool-approval-response", "approvalId": f"a.{key}", "approved": True}
    result: Chunk = {"type": "tool-output-available", "toolCallId": f"c.{key}.ask", "output": "ok"}
    return [answer, result, {"type": "start-step"}, *_text(rng, f"{key}.on")]


def _ending(rng: random.Random) -> list[Chunk]:
    endings: tuple[list[Chunk], ...] = (
        [{"type": "finish", "finishReason": "stop", "messageMetadata": {"finished": True}}],
        [{"type": "error", "errorText": "the provider hung up"}],
        [{"type": "abort", "reason": "the user left"}],
    )
    return rng.choices(endings, (8, 1, 1))[0]


def _call_without_result(key: str) -> list[Chunk]:
    call = {"toolCallId": f"c.{key}.late", "toolName": "wait"}
    return [
        {"type": "start-step"},
        {"type": "tool-input-available", **call, "input": {"for": key}},
        {"type": "finish-step"},
    ]


def _late(key: str) -> Chunk:
    call = {"toolCallId": f"c.{key}.late", "output": {"late": key}}
    return {"type": "tool-output-available", **call}
