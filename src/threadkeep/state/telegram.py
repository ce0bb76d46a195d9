"""Telegram topics: a session for each thread of a chat. Their tables are made on demand."""

import re
from typing import Final

from threadkeep.base.sql import load_text, split_statements
from threadkeep.base.tx import Tx
from threadkeep.state.context import Json, StateContext
from threadkeep.state.meta import get_meta, put_meta
from threadkeep.state.preview import preview_of
from threadkeep.state.rows import read_sessions
from threadkeep.state.versions import PACKAGE, known_columns

_MODE: Final = "telegram_dm_topic_mode"
_BINDINGS: Final = "telegram_dm_topic_bindings"
_NUMBER: Final = "telegram_dm_topic_schema_version"
_VERSION: Final = 2
_CREATED: Final = re.compile(r"CREATE (?:UNIQUE )?(?:TABLE|INDEX) (\w+)")


def apply_telegram_topic_migration(ctx: StateContext, tx: Tx) -> None:
    """Make the tables of Telegram topics, or bring older ones up to the newest form."""
    number = str(get_meta(ctx, tx, _NUMBER) or "")
    if number.isdigit() and int(number) >= _VERSION and _BINDINGS in ctx.form.tables:
        return
    keys = tx.execute(f"PRAGMA foreign_key_list({_BINDINGS})").fetchall()
    stays_behind = any(key[2] == "sessions" and key[6] != "CASCADE" for key in keys)
    if stays_behind:  # SQLite cannot change a foreign key: the table is made anew
        tx.execute(f"ALTER TABLE {_BINDINGS} RENAME TO {_BINDINGS}_old")
        for (index,) in tx.all("indexes_of", {"table": f"{_BINDINGS}_old"}):
            tx.execute(f'DROP INDEX "{index}"')
    present = {str(row[0]) for row in tx.execute("SELECT name FROM sqlite_master")}
    for statement in split_statements(load_text(PACKAGE, "telegram.sql")):
        found = _CREATED.search(statement)
        if found is not None and found[1] not in present:
            tx.execute(statement)
    if stays_behind:
        names = ", ".join(column.name for column in known_columns()[_BINDINGS])
        tx.execute(f"INSERT INTO {_BINDINGS}({names}) SELECT {names} FROM {_BINDINGS}_old")  # noqa: S608
        tx.execute(f"DROP TABLE {_BINDINGS}_old")
    put_meta(ctx, tx, _NUMBER, str(_VERSION))
    ctx.forms.look_again(tx)


def enable_telegram_topic_mode(
    ctx: StateContext,
    tx: Tx,
    *,
    chat_id: str,
    user_id: str,
    has_topics_enabled: bool | None = None,
    allows_users_to_create_topics: bool | None = None,
) -> None:
    """Turn topics on in a private chat."""
    apply_telegram_topic_migration(ctx, tx)
    values = {
        "chat_id": str(chat_id),
        "user_id": str(user_id),
        "now": ctx.clock(),
        "has_topics": has_topics_enabled,
        "may_create": allows_users_to_create_topics,
    }
    tx.run("put_topic_mode", values)


def disable_telegram_topic_mode(
    ctx: StateContext, tx: Tx, *, chat_id: str, clear_bindings: bool = True
) -> None:
    """Turn topics off in a chat, and forget which thread had which session unless told not to."""
    if _MODE in ctx.form.tables:
        tx.run("end_topic_mode", {"chat_id": str(chat_id), "now": ctx.clock()})
    if clear_bindings and _BINDINGS in ctx.form.tables:
        tx.run("drop_topics", {"chat_id": str(chat_id)})


def is_telegram_topic_mode_enabled(
    _ctx: StateContext, tx: Tx, *, chat_id: str, user_id: str
) -> bool:
    """Tell whether topics are on for a user in a chat."""
    return bool(tx.value("topic_mode", {"chat_id": str(chat_id), "user_id": str(user_id)}))


def get_telegram_topic_binding(
    _ctx: StateContext, tx: Tx, *, chat_id: str, thread_id: str
) -> Json | None:
    """Give the session that a thread is bound to, None if it is not."""
    params = {"chat_id": str(chat_id), "thread_id": str(thread_id)}
    return next(iter(tx.dicts("topic", params)), None)


def list_telegram_topic_bindings_for_chat(
    _ctx: StateContext, tx: Tx, *, chat_id: str
) -> list[Json]:
    """Give the threads of a chat with their sessions, the newest first."""
    return tx.dicts("topics_of_chat", {"chat_id": str(chat_id)})


def get_telegram_topic_binding_by_session(
    _ctx: StateContext, tx: Tx, *, session_id: str
) -> Json | None:
    """Give the thread that a session is bound to, None if it is not."""
    return next(iter(tx.dicts("topic_of_session", {"session_id": str(session_id)})), None)


def is_telegram_session_linked_to_topic(_ctx: StateContext, tx: Tx, *, session_id: str) -> bool:
    """Tell whether a session is bound to a thread."""
    return tx.one("topic_of_session", {"session_id": str(session_id)}) is not None


def delete_telegram_topic_binding(
    ctx: StateContext, tx: Tx, *, chat_id: str, thread_id: str
) -> int:
    """Forget the session of a thread; a chat that has none left has its topics turned off."""
    if _BINDINGS not in ctx.form.tables:
        return 0
    chat = {"chat_id": str(chat_id)}
    gone = tx.run("drop_topic", {**chat, "thread_id": str(thread_id)})
    if gone and _MODE in ctx.form.tables and tx.one("topics_of_chat", chat) is None:
        tx.run("end_topic_mode", {**chat, "now": ctx.clock()})
    return gone


def bind_telegram_topic(
    ctx: StateContext,
    tx: Tx,
    *,
    chat_id: str,
    thread_id: str,
    user_id: str,
    session_key: str,
    session_id: str,
    managed_mode: str = "auto",
) -> None:
    """Bind a thread to a session, which may be bound to no other thread."""
    apply_telegram_topic_migration(ctx, tx)
    here = (str(chat_id), str(thread_id))
    bound = get_telegram_topic_binding_by_session(ctx, tx, session_id=session_id)
    if bound is not None and (str(bound["chat_id"]), str(bound["thread_id"])) != here:
        msg = "session is already linked to another Telegram topic"
        raise ValueError(msg)
    values = {
        "chat_id": here[0],
        "thread_id": here[1],
        "user_id": str(user_id),
        "session_key": str(session_key),
        "session_id": str(session_id),
        "managed_mode": managed_mode,
        "now": ctx.clock(),
    }
    tx.run("put_topic", values)


def list_unlinked_telegram_sessions_for_user(
    ctx: StateContext, tx: Tx, *, chat_id: str, user_id: str, limit: int = 10
) -> list[Json]:
    """Give a user's Telegram sessions that no thread has, the last active first."""
    del chat_id  # the sessions of all chats are offered
    params = {"user_id": str(user_id), "limit": int(limit)}
    return [
        {**session, "preview": preview_of(tx, session["id"])}
        for session in read_sessions(ctx, tx, "telegram_without_topic", params)
    ]
