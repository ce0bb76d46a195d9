"""Lineage: which session came from which, and why; where a conversation continues."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from threadkeep.base.tx import Row, Tx
from threadkeep.errors import Conflict
from threadkeep.state.context import Json, StateContext
from threadkeep.state.messages import append_messages, copy_message
from threadkeep.state.rewind import need_message, recount
from threadkeep.state.rows import insert_row, refresh_session_hash
from threadkeep.state.session_config import need_session, set_relation
from threadkeep.state.sessions import CONTINUED, INHERITED, check_id, marked
from threadkeep.state.side_values import put

_HOPS: Final = 100
_RESUME_HOPS: Final = 32
# A child is held where its parent is, by the same user and model.
_OF_PARENT: Final = (
    *("source", "user_id", "model", "model_config", "system_prompt", "system_prompt_hash"),
    *INHERITED,
)
_NODE: Final = (
    *("id", "parent_id", "title", "source", "started_at", "ended_at", "end_reason"),
    *("message_count", "relation"),
)


def get_compression_tip(ctx: StateContext, tx: Tx, session_id: str) -> str:
    """Return the session that continues a compressed one, at the end of the chain."""
    return compression_chain(ctx, tx, session_id)[-1]


def compression_chain(ctx: StateContext, tx: Tx, session_id: str) -> list[str]:
    """Follow compressions from a session to its newest continuation."""
    return _follow(ctx, tx, session_id, "continuation")


def compressed_before(ctx: StateContext, tx: Tx, session_id: str) -> list[str]:
    """Follow compressions from a session back to the first, which comes last."""
    return _follow(ctx, tx, session_id, "continued")


def _follow(ctx: StateContext, tx: Tx, session_id: str, query: str) -> list[str]:
    """Go from session to session as a query says, up to the last one."""
    chain = [session_id]
    while len(chain) <= _HOPS:
        found = tx.value(query, {**marked(ctx), "id": chain[-1]})
        if found is None or found in chain:
            break
        chain.append(str(found))
    return chain


def all_continuations(ctx: StateContext, tx: Tx, session_id: str) -> list[str]:
    """Return a session and everything in which it continues, also where there are several."""
    found = [session_id]
    for member in found:  # grows while it is walked
        rows = tx.all("continuations", {**marked(ctx), "id": member})
        found += [str(row[0]) for row in rows if row[0] not in found]
    return found


def get_compression_lineage(ctx: StateContext, tx: Tx, session_id: str) -> list[str]:
    """Return the whole chain of compressions that a session is part of, the oldest first.

    A branch, a delegate and a tool's session stand for themselves.
    """
    if tx.one("session_exists", {"id": session_id}) is None:
        return []
    if tx.one("is_fork", {"id": session_id}) is not None:
        return [session_id]
    first = _follow(ctx, tx, session_id, "lineage_parent")[-1]
    lineage = _follow(ctx, tx, first, "lineage_child")
    return lineage if session_id in lineage else [session_id]


def get_conversation_root(_ctx: StateContext, tx: Tx, session_id: str) -> str:
    """Return the first session in the chain of parents, whatever the relations."""
    chain = [session_id]
    while len(chain) < _HOPS:
        parent = tx.value("parent_of", {"id": chain[-1]})
        if not parent or parent in chain:
            break
        chain.append(str(parent))
    return chain[-1]


def resolve_resume_session_id(ctx: StateContext, tx: Tx, session_id: str) -> str:
    """Return the session to continue: the end of the chain, or the last one with messages.

    From the end of the chain it continues to children, never to branches and delegates. Version
    6 did not mark those: in its files only an empty session leads to its child.
    """
    chain = compression_chain(ctx, tx, session_id)
    if not ctx.form.answers.marked_lineage:
        filled = next((each for each in reversed(chain) if _has_messages(tx, each)), None)
        if filled is not None:
            return filled
    path = [chain[-1]]
    while len(path) < _RESUME_HOPS:
        child = tx.value("plain_child", {"id": path[-1]})
        if child is None or child in path:
            break
        path.append(str(child))
        if not ctx.form.answers.marked_lineage and _has_messages(tx, path[-1]):
            break
    return next((each for each in reversed(path) if _has_messages(tx, each)), path[0])


def _has_messages(tx: Tx, session_id: str) -> bool:
    return tx.one("any_message", {"session_id": session_id}) is not None


def get_lineage(_ctx: StateContext, tx: Tx, session_id: str) -> list[Json]:
    """Return a session's whole family, parents before children, the older first.

    Each is a dict with id, parent_id, title, source, times, message_count, `depth`, and `relation`
    to its parent: compression, branch or delegate; `inferred` if nobody said so explicitly.
    """
    root = _root(tx, session_id)
    row = tx.one("family_member", {"id": root})
    if row is None:
        return []
    nodes: list[Json] = []
    waiting: list[tuple[Row, int, Row | None]] = [(row, 0, None)]
    seen = {root}
    while waiting:
        row, depth, parent = waiting.pop()
        nodes.append(_node(row, depth, parent))
        children = tx.all("family_member_children", {"id": row[0]})
        fresh = [child for child in children if child[0] not in seen]
        seen.update(child[0] for child in fresh)
        waiting += [(child, depth + 1, row) for child in reversed(fresh)]
    return nodes


def _root(tx: Tx, session_id: str) -> str:
    current, seen = session_id, {session_id}
    while True:
        parent = tx.value("parent_of", {"id": current})
        if parent is None or parent in seen:
            return current
        seen.add(parent)
        current = str(parent)


def _node(row: Row, depth: int, parent: Row | None) -> Json:
    node = dict(zip(_NODE, row, strict=True))
    node["depth"] = depth
    node["inferred"] = node["relation"] is None and parent is not None
    if node["inferred"] and parent is not None:
        began, ended, reason = node["started_at"], parent[5], parent[6]
        node["relation"] = infer_relation(began, ended, reason)
    return node


def infer_relation(started_at: float, parent_ended_at: float | None, reason: str | None) -> str:
    """Guess what a child is to its parent from when it began and why the parent ended.

    After a compression it continues it; while the parent runs it works for it; else it
    branches off.
    """
    after_end = parent_ended_at is not None and started_at >= parent_ended_at
    if reason == "compression" and after_end:
        return "compression"
    return "branch" if after_end else "delegate"


# ---------------------------------------------------------------------- new members


def compress_session(
    ctx: StateContext,
    tx: Tx,
    session_id: str,
    new_session_id: str,
    messages: Iterable[Mapping[str, Any]] = (),
) -> str:
    """Continue a session in a new one that begins with `messages`, in one transaction.

    The old one is ended as compressed and keeps everything; give the id of the new one.
    """
    _begin_child(ctx, tx, session_id, new_session_id, "compression")
    now = ctx.clock()
    tx.run("end_compressed", {"id": session_id, "now": now})
    tx.run("start_after", {"id": new_session_id, "parent": session_id, "now": now})
    append_messages(ctx, tx, new_session_id, messages)
    if ctx.side:
        refresh_session_hash(tx, new_session_id)
    return new_session_id


def branch_session(
    ctx: StateContext, tx: Tx, session_id: str, new_session_id: str, *, up_to_id: int | None = None
) -> str:
    """Create a session with a copy of another's messages, up to and including `up_to_id`."""
    if up_to_id is not None:
        need_message(tx, session_id, up_to_id)
    _begin_child(ctx, tx, session_id, new_session_id, "branch")
    for (message_id,) in tx.all("active_ids", {"session_id": session_id}):
        if up_to_id is not None and message_id > up_to_id:
            break
        copy_message(ctx, tx, message_id, new_session_id)
    recount(tx, new_session_id)
    if ctx.side:
        refresh_session_hash(tx, new_session_id)
    return new_session_id


def _begin_child(ctx: StateContext, tx: Tx, parent: str, child: str, relation: str) -> None:
    need_session(tx, parent)
    if tx.one("session_exists", {"id": child}) is not None:
        msg = f"there is a session {child!r} already"
        raise Conflict(msg, hint="choose another id for the new session")
    check_id(child)
    whole = tx.dicts("stored_session", {"id": parent})[0]
    names = (*_OF_PARENT, *(CONTINUED if relation == "compression" else ()))
    values = {name: whole[name] for name in names if name in whole}
    own = {"id": child, "parent_session_id": parent, "started_at": ctx.clock()}
    insert_row(ctx, tx, "sessions", {**values, **own})
    for field, kind, value in tx.all("exact_session", {"key": parent}) if ctx.side else ():
        if field != "title":
            put(tx, "session", child, field, kind, value)
    set_relation(ctx, tx, child, parent, relation)
