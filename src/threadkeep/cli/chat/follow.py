"""`threadkeep chat tail`: a session as it happens, from whatever process."""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Any

import click

from threadkeep import ChatStore, Event
from threadkeep.base.clock import iso
from threadkeep.base.text import join_text
from threadkeep.chat.replies import follow
from threadkeep.cli.command import Call, session_argument, store_command
from threadkeep.cli.output import StyledText, json_line, one_line, wrapped
from threadkeep.cli.signals import need_reader, stopped_by_signals
from threadkeep.cli.transcript import (
    LIMIT,
    Json,
    error_pieces,
    header,
    message_pieces,
    output_pieces,
    part_pieces,
    value_text,
)

# ------------------------------------------------------------------------------
# A live session as text: each event adds what there is new to read.

_VERBS = frozenset(
    {"archive", "compact", "delete", "fork", "permission", "repair", "rewind", "title"}
    | {"unarchive", "unrewind"}
)
# Not shown before more comes: a half of a character, and line ends (they may be the last).
_READY = re.compile("(?s).*?(?=[\n\ud800-\udbff]*\\Z)")
# Not shown by themselves; a chunk that is neither here nor handled is shown like a part.
_SILENT = frozenset(
    {"start", "start-step", "finish-step", "reset-step", "message-metadata"}
    | {"text-start", "text-end", "reasoning-start", "reasoning-end", "tool-approval-response"}
)


class EventText:
    """Turns a session's events, in order, into pieces of text."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._message: str | None = None
        self._open: str | None = None  # what the line that is being written belongs to
        self._names: dict[str, str] = {}  # tool call -> tool
        self._streamed: set[str] = set()  # tool calls whose input was shown as it came
        self._held: dict[str, str] = {}  # stream -> what its next piece must begin with
        self._handlers: dict[str, Callable[[Json], list[StyledText]]] = {
            "text-delta": self._text,
            "reasoning-delta": self._reasoning,
            "tool-input-start": self._tool_start,
            "tool-input-delta": self._tool_delta,
            "tool-input-available": self._tool_input,
            "tool-input-error": self._tool_input_error,
            "tool-output-available": self._tool_output,
            "tool-output-error": self._tool_error,
            "tool-output-denied": self._denied,
            "tool-approval-request": self._approval,
            "finish": self._finish,
            "abort": self._abort,
            "error": self._error,
        }

    def take(self, event: Event) -> list[StyledText]:
        """Return what an event adds."""
        if event.kind == "chunk":
            return [*self._begin(event), *self._chunk(event.data)]
        if event.kind == "snapshot":
            return [*self._begin(event), *self._snapshot(event.data)]
        if event.kind in _VERBS:
            return [*self._break(), StyledText(f"· {event.kind}\n", "dim")]
        return []

    def _begin(self, event: Event) -> list[StyledText]:
        if event.message_id == self._message:
            return []
        self._message = event.message_id
        self._held.clear()
        return [*self._break(), *header("assistant", iso(event.at), event.message_id or "")]

    def _break(self) -> list[StyledText]:
        """End the line that is being written."""
        if self._open is None:
            return []
        self._open = None
        return [StyledText("\n")]

    def _snapshot(self, data: Json) -> list[StyledText]:
        """A finished message: as the AI SDK has it, or the rows that a log was shrunk to."""
        parts = data.get("parts")
        return message_pieces(parts, self._limit) if isinstance(parts, list) else []

    def _chunk(self, chunk: Json) -> list[StyledText]:
        kind = str(chunk.get("type"))
        handler = self._handlers.get(kind)
        if handler is not None:
            return handler(chunk)
        if kind not in _SILENT:
            return [*self._break(), *part_pieces(chunk, self._limit)]
        return self._break() if kind.endswith("-end") or kind == "finish-step" else []

    # ------------------------------------------------------------------ growing text

    def _grow(self, stream: str, lead: str, delta: Any, style: str) -> list[StyledText]:
        """Add to a stream; when another one was being written, begin a new line."""
        given = delta if isinstance(delta, str) else ""
        text = join_text(self._held.pop(stream, ""), given)
        ready = _READY.match(text)
        assert ready is not None  # noqa: S101  (it matches the empty text as well)
        self._held[stream] = text[ready.end() :]
        shown = StyledText(ready[0].replace("\n", "\n  "), style)
        if self._open == stream or not ready[0]:
            return [shown]
        pieces = [*self._break(), StyledText(f"  {lead}", style), shown]
        self._open = stream
        return pieces

    def _text(self, chunk: Json) -> list[StyledText]:
        return self._grow(f"text {chunk['id']}", "", chunk["delta"], "")

    def _reasoning(self, chunk: Json) -> list[StyledText]:
        stream = f"reasoning {chunk['id']}"
        return self._grow(stream, "thinking: ", chunk["delta"], "dim italic")

    # ------------------------------------------------------------------ tools

    def _tool_start(self, chunk: Json) -> list[StyledText]:
        self._names[chunk["toolCallId"]] = one_line(chunk["toolName"])
        return []

    def _tool_delta(self, chunk: Json) -> list[StyledText]:
        call = chunk["toolCallId"]
        self._streamed.add(call)
        lead = f"▸ {self._names.get(call, 'tool')} "
        return self._grow(f"input {call}", lead, chunk["inputTextDelta"], "yellow")

    def _tool_input(self, chunk: Json) -> list[StyledText]:
        call = chunk["toolCallId"]
        self._names[call] = one_line(chunk["toolName"])
        if call in self._streamed:
            return self._break()
        shown = value_text(chunk.get("input"), self._limit)
        return [*self._break(), StyledText(f"  ▸ {self._names[call]} {shown}\n", "yellow")]

    def _tool_input_error(self, chunk: Json) -> list[StyledText]:
        return [*self._tool_input(chunk), *self._tool_error(chunk)]

    def _tool_output(self, chunk: Json) -> list[StyledText]:
        if chunk.get("preliminary"):
            return []
        return [*self._break(), *output_pieces(chunk.get("output"), self._limit)]

    def _tool_error(self, chunk: Json) -> list[StyledText]:
        return [*self._break(), *error_pieces(chunk.get("errorText"), self._limit)]

    def _denied(self, _chunk: Json) -> list[StyledText]:
        return [*self._break(), *error_pieces("denied", self._limit)]

    def _approval(self, chunk: Json) -> list[StyledText]:
        name = self._names.get(chunk["toolCallId"], "a tool")
        return [*self._break(), StyledText(f"  ? {name} is waiting for approval\n", "bold yellow")]

    # ------------------------------------------------------------------ the end

    def _finish(self, chunk: Json) -> list[StyledText]:
        reason = one_line(str(chunk.get("finishReason") or ""))
        return [
            *self._break(),
            StyledText(f"  — finished{': ' if reason else ''}{reason}\n", "dim"),
        ]

    def _abort(self, chunk: Json) -> list[StyledText]:
        reason = one_line(str(chunk.get("reason") or ""))
        return [
            *self._break(),
            StyledText(f"  — stopped{': ' if reason else ''}{reason}\n", "yellow"),
        ]

    def _error(self, chunk: Json) -> list[StyledText]:
        return [*self._break(), StyledText(f"  — error: {one_line(chunk['errorText'])}\n", "red")]


@store_command("tail", "threadkeep chat tail last", "threadkeep chat tail last --until-idle --json")
@session_argument
@click.option("--after", default=0, metavar="SEQ", help="Only events after this number.")
@click.option("--until-idle", is_flag=True, help="Exit once nobody records the session.")
def tail(call: Call, *, session: str, after: int, until_idle: bool) -> None:
    """Follow a session live: text, thinking and tools as they stream in.

    With --json every event is one line, numbered by `seq`; --after continues from one.
    """
    with call.following() as store, stopped_by_signals() as goes_on:
        found = store.find_session(session)
        live = follow(
            store,
            found.id,
            after,
            until_idle=until_idle,
            wanted=lambda: goes_on() and need_reader(),
        )
        # Closed before the store is: following ends with a word to the writers.
        with closing(live) as events:
            if call.as_json:
                for event in events:
                    json_line(event)
                return
            known = store.ui_messages(found, view="all") if after else []
            with wrapped() as show:
                for pieces in readable(store, found.id, events, {m["id"] for m in known}):
                    show(pieces)


def readable(
    store: ChatStore, session_id: str, events: Iterable[Event], seen: set[str]
) -> Iterator[list[StyledText]]:
    """Turn events into text, with what the user said before each reply.

    The journal has only what streams in; whole messages are looked up once for each new reply.
    """
    live = EventText()
    messages: list[Json] = []
    for event in events:
        new = event.message_id
        if new is not None and new not in seen:
            if new not in {message["id"] for message in messages}:
                messages = store.ui_messages(session_id)
            for message in _before(messages, new):
                if message["id"] not in seen:
                    seen.add(message["id"])
                    yield [*_heading(message), *message_pieces(message["parts"])]
            seen.add(new)
        yield live.take(event)


def _before(messages: list[Json], message_id: str) -> Iterator[Json]:
    """Return what others said before a message; replies come as events of their own."""
    for message in messages:
        if message["id"] == message_id:
            return
        if message["role"] != "assistant":
            yield message


def _heading(message: Json) -> list[StyledText]:
    return header(message["role"], message["id"])
