"""Sessions: which one a message belongs to, which are active, what their containers do."""

from typing import get_args

from threadkeep.base.clock import iso
from threadkeep.base.tx import Tx
from threadkeep.errors import Conflict
from threadkeep.mailbox.given import optional_name
from threadkeep.mailbox.ids import new_id
from threadkeep.mailbox.index_records import (
    AgentGroup,
    ContainerStatus,
    MailboxSession,
    SessionMode,
    SessionStatus,
)
from threadkeep.mailbox.index_rows import (
    MailIndexContext,
    need_agent_group,
    need_choice,
    need_messaging_group,
    need_session,
)


def effective_mode(mode: SessionMode, *, threaded: bool, is_group: bool) -> SessionMode:
    """Give the mode that counts: in a group chat with threads each thread is a session.

    Only an agent that has one session for everything keeps to it there too.
    """
    return "per-thread" if threaded and is_group and mode != "agent-shared" else mode


def resolve_session(
    ctx: MailIndexContext,
    tx: Tx,
    agent_group_id: str,
    messaging_group_id: str | None = None,
    thread_id: str | None = None,
    mode: SessionMode = "shared",
    *,
    threaded: bool = False,
) -> tuple[MailboxSession, bool]:
    """Give the active session a message belongs to, and whether it was begun for it.

    `threaded` tells that the chat's adapter knows threads. Without a chat, the group has one
    session that belongs to none.
    """
    need_choice(mode, get_args(SessionMode), "session mode")
    thread = optional_name(thread_id, "thread id")
    group = need_agent_group(tx, agent_group_id)
    chat = None if messaging_group_id is None else need_messaging_group(tx, messaging_group_id)
    is_group = chat is not None and chat.is_group
    counts = effective_mode(mode, threaded=threaded, is_group=is_group)
    place = {
        "agent_group_id": group.id,
        "messaging_group_id": None if chat is None else chat.id,
        "thread_id": thread if counts == "per-thread" else None,
    }
    query = "newest_active_session" if counts == "agent-shared" else "active_session_at"
    row = tx.one(query, place)
    return (_begin(ctx, tx, group, place), True) if row is None else (MailboxSession(*row), False)


def _begin(
    ctx: MailIndexContext, tx: Tx, group: AgentGroup, place: dict[str, str | None]
) -> MailboxSession:
    now = ctx.clock()
    session_id = new_id("sess", now, ctx.random)
    details = {"id": session_id, "agent_provider": group.agent_provider, "now": iso(now)}
    tx.run("insert_session", {**place, **details})
    return need_session(tx, session_id)


def session(_ctx: MailIndexContext, tx: Tx, session_id: str) -> MailboxSession:
    """Give a session by its id."""
    return need_session(tx, session_id)


def sessions(
    _ctx: MailIndexContext,
    tx: Tx,
    *,
    status: SessionStatus | None = None,
    agent_group_id: str | None = None,
) -> list[MailboxSession]:
    """List sessions, oldest first: all, or those of one status or one agent group."""
    both = get_args(SessionStatus)
    first, last = both if status is None else (need_choice(status, both, "session status"),) * 2
    group = None if agent_group_id is None else need_agent_group(tx, agent_group_id).id
    params = {"status": first, "or_status": last, "agent_group_id": group}
    return [MailboxSession(*row) for row in tx.all("list_sessions", params)]


def newest_active_session(
    _ctx: MailIndexContext, tx: Tx, agent_group_id: str
) -> MailboxSession | None:
    """Give the active session of an agent group that was begun last, None if there is none."""
    group = need_agent_group(tx, agent_group_id)
    row = tx.one("newest_active_session", {"agent_group_id": group.id})
    return None if row is None else MailboxSession(*row)


def close_session(_ctx: MailIndexContext, tx: Tx, session_id: str) -> MailboxSession:
    """Close a session: no message is resolved to it any more, its folder stays."""
    found = need_session(tx, session_id)
    tx.run("set_session_status", {"id": found.id, "status": "closed"})
    return need_session(tx, found.id)


def reopen_session(_ctx: MailIndexContext, tx: Tx, session_id: str) -> MailboxSession:
    """Make a closed session active again, unless another has taken its place."""
    found = need_session(tx, session_id)
    place = {
        "agent_group_id": found.agent_group_id,
        "messaging_group_id": found.messaging_group_id,
        "thread_id": found.thread_id,
    }
    successor = tx.one("active_session_at", place)
    if successor is not None and successor[0] != found.id:
        msg = f"the session {successor[0]!r} has taken the place of {found.id!r}"
        raise Conflict(msg, hint="close that one first")
    tx.run("set_session_status", {"id": found.id, "status": "active"})
    return need_session(tx, found.id)


def set_container_status(
    _ctx: MailIndexContext, tx: Tx, session_id: str, container_status: ContainerStatus
) -> MailboxSession:
    """Write down what the container of a session does."""
    word = need_choice(container_status, get_args(ContainerStatus), "container status")
    found = need_session(tx, session_id)
    tx.run("set_container_status", {"id": found.id, "container_status": word})
    return need_session(tx, found.id)


def touch(ctx: MailIndexContext, tx: Tx, session_id: str) -> MailboxSession:
    """Write down that a session is in use now."""
    found = need_session(tx, session_id)
    tx.run("touch_session", {"id": found.id, "now": iso(ctx.clock())})
    return need_session(tx, found.id)
