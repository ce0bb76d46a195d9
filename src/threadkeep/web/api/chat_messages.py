"""The chat store: messages, the queue of turns, search, out and in, and care."""

from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec

from threadkeep.chat.records import Event, Message
from threadkeep.chat.search import ChatHit
from threadkeep.chat.sessions import PruneReport, SizeReport
from threadkeep.chat.transfer import ImportReport
from threadkeep.chat.views import View
from threadkeep.errors import Conflict
from threadkeep.home.stores import Stores
from threadkeep.web.api.chat import OneChat
from threadkeep.web.api.verb import (
    Cursor,
    DryRun,
    Empty,
    GivenLines,
    Json,
    Limit,
    Lines,
    Moment,
    Name,
    Number,
    ResultPage,
    Strict,
    Verb,
    Words,
    read_cursor,
    verb,
    write_cursor,
)


class ChatMessages(Strict, frozen=True):
    """Which messages of a session."""

    session: Name
    view: View = "transcript"
    limit: Limit = 50
    cursor: Cursor = ""


class OneMessage(Strict, frozen=True):
    """A message of a session."""

    session: Name
    message: Name


class NewChatMessage(Strict, frozen=True):
    """What somebody says: a text, or parts in the AI SDK's shape."""

    text: str | None = None
    parts: tuple[Json, ...] = ()
    metadata: Json = msgspec.field(default_factory=dict)
    message_id: Name | None = None

    @property
    def words(self) -> str | list[Json]:
        """What the store takes."""
        return list(self.parts) if self.text is None else self.text


class UiMessage(Strict, frozen=True):
    """A whole message in the AI SDK's shape."""

    role: str
    parts: tuple[Json, ...]
    metadata: Json = msgspec.field(default_factory=dict)


class Journal(Strict, frozen=True):
    """Which entries of a session's journal."""

    session: Name
    limit: Limit = 50
    cursor: Cursor = ""


class ChatSearch(Strict, frozen=True):
    """Words, and where to look for them."""

    q: Words
    session: Name | None = None
    agent: str | None = None
    role: str | None = None
    archived: bool = False
    hidden: bool = False
    since: Moment | None = None
    until: Moment | None = None
    limit: Limit = 20


class ChatExport(Strict, frozen=True):
    """Which sessions to export."""

    agent: str | None = None


class ChatImport(Strict, frozen=True):
    """How to import: with `replace` a session that is there gives way."""

    replace: bool = False


class Prune(Strict, frozen=True):
    """Which sessions to let go: older than a time, or all but the newest so many."""

    before: Moment | None = None
    keep: Number | None = None
    agent: str | None = None
    archived_only: bool = False
    dry_run: DryRun = True


class Verified(msgspec.Struct, frozen=True):
    """What a check found."""

    ok: bool
    problems: list[str]
    checked: int
    unhashed: int = 0


class NewSystemPrompt(Strict, frozen=True):
    """A system prompt."""

    body: str


class Digest(Strict, frozen=True):
    """The digest of a system prompt."""

    digest: Name


class SystemPrompt(msgspec.Struct, frozen=True):
    """A system prompt that is kept."""

    digest: str
    body: str


class ChangeCount(msgspec.Struct, frozen=True):
    """Whether, or how often, something was done."""

    done: int


# ---------------------------------------------------------------------- messages


def messages(stores: Stores, asked: ChatMessages) -> ResultPage[Json]:
    """Give the messages of a session in the AI SDK's shape, in order."""
    chat = stores.chat("ask")
    found = chat.ui_messages(asked.session, asked.view)
    begin = _behind(found, asked.cursor) if asked.cursor else 0
    page = found[begin : begin + asked.limit]
    more = begin + asked.limit < len(found)
    return ResultPage(page, write_cursor([page[-1]["id"]]) if more else None)


def _behind(messages: Sequence[Json], cursor: str) -> int:
    """Find the place behind the message of a cursor."""
    (last,) = read_cursor(cursor, str)
    places = (place for place, one in enumerate(messages) if one["id"] == last)
    place = next(places, None)
    if place is None:
        raise Conflict(f"the message {last[:80]!r} is not shown any more", hint="begin anew")
    return place + 1


def message(stores: Stores, asked: OneMessage) -> Json:
    """Give one message in the AI SDK's shape."""
    chat = stores.chat("ask")
    return chat.message(asked.session, asked.message)


def say(stores: Stores, asked: OneChat, body: NewChatMessage) -> Message:
    """Add what the user says."""
    chat = stores.chat("change")
    said, name = body.metadata, body.message_id
    return chat.say(asked.session, body.words, metadata=said, message_id=name)


def put_message(stores: Stores, asked: OneMessage, body: UiMessage) -> Message:
    """Store a whole message, or put it in the place of the one that is there."""
    given = {"id": asked.message, **msgspec.to_builtins(body)}
    return stores.chat("change").put_message(asked.session, given)


def journal(stores: Stores, asked: Journal) -> ResultPage[Event]:
    """Give what is in the journal of a session, in order."""
    after = max(read_cursor(asked.cursor, int)[0], 0) if asked.cursor else 0
    chat = stores.chat("ask")
    events = chat.tail(asked.session, after, follow=False)
    found = list(islice(events, asked.limit + 1))
    page = found[: asked.limit]
    return ResultPage(page, write_cursor([page[-1].seq]) if len(found) > asked.limit else None)


# ---------------------------------------------------------------------- the queue


def queue(stores: Stores, asked: OneChat) -> ResultPage[Message]:
    """List the messages that wait for their turn."""
    chat = stores.chat("ask")
    return ResultPage(chat.queued(asked.session))


def enqueue(stores: Stores, asked: OneChat, body: NewChatMessage) -> Message:
    """Let a message wait for its turn."""
    chat = stores.chat("change")
    said, name = body.metadata, body.message_id
    return chat.enqueue(asked.session, body.words, metadata=said, message_id=name)


def fire(stores: Stores, asked: OneChat, _: Empty) -> Message | None:
    """Take the next message out of the queue and make it a turn."""
    return stores.chat("change").fire(asked.session)


def unfire(stores: Stores, asked: OneMessage, _: Empty) -> ChangeCount:
    """Put a message that was fired back into the queue."""
    return ChangeCount(int(stores.chat("change").unfire(asked.session, asked.message)))


def cancel(stores: Stores, asked: OneMessage, _: Empty) -> ChangeCount:
    """Take a message out of the queue."""
    return ChangeCount(int(stores.chat("change").cancel(asked.session, asked.message)))


# ---------------------------------------------------------------------- search, out and in


def search(stores: Stores, asked: ChatSearch) -> ResultPage[ChatHit]:
    """Find words in what was said, the best first."""
    given = msgspec.structs.asdict(asked)
    chat = stores.chat("ask")
    return ResultPage(chat.search(given.pop("q"), **given))


def export_session(stores: Stores, asked: OneChat) -> Lines:
    """Give a session as JSON lines, which `import` takes."""

    def lines() -> Iterator[str]:
        chat = stores.chat("ask")
        yield from chat.export(asked.session)

    return Lines(lines())


def export(stores: Stores, asked: ChatExport) -> Lines:
    """Give all sessions as JSON lines, oldest first."""

    def lines() -> Iterator[str]:
        chat = stores.chat("ask")
        yield from chat.export_all(agent=asked.agent)

    return Lines(lines())


def import_lines(stores: Stores, asked: ChatImport, body: GivenLines) -> ImportReport:
    """Take in what `export` gave; a session is stored whole or not at all."""
    lines = stores.home.checked_input(body.raw.splitlines(keepends=True))
    return stores.chat("begin").import_sessions(lines, replace=asked.replace)


# ---------------------------------------------------------------------- care


def prune(stores: Stores, _: Empty, body: Prune) -> PruneReport:
    """Let old sessions go; say `dry_run: false` to do it."""
    return stores.chat("change").prune(**msgspec.structs.asdict(body))


def verify(stores: Stores, _: Empty) -> Verified:
    """Compare every row with its fingerprint."""
    chat = stores.chat("ask")
    found = chat.verify(adopt=False)
    return Verified(found.ok, found.problems, found.checked, found.unhashed)


def size(stores: Stores, _: Empty) -> SizeReport:
    """Measure the store."""
    chat = stores.chat("ask")
    return chat.size()


def reindex(stores: Stores, _: Empty, __: Empty) -> ChangeCount:
    """Build the search index anew."""
    stores.chat("change").reindex()
    return ChangeCount(1)


def vacuum(stores: Stores, _: Empty, __: Empty) -> ChangeCount:
    """Write the file anew without its free pages; give the bytes that it gained."""
    return ChangeCount(stores.chat("change").vacuum())


def keep_prompt(stores: Stores, _: Empty, body: NewSystemPrompt) -> SystemPrompt:
    """Keep a system prompt once, under its digest."""
    return SystemPrompt(stores.chat("begin").put_system_prompt(body.body), body.body)


def system_prompt(stores: Stores, asked: Digest) -> SystemPrompt:
    """Give a system prompt by its digest."""
    chat = stores.chat("ask")
    return SystemPrompt(asked.digest, chat.system_prompt(asked.digest))


_ONE = "/chat/sessions/{session}"
VERBS: tuple[Verb, ...] = (
    verb("GET", f"{_ONE}/messages", messages),
    verb("POST", f"{_ONE}/messages", say, 201),
    verb("GET", f"{_ONE}/messages/{{message}}", message),
    verb("PUT", f"{_ONE}/messages/{{message}}", put_message),
    verb("GET", f"{_ONE}/journal", journal),
    verb("GET", f"{_ONE}/queue", queue),
    verb("POST", f"{_ONE}/queue", enqueue, 201),
    verb("POST", f"{_ONE}/queue/fire", fire),
    verb("POST", f"{_ONE}/queue/{{message}}/unfire", unfire),
    verb("POST", f"{_ONE}/queue/{{message}}/cancel", cancel),
    verb("GET", f"{_ONE}/export", export_session),
    verb("GET", "/chat/search", search),
    verb("GET", "/chat/export", export),
    verb("POST", "/chat/import", import_lines),
    verb("POST", "/chat/prune", prune),
    verb("GET", "/chat/verify", verify),
    verb("GET", "/chat/size", size),
    verb("POST", "/chat/reindex", reindex),
    verb("POST", "/chat/vacuum", vacuum),
    verb("POST", "/chat/system-prompts", keep_prompt, 201),
    verb("GET", "/chat/system-prompts/{digest}", system_prompt),
)
