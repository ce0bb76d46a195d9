"""Agent groups, chats, and which chat is wired to which agent group."""

from typing import get_args

from threadkeep.base.clock import iso
from threadkeep.base.tx import Tx
from threadkeep.errors import Conflict
from threadkeep.mailbox.given import need_name, need_whole, optional_name
from threadkeep.mailbox.ids import new_id
from threadkeep.mailbox.index_destinations import ensure_destination
from threadkeep.mailbox.index_layout import read_version
from threadkeep.mailbox.index_records import AgentGroup, MessagingGroup, SessionMode, Wiring
from threadkeep.mailbox.index_rows import (
    MailIndexContext,
    messaging_group_of,
    need_agent_group,
    need_choice,
    need_messaging_group,
    need_path_part,
    no_agent_group,
)
from threadkeep.mailbox.naming import distinct_name, folder_name
from threadkeep.mailbox.times import find_zone


def add_agent_group(
    ctx: MailIndexContext,
    tx: Tx,
    name: str,
    *,
    folder: str | None = None,
    provider: str | None = None,
    group_id: str | None = None,
) -> AgentGroup:
    """Add an agent group; its folder is named after it, unless one is given.

    `group_id` takes in a group whose mailboxes exist already, under that id.
    """
    now = ctx.clock()
    params = {
        "id": new_id("ag", now, ctx.random) if group_id is None else _free_id(tx, group_id),
        "name": need_name(name, "agent group name"),
        "folder": _new_folder(tx, name) if folder is None else _free_folder(tx, folder),
        "agent_provider": optional_name(provider, "provider"),
        "now": iso(now),
    }
    tx.run("insert_agent_group", params)
    return need_agent_group(tx, params["id"])


def _free_id(tx: Tx, group_id: object) -> str:
    wanted = need_path_part(group_id, "agent group id")
    if tx.one("get_agent_group", {"id": wanted}) is not None:
        msg = f"there is an agent group {wanted!r} already"
        raise Conflict(msg, hint="leave the id out, or use another")
    return wanted


def _new_folder(tx: Tx, name: str) -> str:
    return distinct_name(folder_name(name), _folders(tx))


def _free_folder(tx: Tx, folder: object) -> str:
    wanted = need_path_part(folder, "folder")
    if wanted.lower() in _folders(tx):
        msg = f"another agent group has the folder {wanted!r}"
        raise Conflict(msg, hint="leave the folder out, or use another")
    return wanted


def _folders(tx: Tx) -> set[str]:
    return {row[0].lower() for row in tx.all("agent_folders")}


def agent_group(_ctx: MailIndexContext, tx: Tx, reference: str) -> AgentGroup:
    """Give an agent group by its id, or by its name where only one has it."""
    return find_agent_group(tx, reference)


def find_agent_group(tx: Tx, reference: object) -> AgentGroup:
    """Find an agent group by its id, or by its name where only one has it."""
    wanted = need_name(reference, "agent group")
    row = tx.one("get_agent_group", {"id": wanted})
    found = [row] if row is not None else tx.all("agent_groups_named", {"name": wanted})
    if not found:
        raise no_agent_group(reference)
    if len(found) > 1:
        ids = ", ".join(row[0] for row in found)
        msg = f"{len(found)} agent groups are called {wanted!r}"
        raise Conflict(msg, hint=f"name one of them by its id: {ids}")
    return AgentGroup(*found[0])


def agent_groups(_ctx: MailIndexContext, tx: Tx) -> list[AgentGroup]:
    """List the agent groups, oldest first."""
    return [AgentGroup(*row) for row in tx.all("list_agent_groups")]


def zone(_ctx: MailIndexContext, tx: Tx, agent_group: str) -> str | None:
    """Give the time zone in which an agent group's tasks are meant; None for the host's."""
    found = find_agent_group(tx, agent_group)
    if read_version(tx) == 1:  # an older file, opened to read it: nobody has brought it up
        return None
    value: str | None = tx.value("get_zone", {"id": found.id})
    return value


def set_zone(_ctx: MailIndexContext, tx: Tx, agent_group: str, zone: str | None) -> None:
    """Set the time zone in which an agent group's tasks are meant; None for the host's."""
    if zone is not None:
        find_zone(zone)
    tx.run("set_zone", {"id": find_agent_group(tx, agent_group).id, "zone": zone})


def add_messaging_group(
    ctx: MailIndexContext,
    tx: Tx,
    channel_type: str,
    platform_id: str,
    *,
    name: str | None = None,
    is_group: bool = False,
) -> MessagingGroup:
    """Add a chat, or give the one that is there; a new name replaces the old.

    What was a group chat once stays one: an adapter that does not know says nothing of it.
    """
    title = optional_name(name, "chat name")
    known = find_chat(tx, channel_type, platform_id)
    now = ctx.clock()
    params = {
        "id": new_id("mg", now, ctx.random) if known is None else known.id,
        "channel_type": channel_type,
        "platform_id": platform_id,
        "name": title if known is None or title is not None else known.name,
        "is_group": bool(is_group) or (known is not None and known.is_group),
        "now": iso(now),
    }
    if known is None:
        tx.run("insert_messaging_group", params)
    elif (known.name, known.is_group) != (params["name"], params["is_group"]):
        tx.run("update_messaging_group", params)
    return need_messaging_group(tx, params["id"])


def find_chat(tx: Tx, channel_type: object, platform_id: object) -> MessagingGroup | None:
    """Find a chat by its place on a platform."""
    place = {
        "channel_type": need_name(channel_type, "channel type"),
        "platform_id": need_name(platform_id, "platform id"),
    }
    row = tx.one("find_messaging_group", place)
    return None if row is None else messaging_group_of(row)


def messaging_group(_ctx: MailIndexContext, tx: Tx, group_id: str) -> MessagingGroup:
    """Give a chat by its id."""
    return need_messaging_group(tx, group_id)


def messaging_group_at(
    _ctx: MailIndexContext, tx: Tx, channel_type: str, platform_id: str
) -> MessagingGroup | None:
    """Give the chat at a place on a platform, None if it was never added."""
    return find_chat(tx, channel_type, platform_id)


def messaging_groups(_ctx: MailIndexContext, tx: Tx) -> list[MessagingGroup]:
    """List the chats, oldest first."""
    return [messaging_group_of(row) for row in tx.all("list_messaging_groups")]


def wire(
    ctx: MailIndexContext,
    tx: Tx,
    messaging_group: str,
    agent_group: str,
    *,
    session_mode: SessionMode = "shared",
    priority: int = 0,
) -> Wiring:
    """Let an agent group get the mail of a chat, and send there; again sets mode and priority."""
    mode = need_choice(session_mode, get_args(SessionMode), "session mode")
    chat, agent = need_messaging_group(tx, messaging_group), find_agent_group(tx, agent_group)
    now = ctx.clock()
    pair = {"messaging_group_id": chat.id, "agent_group_id": agent.id}
    details = {
        "id": new_id("mga", now, ctx.random),
        "session_mode": mode,
        "priority": need_whole(priority, "priority"),
        "now": iso(now),
    }
    tx.run("put_wiring", {**pair, **details})
    ensure_destination(tx, agent.id, "channel", chat.id, chat.name or chat.channel_type, iso(now))
    return Wiring(*tx.all("get_wiring", pair)[0])


def agents_of(_ctx: MailIndexContext, tx: Tx, channel_type: str, platform_id: str) -> list[Wiring]:
    """List who gets the mail of a chat, highest priority first; nobody for an unknown chat."""
    place = {
        "channel_type": need_name(channel_type, "channel type"),
        "platform_id": need_name(platform_id, "platform id"),
    }
    return [Wiring(*row) for row in tx.all("wirings_of", place)]
