"""The state store: sessions, their family, and what is done to one of them."""

import math
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from threadkeep import SessionDB
from threadkeep.base.limits import Number, RowId
from threadkeep.base.page import Cursor, Limit, Page, read_cursor, write_cursor
from threadkeep.base.verb_table import Given
from threadkeep.home.stores import Stores
from threadkeep.state.naming import find_state_session, flags_of
from threadkeep.verbs import DeleteReport
from threadkeep.web.api.verb import ApiVerb, DryRun, Empty, Json, Name, verb


class OneState(Given, frozen=True):
    """A session: its id, a beginning of it, its title, or `last`."""

    session: Name


class StateList(Given, frozen=True):
    """Which sessions to list."""

    source: str | None = None
    exclude: tuple[str, ...] = ()
    children: bool = False
    archived: bool = False
    by_activity: bool = False
    min_messages: Number = 0
    limit: Limit = 50
    cursor: Cursor = ""


class NewState(Given, frozen=True):
    """A session to begin."""

    session_id: Name
    source: Name
    model: str | None = None
    model_config: Json | None = None
    system_prompt: str | None = None
    user_id: str | None = None
    parent_session_id: Name | None = None
    relation: Literal["compression", "branch", "delegate"] | None = None


class StateChange(Given, frozen=True):
    """What to change of a session; what is left out stays."""

    title: str | UnsetType | None = UNSET
    system_prompt: str | UnsetType | None = UNSET
    pinned: bool | UnsetType = UNSET
    archived: bool | UnsetType = UNSET


class End(Given, frozen=True):
    """Why a session ends."""

    reason: str | None = None


class DeleteState(Given, frozen=True):
    """A session to delete."""

    session: Name
    dry_run: DryRun = True


class Continuation(Given, frozen=True):
    """The session in which a compressed one goes on, and what it begins with."""

    new_session_id: Name
    messages: tuple[Json, ...] = ()


class Branch(Given, frozen=True):
    """A new session that has the messages of another up to one of them."""

    new_session_id: Name
    up_to_id: RowId | None = None


class Relation(Given, frozen=True):
    """What a session is to another."""

    parent_id: Name
    relation: Literal["compression", "branch", "delegate"]


def sessions(stores: Stores, asked: StateList) -> Page[Json]:
    """List sessions, newest first; a compressed one as the session in which it goes on."""
    store = stores.state("look")
    begin = _begin(store, asked)
    found = _listed(store, asked, begin, asked.limit + 1)
    page, more = found[: asked.limit], len(found) > asked.limit
    flags = flags_of(store, [one["id"] for one in page])
    shown = [_shown(one, flags[one["id"]]) for one in page]
    return Page(shown, write_cursor([begin + len(page), page[-1]["id"]]) if more else None)


def _listed(store: SessionDB, asked: StateList, offset: int, limit: int) -> list[Json]:
    return store.list_sessions_rich(
        asked.source,
        exclude_sources=asked.exclude,
        limit=limit,
        offset=offset,
        include_children=asked.children,
        order_by_last_active=asked.by_activity,
        include_archived=asked.archived,
        min_message_count=asked.min_messages,
    )


def _begin(store: SessionDB, asked: StateList) -> int:
    """Find the place behind the session of a cursor, also where others came or went since."""
    if not asked.cursor:
        return 0
    place: int
    place, last = read_cursor(asked.cursor, int, str)
    if place < 1 or _ids(_listed(store, asked, place - 1, 1)) == [last]:
        return max(place, 0)
    ids = _ids(_listed(store, asked, 0, -1))
    return ids.index(last) + 1 if last in ids else min(place, len(ids))


def _ids(found: Sequence[Json]) -> list[str]:
    return [one["id"] for one in found]


def _shown(session: Json, flags: Json) -> Json:
    kept = {name: value for name, value in session.items() if name != "system_prompt"}
    at = {name: flags.get(name) for name in ("pinned_at", "archived_at")}
    found: Json = finite({**kept, **at})
    return found


def finite(value: Any) -> Any:
    """Copy a stored value: a number that JSON does not know becomes its name."""
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def create_session(stores: Stores, _: Empty, body: NewState) -> Json:
    """Begin a session, or give the one that has this id; the store is begun with the first."""
    store = stores.state("begin")
    store.create_session(**msgspec.structs.asdict(body))
    return _one(store, body.session_id)


def _one(store: SessionDB, session_id: str) -> Json:
    flags = flags_of(store, [session_id])[session_id]
    found: Json = finite({**(store.get_session(session_id) or {}), **flags})
    return found


def session(stores: Stores, asked: OneState) -> Json:
    """Give a session by its id, a beginning of it, its title, or as `last`."""
    store = stores.state("look")
    return _one(store, find_state_session(store, asked.session))


def change_session(stores: Stores, asked: OneState, body: StateChange) -> Json:
    """Change the title or the system prompt; pin or archive it, or take that back."""
    store = stores.state("change")
    found = find_state_session(store, asked.session)
    if body.title is not UNSET:  # first: only a title can be refused
        store.set_session_title(found, body.title)
    if body.system_prompt is not UNSET:
        store.update_system_prompt(found, body.system_prompt)
    if body.pinned is not UNSET:
        store.set_session_pinned(found, body.pinned)
    if body.archived is not UNSET:
        store.set_session_archived(found, body.archived)
    return _one(store, found)


def delete_session(stores: Stores, asked: DeleteState) -> DeleteReport:
    """Delete a session with its messages for good; say `dry_run=false` to do it."""
    store = stores.state("change")
    found = find_state_session(store, asked.session)
    if not asked.dry_run:
        store.delete_sessions([found])
    return DeleteReport(asked.dry_run, (found,))


def end(stores: Stores, asked: OneState, body: End) -> Json:
    """End a session; the first end is the one that counts."""
    store = stores.state("change")
    found = find_state_session(store, asked.session)
    store.end_session(found, body.reason)
    return _one(store, found)


def reopen(stores: Stores, asked: OneState, _: Empty) -> Json:
    """Make an ended session one that goes on."""
    store = stores.state("change")
    found = find_state_session(store, asked.session)
    store.reopen_session(found)
    return _one(store, found)


def lineage(stores: Stores, asked: OneState) -> Page[Json]:
    """Give the whole family of a session, parents before children."""
    store = stores.state("look")
    return Page(finite(store.get_lineage(find_state_session(store, asked.session))))


def compress(stores: Stores, asked: OneState, body: Continuation) -> Json:
    """End a session and go on in a new one, which begins with what is given."""
    store = stores.state("change")
    found = find_state_session(store, asked.session)
    return _one(store, store.compress_session(found, body.new_session_id, body.messages))


def branch(stores: Stores, asked: OneState, body: Branch) -> Json:
    """Begin a new session with the messages of this one."""
    store = stores.state("change")
    found = find_state_session(store, asked.session)
    return _one(store, store.branch_session(found, body.new_session_id, up_to_id=body.up_to_id))


def relate(stores: Stores, asked: OneState, body: Relation) -> Json:
    """Say what a session is to its parent."""
    store = stores.state("change")
    found = find_state_session(store, asked.session)
    store.set_relation(found, body.parent_id, body.relation)
    return _one(store, found)


_ONE = "/state/sessions/{session}"
VERBS: tuple[ApiVerb, ...] = (
    verb("GET", "/state/sessions", sessions),
    verb("POST", "/state/sessions", create_session, 201),
    verb("GET", _ONE, session),
    verb("PATCH", _ONE, change_session),
    verb("DELETE", _ONE, delete_session),
    verb("POST", f"{_ONE}/end", end),
    verb("POST", f"{_ONE}/reopen", reopen),
    verb("GET", f"{_ONE}/lineage", lineage),
    verb("POST", f"{_ONE}/compress", compress, 201),
    verb("POST", f"{_ONE}/branch", branch, 201),
    verb("PUT", f"{_ONE}/relation", relate),
)
