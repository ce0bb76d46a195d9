"""Sessions of a state file by the names that people use: an id or its beginning, a title, `last`.

`SessionDB` has the verbs of Hermes, with its ids and its answers. These are the same sessions for
people and programs that want pages, names and plain answers.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from threadkeep.base.page import Cursor, Limit, Page, read_cursor, write_cursor
from threadkeep.base.verbs import Number, RowId, with_limits
from threadkeep.state.naming import (
    find_state_session,
    flags_of,
    messages_near,
    session_as_lines,
    session_lines,
)
from threadkeep.state.session_db import SessionDB

Json = dict[str, Any]
Relation = Literal["compression", "branch", "delegate"]
Seconds = Annotated[float, Meta(ge=0, le=1e11, description="A time in Unix seconds.")]
Near = Annotated[int, Meta(ge=0, le=100)]
Days = Annotated[float, Meta(ge=0, le=1e6)]
Money = Annotated[float, Meta(ge=0, le=1e12)]


class NewMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message to store."""

    role: Annotated[str, Meta(min_length=1, max_length=500)]
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
    idempotency_key: Annotated[str, Meta(min_length=1, max_length=500)] | None = None


class Pruned(msgspec.Struct, frozen=True):
    """Which sessions went, or would go."""

    dry_run: bool
    sessions: list[Json]
    deleted: int


class StateCheck(msgspec.Struct, frozen=True):
    """What a check of a state file found."""

    ok: bool
    problems: list[str]
    checked: int
    unhashed: int = 0


@with_limits
class NamedSessions:
    """The sessions of an open state file; `session` is an id, its beginning, a title, or `last`."""

    def __init__(self, store: SessionDB) -> None:
        self._store = store

    # ------------------------------------------------------------------ sessions

    def sessions(
        self,
        *,
        source: str | None = None,
        exclude: Sequence[str] = (),
        children: bool = False,
        archived: bool = False,
        by_activity: bool = False,
        min_messages: Number = 0,
        limit: Limit = 50,
        cursor: Cursor | None = None,
    ) -> Page[Json]:
        """List sessions, newest first; a compressed one as the session that continues it."""

        def listed(offset: int, count: int) -> list[Json]:
            return self._store.list_sessions_rich(
                source,
                exclude_sources=exclude,
                limit=count,
                offset=offset,
                include_children=children,
                order_by_last_active=by_activity,
                include_archived=archived,
                min_message_count=min_messages,
            )

        begin = 0
        if cursor:  # others may have come or gone since
            begin, last = read_cursor(cursor, int, str)
            if begin > 0 and _ids(listed(begin - 1, 1)) != [last]:
                ids = _ids(listed(0, -1))
                begin = ids.index(last) + 1 if last in ids else min(begin, len(ids))
            begin = max(begin, 0)
        found = listed(begin, limit + 1)
        page = found[:limit]
        flags = flags_of(self._store, _ids(page))
        more = write_cursor([begin + limit, page[-1]["id"]]) if len(found) > limit else None
        return Page([_shown(one, flags[one["id"]]) for one in page], more)

    def create_session(
        self,
        session_id: Annotated[str, Meta(min_length=1)],
        source: Annotated[str, Meta(min_length=1)],
        *,
        model: str | None = None,
        model_config: Json | None = None,
        system_prompt: str | None = None,
        user_id: str | None = None,
        parent_session_id: str | None = None,
        relation: Relation | None = None,
    ) -> Json:
        """Create a session, or return the one with this id; the first one creates the store."""
        self._store.create_session(
            session_id,
            source,
            model,
            model_config,
            system_prompt,
            user_id,
            parent_session_id,
            relation=relation,
        )
        return self._one(session_id)

    def session(self, session: str) -> Json:
        """Return a session by its id, a prefix of it, its title, or as `last`."""
        return self._one(self._id(session))

    def _id(self, session: str) -> str:
        return find_state_session(self._store, session)

    def _one(self, session_id: str) -> Json:
        flags = flags_of(self._store, [session_id])[session_id]
        return {**(self._store.get_session(session_id) or {}), **flags}

    def change(
        self,
        session: str,
        *,
        title: str | UnsetType | None = UNSET,
        system_prompt: str | UnsetType | None = UNSET,
        pinned: bool | UnsetType = UNSET,
        archived: bool | UnsetType = UNSET,
    ) -> Json:
        """Change the title or the system prompt; pin, unpin, archive or unarchive a session."""
        found = self._id(session)
        if title is not UNSET:  # first: only a title can be refused
            self._store.set_session_title(found, title)
        if system_prompt is not UNSET:
            self._store.update_system_prompt(found, system_prompt)
        if pinned is not UNSET:
            self._store.set_session_pinned(found, pinned)
        if archived is not UNSET:
            self._store.set_session_archived(found, archived)
        return self._one(found)

    def delete(self, session: str, *, dry_run: bool = False) -> list[str]:
        """Delete a session with its messages; a dry run unless `dry_run=false`."""
        found = self._id(session)
        if not dry_run:
            self._store.delete_sessions([found])
        return [found]

    def end(self, session: str, reason: str | None = None) -> Json:
        """End a session; only the first end counts."""
        found = self._id(session)
        self._store.end_session(found, reason)
        return self._one(found)

    def reopen(self, session: str) -> Json:
        """Reopen an ended session."""
        found = self._id(session)
        self._store.reopen_session(found)
        return self._one(found)

    # ------------------------------------------------------------------ family

    def lineage(self, session: str) -> list[Json]:
        """Return the whole family of a session, parents before children."""
        return self._store.get_lineage(self._id(session))

    def compress(
        self,
        session: str,
        new_session_id: Annotated[str, Meta(min_length=1)],
        messages: Sequence[Json] = (),
    ) -> Json:
        """End a session and continue in a new one that begins with the given messages."""
        found = self._id(session)
        return self._one(self._store.compress_session(found, new_session_id, messages))

    def branch(
        self,
        session: str,
        new_session_id: Annotated[str, Meta(min_length=1)],
        up_to_id: RowId | None = None,
    ) -> Json:
        """Create a new session with the messages of this one."""
        found = self._id(session)
        return self._one(self._store.branch_session(found, new_session_id, up_to_id=up_to_id))

    def relate(self, session: str, parent_id: str, relation: Relation) -> Json:
        """Set the relation of a session to its parent."""
        found = self._id(session)
        self._store.set_relation(found, parent_id, relation)
        return self._one(found)

    # ------------------------------------------------------------------ messages

    def messages(
        self, session: str, *, limit: Limit = 50, cursor: Cursor | None = None
    ) -> Page[Json]:
        """Return the messages of a session, in order."""
        after = read_cursor(cursor, int)[0] if cursor else None
        rows = self._store.get_messages(self._id(session), limit=limit + 1, after_id=after)
        page = rows[:limit]
        return Page(page, write_cursor([page[-1]["id"]]) if len(rows) > limit else None)

    def append(self, session: str, messages: Sequence[NewMessage]) -> list[int]:
        """Store messages in one transaction, all or none."""
        given = [_without_null(msgspec.structs.asdict(one)) for one in messages]
        return self._store.append_messages(self._id(session), given)

    def conversation(self, session: str) -> list[Json]:
        """Return a session as the conversation that is sent to a model."""
        return self._store.get_messages_as_conversation(self._id(session))

    def around(self, message: RowId, *, before: Near = 5, after: Near = 5) -> list[Json]:
        """Return a message with its neighbours."""
        return messages_near(self._store, message, before, after)

    def rewind(self, session: str, message_id: RowId) -> int:
        """Rewind a session to before a message; return the number of messages hidden."""
        done = self._store.rewind_to_message(self._id(session), message_id, any_role=True)
        return int(done["rewound_count"])

    def unrewind(self, session: str) -> int:
        """Undo the last rewind; return the number of messages restored."""
        return self._store.undo_rewind(self._id(session))

    def clear(self, session: str, *, dry_run: bool = False) -> int:
        """Delete all messages of a session; a dry run unless `dry_run: false`."""
        found = self._id(session)
        count = self._store.message_count(found)
        if not dry_run:
            self._store.clear_messages(found)
        return count

    # ------------------------------------------------------------------ search and usage

    def search(
        self,
        text: Annotated[str, Meta(max_length=2000)],
        *,
        session: str | None = None,
        source: Sequence[str] = (),
        exclude: Sequence[str] = (),
        role: Sequence[str] = (),
        since: Seconds | None = None,
        until: Seconds | None = None,
        sort: Literal["rank", "newest", "oldest"] = "rank",
        limit: Limit = 20,
        cursor: Cursor | None = None,
    ) -> Page[Json]:
        """Find words in what was said, called and answered."""
        offset = max(read_cursor(cursor, int)[0], 0) if cursor else 0
        found = self._store.search_messages(
            text,
            source or None,
            exclude or None,
            role or None,
            limit + 1,
            offset,
            since=since,
            until=until,
            sort=sort,
            session_id=None if session is None else self._id(session),
        )
        more = len(found) > limit
        return Page(found[:limit], write_cursor([offset + limit]) if more else None)

    def usage(
        self,
        by: Literal["model", "source", "day", "session"] = "model",
        *,
        since: Seconds | None = None,
        until: Seconds | None = None,
        source: str | None = None,
    ) -> list[Json]:
        """Sum up tokens and costs."""
        return self._store.usage(by, since=since, until=until, source=source)

    def count_tokens(
        self,
        session: str,
        *,
        input_tokens: Number = 0,
        output_tokens: Number = 0,
        cache_read_tokens: Number = 0,
        cache_write_tokens: Number = 0,
        reasoning_tokens: Number = 0,
        model: str | None = None,
        estimated_cost_usd: Money | None = None,
        actual_cost_usd: Money | None = None,
        absolute: bool = False,
        idempotency_key: Annotated[str, Meta(min_length=1, max_length=500)] | None = None,
    ) -> Json:
        """Count tokens and costs of a session; with `absolute`, they are the new totals."""
        found = self._id(session)
        self._store.update_token_counts(
            found,
            input_tokens,
            output_tokens,
            model,
            cache_read_tokens,
            cache_write_tokens,
            reasoning_tokens,
            estimated_cost_usd,
            actual_cost_usd,
            absolute=absolute,
            idempotency_key=idempotency_key,
        )
        return self._store.get_session(found) or {}

    # ------------------------------------------------------------------ out and in, care

    def export(self, session: str) -> Iterator[str]:
        """Export a session as JSON lines, which `import` accepts."""
        return session_as_lines(self._store, self._id(session))

    def import_lines(
        self,
        lines: Iterable[str | bytes],
        *,
        on_conflict: Literal["skip", "update", "replace", "error"] = "skip",
    ) -> Json:
        """Import what `export` returned, or Hermes's own export."""
        as_bytes = (one if isinstance(one, bytes) else one.encode() for one in lines)
        return self._store.import_sessions(session_lines(as_bytes), on_conflict=on_conflict)

    def prune(
        self,
        older_than_days: Days = 90,
        *,
        source: str | None = None,
        include_active: bool = False,
        dry_run: bool = False,
    ) -> Pruned:
        """Delete sessions that were not used for a long time; a dry run unless `dry_run: false`."""
        store, given = self._store, (older_than_days, source)
        found = store.prune_candidates(*given, include_active=include_active)
        gone = 0 if dry_run else store.prune_sessions(*given, include_active=include_active)
        return Pruned(dry_run, found, gone)

    def check(self, *, quick: bool = False) -> StateCheck:
        """Check file, rows and search index."""
        found = self._store.check(quick=quick)
        return StateCheck(not found, found, self._store.message_count())

    def reindex(self) -> int:
        """Rebuild the search index; return how many messages are in it."""
        self._store.reindex()
        return self._store.message_count()


def _ids(found: Sequence[Json]) -> list[str]:
    return [one["id"] for one in found]


def _shown(session: Json, flags: Json) -> Json:
    kept = {name: value for name, value in session.items() if name != "system_prompt"}
    return {**kept, **{name: flags.get(name) for name in ("pinned_at", "archived_at")}}


def _without_null(message: Json) -> Json:
    return {name: value for name, value in message.items() if value is not None}
