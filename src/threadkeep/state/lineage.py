"""Lineage: which session came from which, and why; where a conversation goes on."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from threadkeep.base.sqlite import Row, Tx
from threadkeep.errors import Conflict
from threadkeep.state.context import Context, Json
from threadkeep.state.copying import copy_message
from threadkeep.state.exact import put
from threadkeep.state.messages import append_messages
from threadkeep.state.rewind import need_message, recount
from threadkeep.state.rows import refresh_session_hash
from threadkeep.state.sessions import check_id, need_session, set_relation

_HOPS: Final = 100
_NODE: Final = (
    *("id", "parent_id", "title", "source", "started_at", "ended_at", "end_reason"),
    *("message_count", "relation"),
)


def get_compression_tip(ctx: Context, tx: Tx, session_id: str) -> str:
    """Give the session in which a compressed one goes on, at the end of the chain."""
    return compression_chain(ctx, tx, session_id)[-1]


def compression_chain(ctx: Context, tx: Tx, session_id: str) -> list[str]:
    """Follow compressions from a session to its newest continuation."""
    return _follow(ctx, tx, session_id, "compression_child")


def _follow(ctx: Context, tx: Tx, session_id: str, query: str) -> list[str]:
    """Go from session to session as a query says, up to the last one."""
    chain = [session_id]
    name = query if ctx.side else f"{query}_plain"
    while len(chain) <= _HOPS:
        found = tx.value(name, {"id": chain[-1]})
        if found is None or found in chain:
            break
        chain.append(str(found))
    return chain


def get_compression_lineage(ctx: Context, tx: Tx, session_id: str) -> list[str]:
    """Give the whole chain of compressions that a session is part of, the oldest first."""
    return [*_compressed(ctx, tx, session_id)[:0:-1], *compression_chain(ctx, tx, session_id)]


def compression_root(ctx: Context, tx: Tx, session_id: str) -> str:
    """Give the session that a chain of compressions began with."""
    return _compressed(ctx, tx, session_id)[-1]


def _compressed(ctx: Context, tx: Tx, session_id: str) -> list[str]:
    """Follow compressions from a session back to the first, which comes last."""
    return _follow(ctx, tx, session_id, "compression_parent")


def resolve_resume_session_id(ctx: Context, tx: Tx, session_id: str) -> str:
    """Give the session to go on with: the end of the chain, or the last one that has messages."""
    chain = compression_chain(ctx, tx, session_id)
    for candidate in reversed(chain):
        if tx.value("any_message", {"session_id": candidate}) is not None:
            return candidate
    return chain[-1]


def get_lineage(ctx: Context, tx: Tx, session_id: str) -> list[Json]:
    """Give a session's whole family, parents before children, the older first.

    Each is a dict with id, parent_id, title, source, times, message_count, `depth`, and `relation`
    to its parent: compression, branch or delegate; `inferred` if nobody said so explicitly.
    """
    root = _root(tx, session_id)
    name = "family_member" if ctx.side else "family_member_plain"
    row = tx.one(name, {"id": root})
    if row is None:
        return []
    nodes: list[Json] = []
    waiting: list[tuple[Row, int, Row | None]] = [(row, 0, None)]
    seen = {root}
    while waiting:
        row, depth, parent = waiting.pop()
        nodes.append(_node(row, depth, parent))
        children = tx.all(f"{name}_children", {"id": row[0]})
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

    After a compression it goes on with it; while the parent runs it works for it; else it
    branches off.
    """
    after_end = parent_ended_at is not None and started_at >= parent_ended_at
    if reason == "compression" and after_end:
        return "compression"
    return "branch" if after_end else "delegate"


# ---------------------------------------------------------------------- new members


def compress_session(
    ctx: Context,
    tx: Tx,
    session_id: str,
    new_session_id: str,
    messages: Iterable[Mapping[str, Any]] = (),
) -> str:
    """Let a session go on in a new one that begins with `messages`, in one transaction.

    The old one is ended as compressed and keeps everything; give the id of the new one.
    """
    _begin_child(ctx, tx, session_id, new_session_id, "compression")
    now = ctx.clock()
    tx.run("end_compressed", {"id": session_id, "now": now})
    tx.run("start_after", {"id": new_session_id, "parent": session_id, "now": now})
    append_messages(ctx, tx, new_session_id, messages)
    refresh_session_hash(tx, new_session_id)
    return new_session_id


def branch_session(
    ctx: Context, tx: Tx, session_id: str, new_session_id: str, *, up_to_id: int | None = None
) -> str:
    """Begin a new session with a copy of another's messages, up to and with `up_to_id`."""
    if up_to_id is not None:
        need_message(tx, session_id, up_to_id)
    _begin_child(ctx, tx, session_id, new_session_id, "branch")
    for (message_id,) in tx.all("active_ids", {"session_id": session_id}):
        if up_to_id is not None and message_id > up_to_id:
            break
        copy_message(ctx, tx, message_id, new_session_id)
    recount(tx, new_session_id)
    refresh_session_hash(tx, new_session_id)
    return new_session_id


def _begin_child(ctx: Context, tx: Tx, parent: str, child: str, relation: str) -> None:
    need_session(tx, parent)
    if tx.one("session_exists", {"id": child}) is not None:
        msg = f"there is a session {child!r} already"
        raise Conflict(msg, hint="choose another id for the new session")
    check_id(child)
    tx.run("insert_child", {"id": child, "parent": parent, "now": ctx.clock()})
    for field, kind, value in tx.all("exact_session", {"key": parent}):
        if field != "title":
            put(tx, "session", child, field, kind, value)
    set_relation(ctx, tx, child, parent, relation)
