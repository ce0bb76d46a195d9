"""Where an agent may send: each row of its destinations is a name and a permission."""

from typing import get_args

from threadkeep.base.clock import iso
from threadkeep.base.tx import Tx
from threadkeep.errors import Conflict, NotFound
from threadkeep.mailbox.given import need_name
from threadkeep.mailbox.index_records import TargetType
from threadkeep.mailbox.index_rows import (
    MailIndexContext,
    need_agent_group,
    need_choice,
    need_messaging_group,
)
from threadkeep.mailbox.naming import distinct_name, local_name
from threadkeep.mailbox.records import Destination


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
    """Give the local name of a target; one that has none gets one that is free."""
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
    if not tx.run("delete_destination", {"agent_group_id": agent.id, "local_name": wanted}):
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
