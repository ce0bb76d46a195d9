"""What surfaces need of mailboxes: one found by its name or path, and either side of it opened.

Everything of the mailbox that a surface uses is named here, so that none imports a contract.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from threadkeep.base import json
from threadkeep.base.clock import now_ms
from threadkeep.errors import Invalid, NotFound, ThreadkeepError
from threadkeep.mailbox.container.inbox import tasks as tasks_of
from threadkeep.mailbox.context import MailContext
from threadkeep.mailbox.folder import session_dir
from threadkeep.mailbox.host.host import Host
from threadkeep.mailbox.index import MailIndex
from threadkeep.mailbox.index_records import MailboxSession
from threadkeep.mailbox.letters import Letter, Overview, letters, look_at, overview
from threadkeep.mailbox.records import Mail, Place
from threadkeep.mailbox.recurrence import next_times
from threadkeep.mailbox.rows import read_moment

if TYPE_CHECKING:
    from threadkeep.home.home import Home


_LAST = "last"
_SHOWN = "`threadkeep mail ls` shows the sessions; `threadkeep mail new NAME` makes one"


def is_folder(ref: str) -> bool:
    """Tell whether a name means a folder rather than a session of the index."""
    return os.sep in ref or (bool(ref) and Path(ref).is_dir())


def find_mail_session(index: MailIndex, ref: str) -> MailboxSession:
    """Return the session that is meant: an id or its beginning, an agent's name, or `last`."""
    if not ref:
        raise Invalid("the name of the session is empty", hint="give an id, a folder, or `last`")
    found = _meant(index, ref)
    if not found:
        msg = f"there is no session {ref[:80]!r}, neither by id nor as a folder"
        raise NotFound(msg, hint=_SHOWN)
    if len(found) > 1:
        some = ", ".join(one.id for one in found[:3])
        msg = f"several sessions match {ref[:80]!r}, including {some}"
        raise Invalid(msg, hint="use a longer prefix of the id")
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


# ------------------------------------------------------------------------------
# Mailboxes by the names of their sessions alone: a surface that others reach opens no folder.


def session_named(home: "Home", ref: str) -> MailboxSession:
    """Find a session of the mailroom by the beginning of its id, its agent's name, or `last`."""
    with home.mail_index() as index:
        return find_mail_session(index, ref)


def folder_of(home: "Home", session: MailboxSession) -> Path:
    """Return the folder of a session."""
    return session_dir(home.paths().data / "mailbox", session.agent_group_id, session.id)


def look_into(home: "Home", ref: str) -> MailContext:
    """Open a session's mailbox to look at it: nothing is added to it."""
    return look_at(folder_of(home, session_named(home, ref)), zone=home.zone)


def host_of(home: "Home", ref: str) -> Host:
    """Open the host's side of a session's mailbox."""
    return Host(folder_of(home, session_named(home, ref)), zone=home.zone)


# ------------------------------------------------------------------------------
# The mailboxes of a home as a page shows them: all of them, or the letters of one.
#
# Only sessions that the index knows are opened here: a name never means a folder elsewhere.

_FOLDER: Final = "mailbox"
_RUNS: Final = 5
_TRIED_AGAIN: Final = frozenset(("failed", "unknown"))


class MailboxRow(msgspec.Struct, frozen=True):
    """A mailbox in a list; `problem` says why its folder could not be looked into."""

    id: str
    agent: str
    chat: str
    status: str
    container: str
    last_active: int | None
    open: Overview | None = None
    problem: str = ""


class Slip(msgspec.Struct, frozen=True):
    """A letter as it is shown."""

    direction: str  # in: to the agent; out: from it
    id: str
    seq: int | None
    kind: str
    at: int | None
    state: str
    text: str
    sender: str = ""
    place: str = ""
    files: tuple[str, ...] = ()
    due: int | None = None
    tries: int = 0
    reason: str = ""
    in_reply_to: str = ""
    recurrence: str = ""
    can_retry: bool = False


class TaskRow(msgspec.Struct, frozen=True):
    """A task that waits for its time, and when it runs next."""

    id: str
    seq: int | None
    text: str
    state: str
    recurrence: str
    runs: tuple[int, ...]
    problem: str = ""


class Mailbox(msgspec.Struct, frozen=True):
    """One mailbox with its newest letters, in the order in which they were written."""

    box: MailboxRow
    letters: tuple[Slip, ...]
    tasks: tuple[TaskRow, ...]
    counts: dict[str, int]  # state -> how many of the newest letters are in it
    more: bool  # older letters are there, too


def mailboxes(home: "Home", *, closed: bool = True) -> list[MailboxRow]:
    """List the mailboxes of a home, what is open in each counted; none if it has no mailroom."""
    if not home.mail_path().exists():
        return []
    with home.mail_index() as index:
        known = index.sessions(status=None if closed else "active")
        return [_box(home, index, one) for one in known]


def one_mailbox(home: "Home", ref: str, *, state: str = "", limit: int = 200) -> Mailbox:
    """Return a mailbox by its id or the beginning of it, with its newest letters."""
    with home.mail_index() as index:
        session = find_mail_session(index, ref)
        box = _box(home, index, session)
    if box.open is None:
        raise NotFound(box.problem, hint="run `threadkeep mail verify` for details")
    ctx = look_at(_folder(home, session), zone=home.zone)
    newest = letters(ctx, limit=limit + 1)
    slips = [_slip(one) for one in newest[-limit:]]
    counts: dict[str, int] = {}
    for slip in slips:
        counts[slip.state] = counts.get(slip.state, 0) + 1
    wanted = tuple(one for one in slips if not state or one.state == state)
    return Mailbox(box, wanted, _tasks(ctx, home.zone), counts, len(newest) > limit)


def try_again(home: "Home", ref: str, letter: str, *, force: bool = False) -> str:
    """Try a dead letter of a mailbox once more; give the id it has now."""
    with home.mail_index() as index:
        session = find_mail_session(index, ref)
    tried = Host(_folder(home, session), zone=home.zone).retry(letter, force=force)
    return tried.id if isinstance(tried, Mail) else tried.message_out_id


# ---------------------------------------------------------------------- inside


def _folder(home: "Home", session: MailboxSession) -> Path:
    return session_dir(home.paths().data / _FOLDER, session.agent_group_id, session.id)


def _box(home: "Home", index: MailIndex, session: MailboxSession) -> MailboxRow:
    box = MailboxRow(
        id=session.id,
        agent=index.agent_group(session.agent_group_id).name,
        chat=_chat(index, session),
        status=session.status,
        container=session.container_status,
        last_active=read_moment(session.last_active),
    )
    try:
        found = overview(look_at(_folder(home, session)))
    except ThreadkeepError as error:
        return msgspec.structs.replace(box, problem=error.message)
    return msgspec.structs.replace(box, open=found)


def _chat(index: MailIndex, session: MailboxSession) -> str:
    if session.messaging_group_id is None:
        return ""
    group = index.messaging_group(session.messaging_group_id)
    return _place(Place(group.channel_type, group.platform_id, session.thread_id))


def _place(place: Place) -> str:
    parts = (place.channel_type, place.platform_id, place.thread_id)
    return ":".join(str(part) for part in parts if part)


def _slip(letter: Letter) -> Slip:
    sender = letter.content.get("sender")
    return Slip(
        direction=letter.direction,
        id=letter.id,
        seq=letter.seq,
        kind=str(letter.kind),
        at=read_moment(letter.at),
        state=str(letter.state),
        text=said_in(letter.content),
        sender=sender if isinstance(sender, str) else "",
        place=_place(letter.place),
        files=_files(letter.content),
        due=read_moment(letter.due),
        tries=letter.tries,
        reason=letter.reason or "",
        in_reply_to=letter.in_reply_to or "",
        recurrence=letter.recurrence or "",
        can_retry=letter.state in _TRIED_AGAIN,
    )


def said_in(content: dict[str, Any]) -> str:
    """Say what mail is about, whatever its shape."""
    text = content.get("text", content.get("prompt"))
    if content.get("operation") == "reaction":
        return f"reacts with {content.get('emoji')}"
    if content.get("operation") == "edit":
        return f"changes it to: {text}"
    if content.get("type") == "ask_question":
        options = content.get("options")
        named = [_option(one) for one in options] if isinstance(options, list) else []
        return f"{content.get('question')} ({' / '.join(named)})"
    if content.get("type") == "question_response":
        return f"chose: {content.get('selectedOption', content.get('result'))}"
    return text if isinstance(text, str) else json.encode(content)


def _option(option: Any) -> str:
    return str(option.get("label", "?") if isinstance(option, dict) else option)


def _files(content: dict[str, Any]) -> tuple[str, ...]:
    lists = (content.get("attachments"), content.get("files"))
    found = [one for files in lists if isinstance(files, list) for one in files]
    return tuple(str(one.get("name", "?") if isinstance(one, dict) else one) for one in found)


def _tasks(ctx: MailContext, zone: str) -> tuple[TaskRow, ...]:
    return tuple(_task(mail, zone) for mail in tasks_of(ctx))


def _task(mail: Mail, zone: str) -> TaskRow:
    due = read_moment(mail.process_after)
    first = () if due is None else (due,)
    task = TaskRow(mail.id, mail.seq, mail.text, mail.status, mail.recurrence or "", first)
    if not mail.recurrence:
        return task
    try:
        found = next_times(mail.recurrence, now_ms() if due is None else due, zone, _RUNS)
    except ThreadkeepError as error:
        return msgspec.structs.replace(task, problem=error.message)
    runs = [*first, *(round(one.timestamp() * 1000) for one in found)]
    return msgspec.structs.replace(task, runs=tuple(runs[:_RUNS]))
