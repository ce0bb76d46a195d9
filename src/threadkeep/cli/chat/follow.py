"""`threadkeep chat tail`: a session as it happens, from whatever process."""

from collections.abc import Iterable, Iterator
from contextlib import closing

import click

from threadkeep import ChatStore, Event
from threadkeep.chat.replies import follow
from threadkeep.cli.chat.live import EventText
from threadkeep.cli.chat.parts import Json, header, message_pieces
from threadkeep.cli.command import Call, session_argument, store_command
from threadkeep.cli.ending import need_reader, stopped_by_signals
from threadkeep.cli.output import json_line, wrapped
from threadkeep.cli.wrap import StyledText


@store_command("tail", "threadkeep chat tail last", "threadkeep chat tail last --until-idle --json")
@session_argument
@click.option("--after", default=0, metavar="SEQ", help="Only events after this number.")
@click.option("--until-idle", is_flag=True, help="End when nobody records the session any more.")
def tail(call: Call, *, session: str, after: int, until_idle: bool) -> None:
    """Follow a session live: text, thinking and tools as they stream in.

    With --json every event is one line, numbered by `seq`; go on later with --after.
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
    """Give what others said before a message; replies come as events of their own."""
    for message in messages:
        if message["id"] == message_id:
            return
        if message["role"] != "assistant":
            yield message


def _heading(message: Json) -> list[StyledText]:
    return header(message["role"], message["id"])
