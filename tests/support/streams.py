"""Random but repeatable chunk streams, well-behaved and otherwise, for the reducer's tests.

A stream is made of actors (a text, a reasoning, a tool call, a file, …), each with its chunks in
their proper order. The actors of a step are interleaved at random. Then, in about a third of
the cases, chunks are dropped, doubled, moved or given another id: that makes the orders nobody
thought of, and the protocol violations.
"""

import json
import random
from collections.abc import Callable, Iterable
from typing import Any

Chunk = dict[str, Any]

WORDS = ("fork", "naïve", "waits", "😀", "𝔘𝔫𝔦", "e\u0301", "\u2028", "الع", "\x00", '"', "\\", "\n")
TOOL_NAMES = ("search", "run-code", "a-b-c", "")
NUMBERS = (0, -1, 7, 2**40, -2.5, 1e21, 1.5e-7)
TROUBLESOME_INPUTS = (
    '{"a":1E+5,"b":-0.5e-3}',
    "[1E+5 , -2,-]",
    "[-",
    "1E+5",
    "-",
    "  tru",
    " true ",
    '{"a": tru, "b" : nul}',
    '{"a\\"b": {"c\\\\": [1, 2 ,3 ]}} ',
    '{"k\\":{": 1, "x": "y"}',
    '["\\u00e9\\ud83d\\ude00\\n", "\\u12"]',
    '{"__proto__": {"x": 1}}',
    '{"x": {"constructor": {"prototype": 1}}, "y": 2}',
    '{"constructor": {"name": 1}}',
    '"a\tb"',
    "NaN",
    "[Infinity, 1]",
    '{"a": 1e999, "b": [1e999',
    "not json at all",
    "[1 😀, 2]",
    "[true😀",
    "[[[[{}]]]",
    '{"a":1}{"b":2}',
    "{,}",
    "[1,,2]",
    "01",
    "",
)


class _Maker:
    """Draws everything from one random source."""

    def __init__(self, seed: int, version: int) -> None:
        self.rng = random.Random(seed)
        self.version = version

    # Values

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def text(self) -> str:
        words = self.rng.choices((*WORDS, "the", "a", "plan"), k=self.rng.randrange(6))
        return self.rng.choice(("", " ")).join(words)

    def value(self, depth: int = 0) -> Any:
        kind = self.rng.randrange(8 if depth < 3 else 5)
        if kind < 5:
            return (None, True, False, self.rng.choice(NUMBERS), self.text())[kind]
        if kind == 5:
            return [self.value(depth + 1) for _ in range(self.rng.randrange(4))]
        return self.object(depth + 1)

    def object(self, depth: int = 0) -> dict[str, Any]:
        keys = ("a", "b", "deep", "tags", "", "toString", "constructor", "prototype", "__proto__")
        weights = (9, 9, 9, 9, 1, 1, 1, 1, 1)
        count = self.rng.randrange(4)
        return {key: self.value(depth) for key in self.rng.choices(keys, weights, k=count)}

    def maybe(self, chunk: Chunk, **makers: Callable[[], Any]) -> Chunk:
        """Add each optional field to some chunks, and null to a few."""
        for name, make in makers.items():
            draw = self.rng.random()
            if draw < 0.25:
                chunk[name] = make()
            elif draw < 0.28:
                chunk[name] = None
        return chunk

    def with_provider(self, chunk: Chunk) -> Chunk:
        return self.maybe(chunk, providerMetadata=lambda: {"vendor": self.object(1)})

    def cut(self, text: str) -> list[str]:
        """Cut a text between any two UTF-16 units, also inside a surrogate pair."""
        units = text.encode("utf-16-le", "surrogatepass")
        places = range(0, len(units) + 1, 2)
        cuts = sorted(self.rng.choices(places, k=self.rng.randrange(8)))
        bounds = zip([0, *cuts], [*cuts, len(units)], strict=True)
        return [units[a:b].decode("utf-16-le", "surrogatepass") for a, b in bounds]

    # Actors

    def written(self) -> list[Chunk]:
        """Make a text or a reasoning."""
        kind, part_id = self.rng.choice(("text", "reasoning")), self.rng.choice(("1", "2", "t"))
        chunks = [self.with_provider({"type": f"{kind}-start", "id": part_id})]
        for delta in self.cut(self.text() + self.text()):
            delta_chunk = {"type": f"{kind}-delta", "id": part_id, "delta": delta}
            chunks.append(self.with_provider(delta_chunk))
        if self.chance(0.9):
            end = self.with_provider({"type": f"{kind}-end", "id": part_id})
            if self.version >= 7 and kind == "text":
                self.maybe(end, citations=lambda: [self.object(2)])
            chunks.append(end)
        return chunks

    def plain(self) -> list[Chunk]:
        """Make a file or a source."""
        kinds: list[Chunk] = [
            {"type": "file", "url": "data:,x", "mediaType": "text/plain"},
            {"type": "source-url", "sourceId": "s1", "url": "https://example.org/"},
            {"type": "source-document", "sourceId": "s2", "mediaType": "text/plain", "title": "T"},
        ]
        if self.version >= 7:
            kinds.append({"type": "reasoning-file", "url": "data:,y", "mediaType": "image/png"})
            kinds.append({"type": "custom", "kind": "vendor.thing"})
            kinds.append({"type": "steering-message", "id": "s", "parts": self.steering()})
        chunk = self.with_provider(self.rng.choice(kinds))
        if chunk["type"] == "source-url":
            self.maybe(chunk, title=self.text, extra=self.text)
        elif chunk["type"] == "source-document":
            self.maybe(chunk, filename=lambda: "f.txt")
        return [chunk]

    def steering(self) -> list[Chunk]:
        """Make what a user says in the middle of a reply."""
        file = {"type": "file", "url": "data:,z", "mediaType": "image"}
        kinds: list[Chunk] = [
            {"type": "text", "text": self.text()},
            {**file, "providerReference": {"vendor": "file-1"}, "filename": "z.png"},
        ]
        return self.rng.choices(kinds, k=self.rng.randrange(4))

    def data(self) -> list[Chunk]:
        """Make one to three data chunks, some with the id of an earlier one."""
        chunks: list[Chunk] = []
        for _ in range(self.rng.randrange(1, 4)):
            chunk: Chunk = {"type": self.rng.choice(("data-a", "data-b")), "data": self.value()}
            self.maybe(chunk, id=lambda: "d1", transient=lambda: self.chance(0.5), more=self.value)
            if self.chance(0.4):
                chunk["id"] = self.rng.choice(("d1", "d2"))
            chunks.append(chunk)
        return chunks

    def metadata(self) -> list[Chunk]:
        """Make one chunk of message metadata."""
        merged = self.object() if self.chance(0.9) else None
        return [{"type": "message-metadata", "messageMetadata": merged}]

    def noise(self) -> list[Chunk]:
        """Make a chunk that changes nothing in the message."""
        kinds: list[Chunk] = [
            {"type": "error", "errorText": "Overloaded"},
            {"type": "from-the-future", "id": "1", "delta": "x"},
            {"type": "abort", "reason": "user"},
        ]
        return [self.rng.choice(kinds)]

    def tool_fields(self) -> Chunk:
        fields: Chunk = {
            "toolCallId": self.rng.choice(("c1", "c2", "c3")),
            "toolName": self.rng.choice(TOOL_NAMES),
        }
        if self.chance(0.4):
            fields["dynamic"] = self.chance(0.8)
        return fields

    def tool(self) -> list[Chunk]:
        """Make a tool call from the first piece of its input to its last output."""
        fields = self.tool_fields()
        chunks = self.tool_input(fields) if self.chance(0.75) else []
        draw = self.rng.random()
        if draw < 0.1:
            failed = {"type": "tool-input-error", "errorText": "bad", "input": self.value()}
            chunks.append(self.with_call_extras({**failed, **fields}))
        elif draw < 0.9:
            given = {"type": "tool-input-available", "input": self.value(), **fields}
            if self.chance(0.1):  # a repaired name renames the part
                given["toolName"] = "repaired"
            chunks.append(self.with_call_extras(given))
        call_id = fields["toolCallId"]
        return chunks + self.approval(call_id) + self.outputs(call_id)

    def with_call_extras(self, chunk: Chunk) -> Chunk:
        self.maybe(
            chunk,
            providerExecuted=lambda: self.chance(0.7),
            title=self.text,
            toolMetadata=lambda: self.object(1),
        )
        return self.with_provider(chunk)

    def tool_input(self, fields: Chunk) -> list[Chunk]:
        start = self.with_call_extras({"type": "tool-input-start", **fields})
        if self.chance(0.2):
            start["inputEncoding"] = self.rng.choice(("json", "text"))
        text = self.rng.choice(TROUBLESOME_INPUTS)
        if self.chance(0.6):
            indent = self.rng.choice((None, None, 2))
            text = json.dumps(self.value(), ensure_ascii=self.chance(0.5), indent=indent)
        deltas = [
            {
                "type": "tool-input-delta",
                "toolCallId": fields["toolCallId"],
                "inputTextDelta": piece,
            }
            for piece in self.cut(text)
        ]
        return [start, *(deltas if self.chance(0.85) else deltas[: len(deltas) // 2])]

    def approval(self, call_id: str) -> list[Chunk]:
        if not self.chance(0.25):
            return []
        approval_id = self.rng.choice(("ap1", "ap2"))
        request: Chunk = {"type": "tool-approval-request", "approvalId": approval_id}
        request["toolCallId"] = call_id
        self.maybe(
            request,
            approvalDescriptor=self.value,
            inputSchemaInput=self.value,
            signature=lambda: "sig",
        )
        if self.version >= 7:
            self.maybe(request, reason=self.text, isAutomatic=lambda: self.chance(0.7))
        chunks = [request]
        if self.version >= 7 and self.chance(0.7):
            response: Chunk = {"type": "tool-approval-response", "approvalId": approval_id}
            response["approved"] = self.chance(0.5)
            self.maybe(response, reason=self.text, providerExecuted=lambda: True)
            chunks.append(self.with_provider(response))
        return chunks

    def outputs(self, call_id: str) -> list[Chunk]:
        chunks: list[Chunk] = []
        for _ in range(self.rng.randrange(3)):
            early = {"type": "tool-output-available", "preliminary": True, "output": self.value()}
            chunks.append(self.output(early, call_id))
        draw = self.rng.random()
        if draw < 0.6:
            made: Chunk = {"type": "tool-output-available", "output": self.value()}
            if self.chance(0.1):  # a tool that returned undefined
                del made["output"]
            chunks.append(self.output(made, call_id))
        elif draw < 0.75:
            chunks.append(self.output({"type": "tool-output-error", "errorText": "no"}, call_id))
        elif draw < 0.85:
            chunks.append({"type": "tool-output-denied", "toolCallId": call_id})
        return chunks

    def output(self, chunk: Chunk, call_id: str) -> Chunk:
        chunk["toolCallId"] = call_id
        self.maybe(chunk, dynamic=lambda: True, preliminary=lambda: False)
        return self.with_call_extras(chunk)

    # Streams

    def interleaved(self, actors: Iterable[list[Chunk]]) -> list[Chunk]:
        waiting = [actor for actor in actors if actor]
        merged: list[Chunk] = []
        while waiting:
            actor = self.rng.choice(waiting)
            merged.append(actor.pop(0))
            if not actor:
                waiting.remove(actor)
        return merged

    def step(self) -> list[Chunk]:
        makers = (self.written, self.tool, self.plain, self.data, self.metadata, self.noise)
        weights = (5, 6, 1, 2, 1, 1)
        actors = self.rng.choices(makers, weights, k=self.rng.randrange(1, 5))
        chunks = self.interleaved(make() for make in actors)
        if self.version >= 7 and self.chance(0.15):
            chunks.insert(self.rng.randrange(len(chunks) + 1), {"type": "reset-step"})
        if self.chance(0.9):
            chunks.insert(0, {"type": "start-step"})
        if self.chance(0.8):
            chunks.append({"type": "finish-step"})
        return chunks

    def start(self) -> list[Chunk]:
        chunk: Chunk = {"type": "start"}
        if self.chance(0.7):
            chunk["messageId"] = self.rng.choice(("m1", "m1", "m1", "m2", ""))
        return [self.maybe(chunk, messageMetadata=self.object)] if self.chance(0.9) else []

    def stream(self) -> list[Chunk]:
        chunks = self.start()
        for _ in range(self.rng.randrange(1, 4)):
            chunks += self.step()
        if self.chance(0.7):
            finish = self.maybe({"type": "finish"}, messageMetadata=self.object)
            chunks.append(self.maybe(finish, finishReason=lambda: "stop"))
        return chunks

    def spoiled(self, chunks: list[Chunk]) -> list[Chunk]:
        """Drop, double, move or relabel a few chunks."""
        for _ in range(self.rng.randrange(1, 5)):
            at, to = self.rng.randrange(len(chunks)), self.rng.randrange(len(chunks))
            what = self.rng.randrange(4)
            if what == 0 and len(chunks) > 1:
                del chunks[at]
            elif what == 1:
                chunks.insert(to, dict(chunks[at]))
            elif what == 2:
                chunks.insert(to, chunks.pop(at))
            elif "toolCallId" in chunks[at]:
                chunks[at] = {**chunks[at], "toolCallId": self.rng.choice(("c1", "c2", "c9"))}
        return chunks

    def stored_part(self) -> Chunk:
        """Make a part as an earlier stream may have left it."""
        call = {"toolCallId": self.rng.choice(("c1", "c2")), "input": {"q": 1}}
        parts: list[Chunk] = [
            {"type": "text", "text": "earlier", "state": "done"},
            {"type": "step-start"},
            {"type": "data-a", "id": "d1", "data": {"old": True}},
            {"type": "data-b", "data": 1},
            {"type": "tool-search", **call, "state": "input-available"},
            {"type": "dynamic-tool", "toolName": "mcp", **call, "state": "output-available"},
            {
                "type": "tool-search",
                "toolCallId": "c1",
                "state": "approval-responded",
                "input": {},
                "approval": {"id": "ap1", "approved": True},
            },
        ]
        unfinished: Chunk = {"type": "tool-search", "state": "input-streaming", "toolCallId": "c1"}
        if self.chance(0.5):
            unfinished.update(type="dynamic-tool", toolName="mcp")
        self.maybe(unfinished, title=self.text, inputEncoding=lambda: "text")
        if self.chance(0.8):
            unfinished.update(rawInput='{"q":[1,', input={"q": [1]})
        return self.rng.choice([*parts, unfinished])

    def initial_message(self) -> Chunk:
        parts = [self.stored_part() for _ in range(self.rng.randrange(6))]
        role = "assistant" if self.chance(0.9) else "user"
        message: Chunk = {"id": "m1", "role": role, "parts": parts}
        if self.chance(0.5):
            message["metadata"] = self.object()
        return message


def random_case(seed: int, version: int = 6) -> dict[str, Any]:
    """Make the case of this seed: `id`, `version`, `chunks`, for some an `initial_message`."""
    maker = _Maker(seed, version)
    case: dict[str, Any] = {"id": f"random-{version}-{seed}", "version": version}
    case["chunks"] = maker.stream()
    if maker.chance(0.15):  # two streams merged into one
        case["chunks"] = maker.interleaved([case["chunks"], maker.stream()])
    if maker.chance(0.35):
        case["chunks"] = maker.spoiled(case["chunks"])
    if maker.chance(0.25):
        case["initial_message"] = maker.initial_message()
    return case
