"""Mail from one agent to another: into which session, how often, with which files."""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from threadkeep.base.tx import Tx
from threadkeep.errors import Damaged, NotFound
from threadkeep.mailbox import content as shapes, inbound, posting
from threadkeep.mailbox.adapters import Outgoing, Refused
from threadkeep.mailbox.attachments import hand_over
from threadkeep.mailbox.context import MailContext
from threadkeep.mailbox.index import MailIndex
from threadkeep.mailbox.index_records import MailboxSession
from threadkeep.mailbox.records import Json, Mail, Place
from threadkeep.mailbox.times import read_moment

# Opens the mailbox of a session; makes its folder if it is missing.
Opener = Callable[[MailboxSession], MailContext]
_FIRST: Final = 1


class Passed(NamedTuple):
    """Mail in the inbox of another agent, and whose inbox it is."""

    mail: Mail
    session: MailboxSession


def pass_on(source: MailContext, index: MailIndex, open_: Opener, mail: Outgoing) -> Passed:
    """Write a message into the inbox of another agent, once, however often it is called."""
    try:
        return _pass_on(source, index, open_, mail)
    except NotFound as error:
        raise Refused(error.message, hint=error.hint) from error


def _pass_on(source: MailContext, index: MailIndex, open_: Opener, mail: Outgoing) -> Passed:
    sender, target = source.agent_group or "", mail.place.platform_id or ""
    _check_permission(index, sender, target)
    row_id = mail.derived_id("a2a")
    before = _from_before(source, index, open_, mail, row_id)
    if before is not None:
        return before
    hops = _hops(source, mail)
    if hops > source.policy.hops:
        msg = f"agents have passed mail on {source.policy.hops} times and nobody else has spoken"
        raise Refused(msg, hint="wait until somebody does")
    session = _choose_session(source, index, target, mail)
    context = open_(session)
    written = posting.insert_message(
        context,
        "chat",
        _content(source, index, context, mail, row_id),
        message_id=row_id,
        place=Place("agent", sender),
        source_session_id=source.session,
        hops=hops,
    )
    return Passed(written, session)


def _check_permission(index: MailIndex, sender: str, target: str) -> None:
    if not index.may_reach_agent(sender, target):
        msg = f"the agent {target[:80]!r} is not among the destinations"
        raise Refused(msg, hint="the host can add it")


def _from_before(
    source: MailContext, index: MailIndex, open_: Opener, mail: Outgoing, row_id: str
) -> Passed | None:
    """Find what an earlier attempt wrote: another session may be the newest by now."""
    if mail.attempt == _FIRST:
        return None
    for session in index.sessions(agent_group_id=mail.place.platform_id):
        found = _find(open_, session, row_id)
        if found is not None and found.source_session_id == source.session:
            return Passed(found, session)
    return None


def _find(open_: Opener, session: MailboxSession, row_id: str) -> Mail | None:
    try:
        with open_(session).folder.inbound.read() as tx:
            return inbound.find(tx, row_id)
    except Damaged:  # one session that cannot be read does not cut off the others
        return None


# ---------------------------------------------------------------------- into which session


def _choose_session(
    source: MailContext, index: MailIndex, target: str, mail: Outgoing
) -> MailboxSession:
    """Answer where the question came from, else where the peer wrote from last, else its newest."""
    with source.folder.inbound.read() as tx:
        named = list(_named_sessions(tx, target, mail.in_reply_to))
    for session_id in named:
        session = _session(index, session_id)
        if session is not None and (session.agent_group_id, session.status) == (target, "active"):
            return session
    return index.newest_active_session(target) or index.resolve_session(target)[0]


def _named_sessions(tx: Tx, target: str, in_reply_to: str | None) -> Iterator[str]:
    answered = None if in_reply_to is None else inbound.find(tx, in_reply_to)
    if answered is not None and answered.source_session_id:
        yield answered.source_session_id
    newest = tx.value("newest_peer_session", {"platform_id": target})
    if newest:
        yield newest


def _session(index: MailIndex, session_id: str) -> MailboxSession | None:
    try:
        return index.session(session_id)
    except NotFound:
        return None


# ---------------------------------------------------------------------- how often


def _hops(source: MailContext, mail: Outgoing) -> int:
    """Count how many agents have passed this on, this one included.

    The count goes on from the mail it answers, or else from the last mail of any agent: leaving
    out what is answered does not make the count begin anew.
    """
    with source.folder.inbound.read() as tx:
        answered = tx.one("hops_of", {"id": mail.in_reply_to}) or tx.one("newest_hop")
        if answered is None:
            return 1
        hops, seq, timestamp = answered
        if tx.value("spoken_since", {"seq": seq}):
            return 1
    age = source.clock() - (read_moment(timestamp) or 0)
    return 1 if age > source.policy.hop_memory_ms else int(hops) + 1


# ---------------------------------------------------------------------- with what


def _content(
    source: MailContext, index: MailIndex, target: MailContext, mail: Outgoing, row_id: str
) -> Json:
    """Shape a message for another agent: words and files, in the name of who really sends it."""
    names = mail.content.get("files")
    files = names if isinstance(names, list) else []
    if not mail.text and not files:
        raise Refused("only words and files can go to another agent", hint='send {"text": …}')
    sender = index.agent_group(source.agent_group or "")
    said = shapes.chat(mail.text, sender=sender.name, sender_id=f"agent:{sender.id}")
    given = hand_over(source.folder.path, mail.id, target.folder.path, row_id, files)
    return {**said, "attachments": given} if given else said
