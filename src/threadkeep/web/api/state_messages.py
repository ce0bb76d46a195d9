"""The state store: messages, search, usage, out and in, and care."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from threadkeep.base.limits import Number, RowId
from threadkeep.base.page import Cursor, Limit, Page, read_cursor, write_cursor
from threadkeep.base.verb_table import Given
from threadkeep.home.stores import Stores
from threadkeep.state.naming import (
    find_state_session,
    messages_near,
    session_as_lines,
    session_lines,
)
from threadkeep.verbs import ChangeCount, Verified
from threadkeep.web.api.state import OneState, finite
from threadkeep.web.api.verb import (
    ApiVerb,
    DryRun,
    Empty,
    GivenLines,
    Json,
    Lines,
    Name,
    Words,
    verb,
)

Seconds = Annotated[float, Meta(ge=0, le=1e11, description="A time in Unix seconds.")]
Near = Annotated[int, Meta(ge=0, le=100)]
Days = Annotated[float, Meta(ge=0, le=1e6)]
Money = Annotated[float, Meta(ge=0, le=1e12)]


class StateMessages(Given, frozen=True):
    """Which messages of a session."""

    session: Name
    limit: Limit = 50
    cursor: Cursor = ""


class NewMessage(Given, frozen=True):
    """A message to store."""

    role: Name
    content: Any = None
    tool_name: str | None = None
    tool_calls: list[Any] | None = None
    tool_call_id: str | None = None
    token_count: Number | None = None
    finish_reason: str | None = None
    reasoning: str | None = None
    reasoning_details: Any = None
    codex_reasoning_items: Any = None
    timestamp: Seconds | None = None
    idempotency_key: Name | None = None


class NewMessages(Given, frozen=True):
    """Messages to store, all or none."""

    messages: tuple[NewMessage, ...]


class StoredIds(msgspec.Struct, frozen=True):
    """The ids of messages that are stored."""

    ids: list[int]


class StateMessageRequest(Given, frozen=True):
    """A message, and how many of its neighbours."""

    message: RowId
    before: Near = 5
    after: Near = 5


class BackTo(Given, frozen=True):
    """The message that is taken back with everything after it."""

    message_id: RowId


class Clear(Given, frozen=True):
    """Whether all messages of a session shall really go."""

    dry_run: DryRun = True


class Cleared(msgspec.Struct, frozen=True):
    """How many messages went, or would go."""

    dry_run: bool
    messages: int


class StateSearch(Given, frozen=True):
    """Words, and where to look for them."""

    q: Words
    session: Name | None = None
    source: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    role: tuple[str, ...] = ()
    since: Seconds | None = None
    until: Seconds | None = None
    sort: Literal["rank", "newest", "oldest"] = "rank"
    limit: Limit = 20
    cursor: Cursor = ""


class StateUsage(Given, frozen=True):
    """How to sum up."""

    by: Literal["model", "source", "day", "session"] = "model"
    since: Seconds | None = None
    until: Seconds | None = None
    source: str | None = None


class Tokens(Given, frozen=True):
    """Tokens and costs to count; with `absolute` they are the new sums."""

    input_tokens: Number = 0
    output_tokens: Number = 0
    cache_read_tokens: Number = 0
    cache_write_tokens: Number = 0
    reasoning_tokens: Number = 0
    model: str | None = None
    estimated_cost_usd: Money | None = None
    actual_cost_usd: Money | None = None
    absolute: bool = False
    idempotency_key: Name | None = None


class OfSource(Given, frozen=True):
    """Of which source; without one, of all."""

    source: str | None = None


class StateImport(Given, frozen=True):
    """What becomes of a session that is there already."""

    on_conflict: Literal["skip", "update", "replace", "error"] = "skip"


class StatePrune(Given, frozen=True):
    """Which sessions to let go: those not used for so many days."""

    older_than_days: Days = 90
    source: str | None = None
    include_active: bool = False
    dry_run: DryRun = True


class Pruned(msgspec.Struct, frozen=True):
    """Which sessions went, or would go."""

    dry_run: bool
    sessions: list[Json]
    deleted: int


class Quick(Given, frozen=True):
    """How much to check."""

    quick: bool = False


# ---------------------------------------------------------------------- messages


def messages(stores: Stores, asked: StateMessages) -> Page[Json]:
    """Give the messages of a session, in order."""
    after = read_cursor(asked.cursor, int)[0] if asked.cursor else None
    store = stores.state("look")
    found = find_state_session(store, asked.session)
    rows = store.get_messages(found, limit=asked.limit + 1, after_id=after)
    page = finite(rows[: asked.limit])
    return Page(page, write_cursor([page[-1]["id"]]) if len(rows) > asked.limit else None)


def append(stores: Stores, asked: OneState, body: NewMessages) -> StoredIds:
    """Store messages in one transaction, all or none."""
    store = stores.state("change")
    found = find_state_session(store, asked.session)
    given = [_without_null(msgspec.structs.asdict(one)) for one in body.messages]
    return StoredIds(store.append_messages(found, given))


def _without_null(message: Json) -> Json:
    return {name: value for name, value in message.items() if value is not None}


def conversation(stores: Stores, asked: OneState) -> Page[Json]:
    """Give a session as the conversation that a model is given."""
    store = stores.state("look")
    found = find_state_session(store, asked.session)
    return Page(finite(store.get_messages_as_conversation(found)))


def around(stores: Stores, asked: StateMessageRequest) -> Page[Json]:
    """Give a message with its neighbours."""
    store = stores.state("look")
    return Page(finite(messages_near(store, asked.message, asked.before, asked.after)))


def rewind(stores: Stores, asked: OneState, body: BackTo) -> ChangeCount:
    """Take back a message and everything after it; give how many."""
    store = stores.state("change")
    found = find_state_session(store, asked.session)
    done = store.rewind_to_message(found, body.message_id, any_role=True)
    return ChangeCount(done["rewound_count"])


def unrewind(stores: Stores, asked: OneState, _: Empty) -> ChangeCount:
    """Bring back what the last rewind took; give how many."""
    store = stores.state("change")
    return ChangeCount(store.undo_rewind(find_state_session(store, asked.session)))


def clear(stores: Stores, asked: OneState, body: Clear) -> Cleared:
    """Delete all messages of a session; say `dry_run: false` to do it."""
    store = stores.state("change")
    found = find_state_session(store, asked.session)
    count = store.message_count(found)
    if not body.dry_run:
        store.clear_messages(found)
    return Cleared(body.dry_run, count)


# ---------------------------------------------------------------------- search and usage


def search(stores: Stores, asked: StateSearch) -> Page[Json]:
    """Find words in what was said, called and answered."""
    offset = max(read_cursor(asked.cursor, int)[0], 0) if asked.cursor else 0
    store = stores.state("ask")
    within = None if asked.session is None else find_state_session(store, asked.session)
    found = store.search_messages(
        asked.q,
        asked.source or None,
        asked.exclude or None,
        asked.role or None,
        asked.limit + 1,
        offset,
        since=asked.since,
        until=asked.until,
        sort=asked.sort,
        session_id=within,
    )
    page, more = found[: asked.limit], len(found) > asked.limit
    return Page(finite(page), write_cursor([offset + asked.limit]) if more else None)


def usage(stores: Stores, asked: StateUsage) -> Page[Json]:
    """Sum up tokens and costs."""
    given = msgspec.structs.asdict(asked)
    store = stores.state("look")
    return Page(finite(store.usage(given.pop("by"), **given)))


def count_tokens(stores: Stores, asked: OneState, body: Tokens) -> Json:
    """Count tokens and costs of a session."""
    store = stores.state("change")
    found = find_state_session(store, asked.session)
    store.update_token_counts(found, **msgspec.structs.asdict(body))
    session: Json = finite(store.get_session(found))
    return session


def counts(stores: Stores, _: Empty) -> dict[str, int]:
    """Count the sessions of each source."""
    store = stores.state("look")
    return store.session_count_by_source()


# ---------------------------------------------------------------------- out and in


def export_session(stores: Stores, asked: OneState) -> Lines:
    """Give a session as JSON lines, which `import` takes."""

    def lines() -> Iterator[str]:
        store = stores.state("look")
        yield from session_as_lines(store, find_state_session(store, asked.session))

    return Lines(lines())


def export(stores: Stores, asked: OfSource) -> Lines:
    """Give all sessions as JSON lines, oldest first."""

    def lines() -> Iterator[str]:
        store = stores.state("look")
        yield from store.iter_export(asked.source)

    return Lines(lines())


def import_lines(stores: Stores, asked: StateImport, body: GivenLines) -> Json:
    """Take in what `export` gave, or Hermes's own export."""
    given = session_lines(body.raw.splitlines(keepends=True))
    return stores.state("begin").import_sessions(given, on_conflict=asked.on_conflict)


# ---------------------------------------------------------------------- care


def prune(stores: Stores, _: Empty, body: StatePrune) -> Pruned:
    """Let go what was not used for long; say `dry_run: false` to do it."""
    store = stores.state("change")
    given = (body.older_than_days, body.source)
    found = store.prune_candidates(*given, include_active=body.include_active)
    gone = 0
    if not body.dry_run:
        gone = store.prune_sessions(*given, include_active=body.include_active)
    return Pruned(body.dry_run, finite(found), gone)


def check(stores: Stores, asked: Quick) -> Verified:
    """Check file, rows and search index."""
    store = stores.state("ask")
    found = store.check(quick=asked.quick)
    return Verified(not found, found, store.message_count())


def size(stores: Stores, _: Empty) -> Json:
    """Measure the store."""
    store = stores.state("look")
    found: Json = finite(store.size_report())
    return found


def compact(stores: Stores, _: Empty, __: Empty) -> Json:
    """Make the file smaller without losing anything."""
    return stores.state("change").compact()


def reindex(stores: Stores, _: Empty, __: Empty) -> ChangeCount:
    """Build the search index anew; give how many messages are in it."""
    store = stores.state("change")
    store.reindex()
    return ChangeCount(store.message_count())


_ONE = "/state/sessions/{session}"
VERBS: tuple[ApiVerb, ...] = (
    verb("GET", f"{_ONE}/messages", messages),
    verb("POST", f"{_ONE}/messages", append, 201),
    verb("GET", f"{_ONE}/conversation", conversation),
    verb("POST", f"{_ONE}/rewind", rewind),
    verb("POST", f"{_ONE}/unrewind", unrewind),
    verb("POST", f"{_ONE}/clear", clear),
    verb("POST", f"{_ONE}/usage", count_tokens),
    verb("GET", f"{_ONE}/export", export_session),
    verb("GET", "/state/messages/{message}/around", around),
    verb("GET", "/state/search", search),
    verb("GET", "/state/usage", usage),
    verb("GET", "/state/counts", counts),
    verb("GET", "/state/export", export),
    verb("POST", "/state/import", import_lines),
    verb("POST", "/state/prune", prune),
    verb("GET", "/state/check", check),
    verb("GET", "/state/size", size),
    verb("POST", "/state/compact", compact),
    verb("POST", "/state/reindex", reindex),
)
