"""The chat store: sessions, and what is done to one of them."""

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from threadkeep import ChatStore
from threadkeep.chat.diff import SessionDiff
from threadkeep.chat.permissions import Verdict
from threadkeep.chat.records import Message, Run, Session
from threadkeep.chat.usage import Timeline
from threadkeep.chat.views import View
from threadkeep.home.stores import Stores
from threadkeep.web.api.verb import (
    Cursor,
    DryRun,
    Empty,
    Json,
    Limit,
    Name,
    ResultPage,
    Strict,
    Verb,
    verb,
)


class OneChat(Strict, frozen=True):
    """A session, by its id."""

    session: Name


class ChatList(Strict, frozen=True):
    """Which sessions to list."""

    agent: str | None = None
    workspace: str | None = None
    parent: Name | None = None
    title: str | None = None
    archived: Literal["no", "only", "any"] = "no"
    ephemeral: bool = False
    limit: Limit = 50
    cursor: Cursor = ""


class NewChat(Strict, frozen=True):
    """A session to begin."""

    agent: str
    model: str | Json
    workspace_root: str = ""
    title: str | None = None
    metadata: Json = msgspec.field(default_factory=dict)
    permissions: tuple[Json, ...] = ()
    session_id: Name | None = None
    parent_id: Name | None = None
    parent_message_id: Name | None = None
    workspace_id: str | None = None
    mode: str | None = None


class ChatChange(Strict, frozen=True):
    """What to change of a session; what is left out stays."""

    title: str | UnsetType | None = UNSET
    archived: bool | UnsetType = UNSET
    metadata: Json | UnsetType = UNSET
    permissions: tuple[Json, ...] | UnsetType = UNSET


class ChatView(Strict, frozen=True):
    """A session, and which of its messages."""

    session: Name
    view: View = "transcript"


class DeleteChat(Strict, frozen=True):
    """A session to delete."""

    session: Name
    dry_run: DryRun = True


class DeleteReport(msgspec.Struct, frozen=True):
    """What was deleted, or would be."""

    dry_run: bool
    deleted: tuple[str, ...]


class Fork(Strict, frozen=True):
    """Where to branch off; without a message at the end."""

    message: Name | None = None
    title: str | None = None
    metadata: Json = msgspec.field(default_factory=dict)


class Rewind(Strict, frozen=True):
    """The message to go back to; with `inclusive` it is hidden, too."""

    message: Name
    inclusive: bool = False


class Changed(msgspec.Struct, frozen=True):
    """The messages that were changed."""

    messages: tuple[str, ...]


class Compaction(Strict, frozen=True):
    """A summary that stands for what came before it."""

    summary: str
    tail_start: Name | None = None
    tail_turns: int | None = None
    auto: bool = False


class Used(msgspec.Struct, frozen=True):
    """What a session used, with the sessions that it started."""

    tokens: dict[str, int]
    cost_usd: float


class UseMore(Strict, frozen=True):
    """What was used, to be added or, with `replace`, put in the place of what is there."""

    usage: Json
    message: Name | None = None
    cost_usd: float | None = None
    replace: bool = False


class Judge(Strict, frozen=True):
    """Something that an agent wants to do."""

    permission: Name
    target: str
    headless: bool = False


class Compare(Strict, frozen=True):
    """Two sessions to compare."""

    left: Name
    right: Name
    view: View = "transcript"


def sessions(stores: Stores, asked: ChatList) -> ResultPage[Session]:
    """List sessions, newest first."""
    given = msgspec.structs.asdict(asked)
    archived = {"no": False, "only": True, "any": None}[given.pop("archived")]
    cursor = given.pop("cursor") or None
    chat = stores.chat("ask")
    page = chat.sessions(**given, archived=archived, cursor=cursor)
    return ResultPage(page.items, page.next_cursor)


def create_session(stores: Stores, _: Empty, body: NewChat) -> Session:
    """Begin a session; the store is begun with the first."""
    return stores.chat("begin").create_session(**msgspec.structs.asdict(body))


def session(stores: Stores, asked: OneChat) -> Session:
    """Give a session by its id, or by a beginning of it that only one has."""
    chat = stores.chat("ask")
    return chat.find_session(asked.session)


def change_session(stores: Stores, asked: OneChat, body: ChatChange) -> Session:
    """Change title, metadata, permissions, or whether it is archived; a title null is none."""
    chat = stores.chat("change")
    found = chat.session(asked.session)
    if body.permissions is not UNSET:  # first: only these can be refused
        found = chat.set_permissions(found, body.permissions)
    if body.metadata is not UNSET:
        found = chat.set_metadata(found, body.metadata)
    if body.title is not UNSET:
        found = chat.set_title(found, body.title)
    if body.archived is not UNSET:
        found = chat.archive(found) if body.archived else chat.unarchive(found)
    return found


def delete_session(stores: Stores, asked: DeleteChat) -> DeleteReport:
    """Delete a session with its messages for good; say `dry_run=false` to do it."""
    chat = stores.chat("change")
    found = chat.session(asked.session)
    if not asked.dry_run:
        chat.delete(found)
    return DeleteReport(asked.dry_run, (found.id,))


def fork(stores: Stores, asked: OneChat, body: Fork) -> Session:
    """Branch off a session at a message."""
    chat = stores.chat("change")
    return chat.fork(asked.session, body.message, metadata=body.metadata, title=body.title)


def rewind(stores: Stores, asked: OneChat, body: Rewind) -> Changed:
    """Hide what came after a message."""
    chat = stores.chat("change")
    return Changed(tuple(chat.rewind(asked.session, body.message, inclusive=body.inclusive)))


def unrewind(stores: Stores, asked: OneChat, _: Empty) -> Changed:
    """Show again what the last rewind hid."""
    return Changed(tuple(stores.chat("change").unrewind(asked.session)))


def compact(stores: Stores, asked: OneChat, body: Compaction) -> Message:
    """Put a summary in the place of what was said before, for the model's view."""
    chat = stores.chat("change")
    return chat.compact(
        asked.session,
        body.summary,
        tail_start=body.tail_start,
        tail_turns=body.tail_turns,
        auto=body.auto,
    )


def repair(stores: Stores, asked: OneChat, _: Empty) -> Changed:
    """Settle tool calls that never got a result."""
    return Changed(tuple(stores.chat("change").repair_orphans(asked.session)))


def timeline(stores: Stores, asked: ChatView) -> Timeline:
    """Tell a session turn by turn, with what each used and the runs that made it."""
    chat = stores.chat("ask")
    return chat.timeline(asked.session, asked.view)


def usage(stores: Stores, asked: OneChat) -> Used:
    """Sum up tokens and cost of a session and of those that it started."""
    chat = stores.chat("ask")
    return Used(*chat.spend(asked.session))


def add_usage(stores: Stores, asked: OneChat, body: UseMore) -> Used:
    """Count what was used, for a session or for one message of it."""
    chat = stores.chat("change")
    _add_usage(chat, asked.session, body)
    return Used(*chat.spend(asked.session))


def _add_usage(chat: ChatStore, session_id: str, body: UseMore) -> None:
    chat.record_usage(
        session_id,
        body.usage,
        message=body.message,
        cost_usd=body.cost_usd,
        replace=body.replace,
    )


def runs(stores: Stores, asked: OneChat) -> ResultPage[Run]:
    """List the runs of a session."""
    chat = stores.chat("ask")
    return ResultPage(chat.runs(asked.session))


def judge(stores: Stores, asked: OneChat, body: Judge) -> Verdict:
    """Say what the rules of a session allow."""
    chat = stores.chat("change")
    return chat.judge(asked.session, body.permission, body.target, headless=body.headless)


def diff(stores: Stores, asked: Compare) -> SessionDiff:
    """Compare two sessions message by message."""
    chat = stores.chat("ask")
    return chat.diff(asked.left, asked.right, asked.view)


_ONE = "/chat/sessions/{session}"
VERBS: tuple[Verb, ...] = (
    verb("GET", "/chat/sessions", sessions),
    verb("POST", "/chat/sessions", create_session, 201),
    verb("GET", _ONE, session),
    verb("PATCH", _ONE, change_session),
    verb("DELETE", _ONE, delete_session),
    verb("POST", f"{_ONE}/fork", fork, 201),
    verb("POST", f"{_ONE}/rewind", rewind),
    verb("POST", f"{_ONE}/unrewind", unrewind),
    verb("POST", f"{_ONE}/compact", compact, 201),
    verb("POST", f"{_ONE}/repair", repair),
    verb("GET", f"{_ONE}/timeline", timeline),
    verb("GET", f"{_ONE}/usage", usage),
    verb("POST", f"{_ONE}/usage", add_usage),
    verb("GET", f"{_ONE}/runs", runs),
    verb("POST", f"{_ONE}/judge", judge),
    verb("GET", "/chat/diff", diff),
)
