"""What the index of mailboxes gives back: groups, wirings, sessions, destinations, questions.

Times are ISO text in UTC, as the tables keep them.
"""

from typing import Any, Literal

import msgspec

from threadkeep.base.sql import load_queries, load_text
from threadkeep.base.sqlite.catalogue import set_user_version, user_version
from threadkeep.base.sqlite.schema import Schema, SchemaStep
from threadkeep.base.tx import Sql, Tx

SessionMode = Literal["shared", "per-thread", "agent-shared"]
SessionStatus = Literal["active", "closed"]
ContainerStatus = Literal["running", "idle", "stopped"]
TargetType = Literal["channel", "agent"]


class AgentGroup(msgspec.Struct, frozen=True):
    """One agent with its own folder; each of its sessions has a mailbox."""

    id: str
    name: str
    folder: str
    agent_provider: str | None
    created_at: str


class MessagingGroup(msgspec.Struct, frozen=True):
    """One chat of one platform."""

    id: str
    channel_type: str
    platform_id: str
    name: str | None
    is_group: bool
    created_at: str


class Wiring(msgspec.Struct, frozen=True):
    """An agent group that gets the mail of a chat, and how its sessions are cut."""

    id: str
    messaging_group_id: str
    agent_group_id: str
    session_mode: SessionMode
    priority: int
    created_at: str


class MailboxSession(msgspec.Struct, frozen=True):
    """One conversation of an agent group, with a mailbox folder of its own."""

    id: str
    agent_group_id: str
    messaging_group_id: str | None
    thread_id: str | None
    agent_provider: str | None
    status: SessionStatus
    container_status: ContainerStatus
    last_active: str | None
    created_at: str


class PendingQuestion(msgspec.Struct, frozen=True):
    """A question that an agent asked and nobody has answered yet."""

    question_id: str
    session_id: str
    message_out_id: str
    platform_id: str | None
    channel_type: str | None
    thread_id: str | None
    title: str
    options: list[Any]
    created_at: str


# ------------------------------------------------------------------------------
# The schema of `mailbox.db`; its version is SQLite's own `user_version`.

PACKAGE = "threadkeep.mailbox"
VERSION = 2

QUERIES = load_queries(PACKAGE, "index_queries.sql")


def read_version(tx: Tx) -> int | None:
    """Return the version of an index of mailboxes, None for a file that is none.

    NanoClaw's own central file has the same tables, and no number: it is not ours to write.
    """
    sql = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'messaging_group_agents'"
    if tx.one(Sql(sql)) is None:
        return None
    return user_version(tx) or None


def write_version(tx: Tx, version: int) -> None:
    """Write down the version."""
    set_user_version(tx, version)


SCHEMA = Schema(
    name="mailbox",
    version=VERSION,
    head=load_text(PACKAGE, "index.sql"),
    steps=(SchemaStep(2, "0002_zones", "ALTER TABLE agent_groups ADD COLUMN zone TEXT;"),),
    read_version=read_version,
    write_version=write_version,
)
