"""MailIndex: the host's own record of agents, chats, sessions and questions, in `mailbox.db`.

Every verb is one function in a module of this package; here they come together. A verb that
writes is one transaction, durable when it returns.
"""

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self, get_args

from threadkeep.base import json
from threadkeep.base.clock import Clock, iso, now_ms
from threadkeep.base.database import DEFAULT_BUDGET, Database
from threadkeep.base.sqlite.backup import make_backup
from threadkeep.base.sqlite.database import SqliteDatabase
from threadkeep.base.sqlite.schema import prepare, refuse_newer
from threadkeep.base.sqlite.upkeep import sqlite_file
from threadkeep.base.tx import Tx
from threadkeep.base.verbs import reads, writes
from threadkeep.errors import Conflict, Invalid, NotFound
from threadkeep.mailbox import index_groups as destinations_, index_groups as groups
from threadkeep.mailbox.arguments import need_name, optional_name
from threadkeep.mailbox.context import Below, new_id
from threadkeep.mailbox.index_groups import (
    MailIndexContext,
    need_agent_group,
    need_choice,
    need_messaging_group,
    need_session,
)
from threadkeep.mailbox.index_records import (
    QUERIES,
    SCHEMA,
    AgentGroup,
    ContainerStatus,
    MailboxSession,
    PendingQuestion,
    SessionMode,
    SessionStatus,
    read_version,
)

# ------------------------------------------------------------------------------
# Questions that wait for somebody to press a button.


def add_question(
    ctx: MailIndexContext,
    tx: Tx,
    question_id: str,
    *,
    session_id: str,
    message_out_id: str,
    title: str,
    options: Sequence[Any],
    platform_id: str | None = None,
    channel_type: str | None = None,
    thread_id: str | None = None,
) -> bool:
    """Keep a question until it is answered; False if it was kept before, which then stays."""
    params = {
        "question_id": need_name(question_id, "question id"),
        "session_id": need_session(tx, session_id).id,
        "message_out_id": need_name(message_out_id, "message id"),
        "title": need_name(title, "question title"),
        "options_json": json.encode(_need_options(options)),
        "platform_id": optional_name(platform_id, "platform id"),
        "channel_type": optional_name(channel_type, "channel type"),
        "thread_id": optional_name(thread_id, "thread id"),
        "now": iso(ctx.clock()),
    }
    return tx.count("insert_question", params) == 1


def _need_options(options: object) -> list[Any]:
    if not isinstance(options, (list, tuple)) or not options:
        msg = "a question needs a list of options to choose from"
        raise Invalid(msg, hint="pass options as a list with at least one entry")
    return list(options)


def question(_ctx: MailIndexContext, tx: Tx, question_id: str) -> PendingQuestion:
    """Return a question that waits for its answer."""
    return _need_question(tx, question_id)


def take_question(_ctx: MailIndexContext, tx: Tx, question_id: str) -> PendingQuestion:
    """Return a question and forget it: of two who press a button only one gets it."""
    found = _need_question(tx, question_id)
    tx.run("delete_question", {"question_id": found.question_id})
    return found


def forget_questions(_ctx: MailIndexContext, tx: Tx, session_id: str) -> int:
    """Forget every question of a session; give how many there were."""
    return tx.count("delete_questions_of", {"session_id": need_session(tx, session_id).id})


def _need_question(tx: Tx, question_id: object) -> PendingQuestion:
    row = tx.one("get_question", {"question_id": need_name(question_id, "question id")})
    if row is None:
        msg = f"no question {question_id!r} waits for an answer"
        raise NotFound(msg, hint="it was answered before, or its session was cleared")
    values = dict(zip(PendingQuestion.__struct_fields__, row, strict=True))
    return PendingQuestion(**{**values, "options": json.decode(values["options"])})


# ------------------------------------------------------------------------------
# Sessions: which one a message belongs to, which are active, what their containers do.


def effective_mode(mode: SessionMode, *, threaded: bool, is_group: bool) -> SessionMode:
    """Return the mode that counts: in a group chat with threads each thread is a session.

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
    """Return the active session a message belongs to, and whether it was begun for it.

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


def enter_session(
    _ctx: MailIndexContext,
    tx: Tx,
    session_id: str,
    agent_group_id: str,
    messaging_group_id: str | None = None,
    thread_id: str | None = None,
    *,
    agent_provider: str | None = None,
    created_at: str,
    closed: bool = False,
) -> None:
    """Enter a session of another index under its own id; where its place is taken, as closed."""
    place = {
        "agent_group_id": agent_group_id,
        "messaging_group_id": messaging_group_id,
        "thread_id": thread_id,
    }
    holder = tx.one("active_session_at", place)
    if holder is not None:
        tx.run("set_session_status", {"id": holder[0], "status": "closed"})
    details = {"id": session_id, "agent_provider": agent_provider, "now": created_at}
    tx.run("insert_session", {**place, **details})
    if holder is not None or closed:
        tx.run("set_session_status", {"id": session_id, "status": "closed"})
    if holder is not None:
        tx.run("set_session_status", {"id": holder[0], "status": "active"})


def session(_ctx: MailIndexContext, tx: Tx, session_id: str) -> MailboxSession:
    """Return a session by its id."""
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
    """Return the active session of an agent group that was begun last, None if there is none."""
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
        msg = f"the session {successor[0]!r} has replaced {found.id!r}"
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


class MailIndex:
    """Which mailboxes there are, who they belong to, and where their agents may send."""

    def __init__(self, context: MailIndexContext) -> None:
        """Use `MailIndex.open`."""
        self.context = context

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        read_only: bool = False,
        budget: float = DEFAULT_BUDGET,
        clock: Clock = now_ms,
        random: Below = secrets.randbelow,
    ) -> Self:
        """Open an index, create it if it is missing, or bring an older one up.

        `budget` is how long a write may wait, in seconds.
        """
        database = SqliteDatabase(path, QUERIES, budget=budget, read_only=read_only)
        index = cls(MailIndexContext(database, clock, random))
        try:
            if read_only:
                index._check_readable()
            else:
                prepare(database, SCHEMA, index._backup_before_upgrade)
        except BaseException:
            database.close()
            raise
        return index

    def _check_readable(self) -> None:
        with self.context.db.read() as tx:
            version = read_version(tx)
        if version is None:
            msg = f"{self.path} is not an index of mailboxes"
            raise Invalid(msg, hint="check the path; opening it for writing creates a new one")
        refuse_newer(self.context.db, SCHEMA, version)

    def _backup_before_upgrade(self, reason: str) -> None:
        make_backup(self.context.db, reason=reason, clock=self.context.clock)

    @property
    def path(self) -> Path:
        """The file of the index."""
        return sqlite_file(self.context.db).path

    @property
    def database(self) -> Database:
        """The file as a whole: whether it changed, its size, its copies; no tables."""
        return self.context.db

    @property
    def version(self) -> int | None:
        """The version of its schema."""
        with self.context.db.read() as tx:
            return read_version(tx)

    def close(self) -> None:
        """Close the index."""
        self.context.db.close()

    def __enter__(self) -> Self:
        """Use the index in a `with` block, which closes it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the index."""
        self.close()

    # agents, chats, and who serves which
    add_agent_group = writes(groups.add_agent_group)
    agent_group = reads(groups.agent_group)
    agent_groups = reads(groups.agent_groups)
    zone = reads(groups.zone)
    set_zone = writes(groups.set_zone)
    add_messaging_group = writes(groups.add_messaging_group)
    messaging_group = reads(groups.messaging_group)
    messaging_group_at = reads(groups.messaging_group_at)
    messaging_groups = reads(groups.messaging_groups)
    wire = writes(groups.wire)
    agents_of = reads(groups.agents_of)

    # sessions
    resolve_session = writes(resolve_session)
    enter_session = writes(enter_session)
    session = reads(session)
    sessions = reads(sessions)
    newest_active_session = reads(newest_active_session)
    close_session = writes(close_session)
    reopen_session = writes(reopen_session)
    set_container_status = writes(set_container_status)
    touch = writes(touch)

    # where an agent may send
    add_destination = writes(destinations_.add_destination)
    remove_destination = writes(destinations_.remove_destination)
    destinations = reads(destinations_.destinations)
    may_send = reads(destinations_.may_send)
    may_reach_agent = reads(destinations_.may_reach_agent)

    # questions
    add_question = writes(add_question)
    question = reads(question)
    take_question = writes(take_question)
    forget_questions = writes(forget_questions)
