"""What every verb of the index works with: its surroundings, checked input, rows by their ids."""

from collections.abc import Sequence
from typing import NamedTuple

from threadkeep.base.clock import Clock
from threadkeep.base.database import Database
from threadkeep.base.tx import Row, Tx
from threadkeep.errors import Invalid, NotFound
from threadkeep.mailbox.given import need_name
from threadkeep.mailbox.ids import Below
from threadkeep.mailbox.index_records import AgentGroup, MailboxSession, MessagingGroup
from threadkeep.mailbox.names import is_safe_name


class MailIndexContext(NamedTuple):
    """The surroundings of a verb; clock and randomness are arguments, never globals."""

    db: Database
    clock: Clock
    random: Below


def need_path_part(value: object, what: str) -> str:
    """Check that a text can name a folder and nothing beside or above it."""
    text = need_name(value, what)
    if not is_safe_name(text):
        msg = f"the {what} {text[:80]!r} cannot be the name of a folder"
        raise Invalid(msg, hint="use letters, digits, '-', '_' and '.', without any slash")
    return text


def need_choice(value: object, choices: Sequence[str], what: str) -> str:
    """Check that a value is one of a few words."""
    if not isinstance(value, str) or value not in choices:
        raise Invalid(f"there is no {what} {value!r}", hint=f"use one of {', '.join(choices)}")
    return value


def need_agent_group(tx: Tx, group_id: object) -> AgentGroup:
    """Give an agent group by its id."""
    row = tx.one("get_agent_group", {"id": need_name(group_id, "agent group id")})
    if row is None:
        raise no_agent_group(group_id)
    return AgentGroup(*row)


def no_agent_group(reference: object) -> NotFound:
    """Make the error for an agent group that does not exist."""
    hint = "add it with add_agent_group; agent_groups() lists those there are"
    return NotFound(f"there is no agent group {reference!r}", hint=hint)


def need_messaging_group(tx: Tx, group_id: object) -> MessagingGroup:
    """Give a chat by its id."""
    row = tx.one("get_messaging_group", {"id": need_name(group_id, "messaging group id")})
    if row is None:
        hint = "add it with add_messaging_group; messaging_groups() lists those there are"
        raise NotFound(f"there is no messaging group {group_id!r}", hint=hint)
    return messaging_group_of(row)


def messaging_group_of(row: Row) -> MessagingGroup:
    """Make a chat from its row."""
    group_id, channel_type, platform_id, name, is_group, created_at = row
    return MessagingGroup(group_id, channel_type, platform_id, name, bool(is_group), created_at)


def need_session(tx: Tx, session_id: object) -> MailboxSession:
    """Give a session by its id."""
    row = tx.one("get_session", {"id": need_name(session_id, "session id")})
    if row is None:
        hint = "sessions() lists those there are; resolve_session begins one"
        raise NotFound(f"there is no mailbox session {session_id!r}", hint=hint)
    return MailboxSession(*row)
