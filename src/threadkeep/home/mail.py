"""What surfaces need of mailboxes: one found by its name or path, and either side of it opened.

Everything of the mailbox that a surface uses is named here, so that none imports a contract.
"""

import os
from pathlib import Path

from threadkeep.errors import Invalid, NotFound
from threadkeep.mailbox.index import MailIndex
from threadkeep.mailbox.index_records import MailboxSession

_LAST = "last"
_SHOWN = "`threadkeep mail ls` shows the sessions; `threadkeep mail new NAME` makes one"


def is_folder(ref: str) -> bool:
    """Tell whether a name means a folder rather than a session of the index."""
    return os.sep in ref or (bool(ref) and Path(ref).is_dir())


def find_mail_session(index: MailIndex, ref: str) -> MailboxSession:
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


def _meant(index: MailIndex, ref: str) -> list[MailboxSession]:
    known: list[MailboxSession] = index.sessions()
    if ref == _LAST:
        return known[-1:]
    exact = [one for one in known if one.id == ref]
    begun = exact or [one for one in known if one.id.startswith(ref)]
    if begun:
        return begun
    groups = {group.id for group in index.agent_groups() if group.name == ref}
    return [one for one in known if one.agent_group_id in groups and one.status == "active"]
