"""What surfaces need of mailboxes: one found by its name or path, and either side of it opened.

Everything of the mailbox that a surface uses is named here, so that none imports a contract.
"""

import os
from pathlib import Path

from threadkeep.errors import Invalid, NotFound
from threadkeep.mailbox.adapters import Adapter, FileAdapter, Outgoing
from threadkeep.mailbox.agent_loop import run_agent
from threadkeep.mailbox.asking import run_command
from threadkeep.mailbox.commands import read_typed
from threadkeep.mailbox.container import Container, open_here
from threadkeep.mailbox.context import Context
from threadkeep.mailbox.delivery import Drained
from threadkeep.mailbox.host import Host
from threadkeep.mailbox.index import MailIndex
from threadkeep.mailbox.index_records import Session, SessionMode
from threadkeep.mailbox.looking import (
    UNDER_WAY,
    Direction,
    Letter,
    again,
    in_order,
    incoming,
    letters,
    look_at,
    outgoing,
    overview,
)
from threadkeep.mailbox.policy import Policy
from threadkeep.mailbox.problems import Problem
from threadkeep.mailbox.prune import PrunedMail
from threadkeep.mailbox.reading import poll, tasks as tasks_of
from threadkeep.mailbox.records import DeadLetter, Delivery, Destination, Mail, OutMail, Place
from threadkeep.mailbox.recurrence import next_times
from threadkeep.mailbox.runner import ProcessRunner
from threadkeep.mailbox.serving import Report
from threadkeep.mailbox.sweep import Swept, sweep_session
from threadkeep.mailbox.times import parse_moment, read_moment
from threadkeep.mailbox.trace import trace as trace_mail
from threadkeep.mailbox.verifying import verify as verify_folder

__all__ = [
    "UNDER_WAY",
    "Adapter",
    "Container",
    "Context",
    "DeadLetter",
    "Delivery",
    "Destination",
    "Direction",
    "Drained",
    "FileAdapter",
    "Host",
    "Letter",
    "Mail",
    "MailIndex",
    "OutMail",
    "Outgoing",
    "Place",
    "Policy",
    "Problem",
    "ProcessRunner",
    "PrunedMail",
    "Report",
    "Session",
    "SessionMode",
    "Swept",
    "again",
    "find_mail_session",
    "in_order",
    "incoming",
    "is_folder",
    "letters",
    "look_at",
    "next_times",
    "open_here",
    "outgoing",
    "overview",
    "parse_moment",
    "poll",
    "read_moment",
    "read_typed",
    "run_agent",
    "run_command",
    "sweep_session",
    "tasks_of",
    "trace_mail",
    "verify_folder",
]

_LAST = "last"
_SHOWN = "`threadkeep mail ls` shows the sessions; `threadkeep mail new NAME` makes one"


def is_folder(ref: str) -> bool:
    """Tell whether a name means a folder rather than a session of the index."""
    return os.sep in ref or (bool(ref) and Path(ref).is_dir())


def find_mail_session(index: MailIndex, ref: str) -> Session:
    """Give the session that is meant: an id or its beginning, an agent's name, or `last`."""
    if not ref:
        raise Invalid("the name of the session is empty", hint="give an id, a folder, or `last`")
    found = _meant(index, ref)
    if not found:
        msg = f"there is no session {ref[:80]!r}, neither by id nor as a folder"
        raise NotFound(msg, hint=_SHOWN)
    if len(found) > 1:
        some = ", ".join(one.id for one in found[:3])
        msg = f"several sessions are meant by {ref[:80]!r}: {some} among them"
        raise Invalid(msg, hint="give more of the id")
    return found[0]


def _meant(index: MailIndex, ref: str) -> list[Session]:
    known: list[Session] = index.sessions()
    if ref == _LAST:
        return known[-1:]
    exact = [one for one in known if one.id == ref]
    begun = exact or [one for one in known if one.id.startswith(ref)]
    if begun:
        return begun
    groups = {group.id for group in index.agent_groups() if group.name == ref}
    return [one for one in known if one.agent_group_id in groups and one.status == "active"]
