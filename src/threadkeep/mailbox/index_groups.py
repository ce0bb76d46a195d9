"""Names that people gave, made fit for an agent to write and for a folder to bear."""

import re
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple, get_args

from threadkeep.base.clock import Clock, find_zone, iso
from threadkeep.base.database import Database
from threadkeep.base.tx import Row, Tx
from threadkeep.errors import Conflict, Invalid, NotFound
from threadkeep.mailbox.arguments import need_name, need_whole, optional_name
from threadkeep.mailbox.attachments import is_safe_name
from threadkeep.mailbox.context import Below, new_id
from threadkeep.mailbox.index_records import (
    AgentGroup,
    MailboxSession,
    MessagingGroup,
    SessionMode,
    TargetType,
    Wiring,
    read_version,
)
from threadkeep.mailbox.records import Destination

NAMELESS: Final = "unnamed"

_OTHERS: Final = re.compile("[^a-z0-9]+")
# A file name may have 255 bytes; this leaves room for the number of a collision.
_FOLDER_LENGTH: Final = 100


def local_name(text: str) -> str:
    """Return the name an agent uses: lower-case letters and digits, all else becomes `-`."""
    return _OTHERS.sub("-", text.lower()).strip("-") or NAMELESS


def folder_name(text: str) -> str:
    """Return a local name short enough for a folder."""
    return local_name(text)[:_FOLDER_LENGTH].rstrip("-")


def distinct_name(wanted: str, taken: Collection[str]) -> str:
    """Return the wanted name, or the first of `wanted-2`, `wanted-3`, … that is not taken."""
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted}-{number}"
    return name


# ------------------------------------------------------------------------------
# What every verb of the index works with: its surroundings, checked input, rows by their ids.


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
    """Return an agent group by its id."""
    row = tx.one("get_agent_group", {"id": need_name(group_id, "agent group id")})
    if row is None:
        raise no_agent_group(group_id)
    return AgentGroup(*row)


def no_agent_group(reference: object) -> NotFound:
    """Make the error for an agent group that does not exist."""
    hint = "`MailIndex.agent_groups()` lists them, `MailIndex.add_agent_group()` adds one"
    return NotFound(f"there is no agent group {reference!r}", hint=hint)


def need_messaging_group(tx: Tx, group_id: object) -> MessagingGroup:
    """Return a chat by its id."""
    row = tx.one("get_messaging_group", {"id": need_name(group_id, "messaging group id")})
    if row is None:
        hint = "`MailIndex.messaging_groups()` lists them, `.add_messaging_group()` adds one"
        raise NotFound(f"there is no messaging group {group_id!r}", hint=hint)
    return messaging_group_of(row)


def messaging_group_of(row: Row) -> MessagingGroup:
    """Make a chat from its row."""
    group_id, channel_type, platform_id, name, is_group, created_at = row
    return MessagingGroup(group_id, channel_type, platform_id, name, bool(is_group), created_at)


def need_session(tx: Tx, session_id: object) -> MailboxSession:
    """Return a session by its id."""
    row = tx.one("get_session", {"id": need_name(session_id, "session id")})
    if row is None:
        hint = "`MailIndex.sessions()` lists them, `MailIndex.resolve_session()` begins one"
        raise NotFound(f"there is no mailbox session {session_id!r}", hint=hint)
    return MailboxSession(*row)


# ------------------------------------------------------------------------------
# Where an agent may send: each row of its destinations is a name and a permission.


def add_destination(
    ctx: MailIndexContext,
    tx: Tx,
    agent_group_id: str,
    target_type: TargetType,
    target_id: str,
    *,
    name: str | None = None,
) -> Destination:
    """Let an agent group send to a chat or to another agent group.

    Without a name, a target it can reach already keeps the name it has.
    """
    agent = need_agent_group(tx, agent_group_id)
    kind = need_choice(target_type, get_args(TargetType), "kind of destination")
    label = _label(tx, kind, target_id)
    now = iso(ctx.clock())
    if name is None:
        given = ensure_destination(tx, agent.id, kind, target_id, label, now)
    else:
        given = _name_destination(tx, agent.id, kind, target_id, name, now)
    return next(row for row in _projected(tx, agent.id) if row.name == given)


def _label(tx: Tx, kind: str, target_id: object) -> str:
    """Say what a target is called by people; refuse one that does not exist."""
    if kind == "agent":
        return need_agent_group(tx, target_id).name
    chat = need_messaging_group(tx, target_id)
    return chat.name or chat.channel_type


def ensure_destination(
    tx: Tx, agent_group_id: str, target_type: str, target_id: str, label: str, now: str
) -> str:
    """Return the local name of a target; one that has none gets one that is free."""
    taken = _targets(tx, agent_group_id)
    for name, target in taken.items():
        if target == (target_type, target_id):
            return name
    name = distinct_name(local_name(label), taken)
    _insert(tx, agent_group_id, name, target_type, target_id, now)
    return name


def _name_destination(
    tx: Tx, agent_group_id: str, target_type: str, target_id: str, name: object, now: str
) -> str:
    wanted = local_name(need_name(name, "destination name"))
    present = _targets(tx, agent_group_id).get(wanted)
    if present is None:
        _insert(tx, agent_group_id, wanted, target_type, target_id, now)
    elif present != (target_type, target_id):
        msg = f"the agent group {agent_group_id!r} calls another destination {wanted!r}"
        raise Conflict(msg, hint="choose another name, or remove that destination first")
    return wanted


def _targets(tx: Tx, agent_group_id: str) -> dict[str, tuple[str, str]]:
    """Map the local names of an agent group to what they mean, missing targets included."""
    rows = tx.all("destination_targets", {"agent_group_id": agent_group_id})
    return {name: (target_type, target_id) for name, target_type, target_id in rows}


def _insert(
    tx: Tx, agent_group_id: str, name: str, target_type: str, target_id: str, now: str
) -> None:
    params = {
        "agent_group_id": agent_group_id,
        "local_name": name,
        "target_type": target_type,
        "target_id": target_id,
        "now": now,
    }
    tx.run("insert_destination", params)


def remove_destination(_ctx: MailIndexContext, tx: Tx, agent_group_id: str, name: str) -> None:
    """Take back a permission to send, by the agent's own name for it."""
    agent = need_agent_group(tx, agent_group_id)
    wanted = need_name(name, "destination name")
    if not tx.count("delete_destination", {"agent_group_id": agent.id, "local_name": wanted}):
        msg = f"the agent group {agent.id!r} has no destination {wanted!r}"
        raise NotFound(msg, hint=f"destinations({agent.id!r}) lists those it has")


def destinations(_ctx: MailIndexContext, tx: Tx, agent_group_id: str) -> list[Destination]:
    """List where an agent group may send, by name; rows whose target is gone are left out."""
    return _projected(tx, need_agent_group(tx, agent_group_id).id)


def _projected(tx: Tx, agent_group_id: str) -> list[Destination]:
    rows = tx.all("list_destinations", {"agent_group_id": agent_group_id})
    return [Destination(*row) for row in rows]


def may_send(
    _ctx: MailIndexContext, tx: Tx, agent_group_id: str, channel_type: str, platform_id: str
) -> bool:
    """Tell whether a chat is among an agent group's destinations.

    The chat that a session came from needs no permission: whoever delivers knows it.
    """
    place = {"channel_type": channel_type, "platform_id": platform_id}
    return bool(tx.value("may_send", {"agent_group_id": agent_group_id, **place}))


def may_reach_agent(
    _ctx: MailIndexContext, tx: Tx, source_group_id: str, target_group_id: str
) -> bool:
    """Tell whether an agent group may write to another; to itself it always may."""
    if source_group_id == target_group_id:
        return True
    return bool(tx.value("may_reach_agent", {"source": source_group_id, "target": target_group_id}))


# ------------------------------------------------------------------------------
# Agent groups, chats, and which chat is wired to which agent group.


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
    """Return an agent group by its id, or by its name where only one has it."""
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
    """Return the time zone in which an agent group's tasks are meant; None for the host's."""
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
    """Return a chat by its id."""
    return need_messaging_group(tx, group_id)


def messaging_group_at(
    _ctx: MailIndexContext, tx: Tx, channel_type: str, platform_id: str
) -> MessagingGroup | None:
    """Return the chat at a place on a platform, None if it was never added."""
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
