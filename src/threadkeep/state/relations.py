"""What a session is to its parent: said with marks in model_config, which Hermes reads, too."""

from typing import Final

from threadkeep.base.tx import Tx
from threadkeep.errors import Invalid, NotFound
from threadkeep.state.context import StateContext
from threadkeep.state.model_config import read_config
from threadkeep.state.rows import update_session
from threadkeep.state.session_config import change_config

RELATIONS: Final = ("compression", "branch", "delegate")
# Ends after which a conversation begins anew; the queries have the same list.
RESET_END_REASONS: Final = (
    *("session_reset", "session_switch", "idle", "daily", "suspended"),
    "resume_pending_expired",
)
MARKS: Final = {"branch": "_branched_from", "delegate": "_delegate_from"}


def need_session(tx: Tx, session_id: str) -> None:
    """Raise if there is no such session."""
    if tx.one("session_exists", {"id": session_id}) is None:
        msg = f"there is no session {session_id!r}"
        raise NotFound(msg, hint="`threadkeep state ls` shows the sessions")


def set_relation(
    ctx: StateContext, tx: Tx, session_id: str, parent_id: str | None, relation: str
) -> None:
    """Say what a session is to its parent, which it gets: compression, branch or delegate."""
    if relation not in RELATIONS:
        msg = f"a session's relation to its parent is not {relation!r}"
        raise Invalid(msg, hint=f"use one of {', '.join(RELATIONS)}")
    if parent_id is None:
        msg = f"session {session_id!r} has a relation, but no parent"
        raise Invalid(msg, hint="pass parent_session_id, too")
    need_session(tx, session_id)
    need_session(tx, parent_id)
    if comes_from(tx, parent_id, session_id):
        msg = f"session {parent_id!r} comes from {session_id!r}, and cannot be its parent"
        raise Invalid(msg, hint="`threadkeep state lineage` shows the family")
    update_session(ctx, tx, session_id, {"parent_session_id": parent_id})
    _mark(ctx, tx, session_id, parent_id, relation)
    if ctx.side:
        tx.run("put_relation", {"id": session_id, "parent_id": parent_id, "kind": relation})


def _mark(ctx: StateContext, tx: Tx, session_id: str, parent_id: str, relation: str) -> None:
    """A continuation has no mark: it may have inherited one with its settings."""
    wanted = {mark: parent_id if kind == relation else None for kind, mark in MARKS.items()}
    here = read_config(tx.value("model_config_of", {"id": session_id}))
    if any(here.get(mark) != value for mark, value in wanted.items()):
        change_config(ctx, tx, session_id, wanted)


def comes_from(tx: Tx, session_id: str, ancestor: str) -> bool:
    """Tell whether a session is another one, or a child of a child … of it."""
    above, seen = session_id, set[str]()
    while above is not None and above not in seen and above != ancestor:
        seen.add(above)
        above = tx.value("parent_of", {"id": above})
    return above == ancestor
