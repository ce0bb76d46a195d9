"""Mailboxes by the names of their sessions alone: a surface that others reach opens no folder."""

from pathlib import Path
from typing import TYPE_CHECKING

from threadkeep.home.mail import find_mail_session
from threadkeep.mailbox.context import MailContext
from threadkeep.mailbox.folder import session_dir
from threadkeep.mailbox.host import Host
from threadkeep.mailbox.index_records import MailboxSession
from threadkeep.mailbox.looking import look_at

if TYPE_CHECKING:
    from threadkeep.home.facade import Home


def session_named(home: "Home", ref: str) -> MailboxSession:
    """Find a session of the mailroom by the beginning of its id, its agent's name, or `last`."""
    with home.mail_index() as index:
        return find_mail_session(index, ref)


def folder_of(home: "Home", session: MailboxSession) -> Path:
    """Give the folder of a session."""
    return session_dir(home.paths().data / "mailbox", session.agent_group_id, session.id)


def look_into(home: "Home", ref: str) -> MailContext:
    """Open a session's mailbox to look at it: nothing is added to it."""
    return look_at(folder_of(home, session_named(home, ref)), zone=home.zone)


def host_of(home: "Home", ref: str) -> Host:
    """Open the host's side of a session's mailbox."""
    return Host(folder_of(home, session_named(home, ref)), zone=home.zone)
