"""Notes that agents leave: a command as evidence, and a node that says whose word it is."""

from collections.abc import Sequence
from typing import Final

import msgspec

from threadkeep.base.tx import Tx
from threadkeep.knowledge.commands import session_of
from threadkeep.knowledge.drafts import Evidence, Mentions, NodeDraft
from threadkeep.knowledge.nodes import write_node

SOURCE: Final = "agent-note"  # what the contract calls `source_kind`
TAGS: Final = ("note", "from-agent")
_SHOWN: Final = 80


class Note(msgspec.Struct, frozen=True):
    """What an agent wants to be remembered; texts are masked already."""

    text: str
    author: str  # the program that the agent runs in
    envelope_id: str  # one note has one id
    session: str  # of the program that took it, a UUID
    at: int  # epoch milliseconds
    title: str = ""
    cwd: str = ""
    repo: str | None = None
    tags: tuple[str, ...] = ()
    hostname: str = ""
    username: str = ""


def draft_of(note: Note) -> NodeDraft:
    """Make the draft of a note; its first words say that an agent said it."""
    named = note.repo or note.cwd.rstrip("/").rpartition("/")[2]
    told = ": ".join(part for part in (note.title, note.text) if part)
    return NodeDraft(
        summary=f"Noted by an agent ({note.author}), not verified: {told}",
        intent="a note to remember",
        entities=Mentions(projects=(named,) if named else ()),
        tags=tuple(dict.fromkeys((*TAGS, *note.tags))),
        embed_text=" ".join(part for part in (note.title, note.text, named) if part),
    )


def write_note(tx: Tx, note: Note, *, uuid: str, roots: Sequence[str] = ()) -> int:
    """Store a note and give the number of its node."""
    event = tx.insert("insert_command", _event(tx, note))
    return write_node(
        tx,
        "shell",
        draft_of(note),
        Evidence(events=(event,)),
        model=f"agent:{note.author}",
        now=note.at,
        uuid=uuid,
        roots=roots,
    )


def _event(tx: Tx, note: Note) -> dict[str, object]:
    nothing = ("stdout", "stderr", "stdout_truncated", "stderr_truncated", "snapshot", "probe_tag")
    git = ("git_branch", "git_commit", "git_dirty")
    begins = " ".join((note.title or note.text).split())[:_SHOWN]
    return {
        **dict.fromkeys((*nothing, *git)),
        "session_id": _session(tx, note),
        "at": note.at,
        "command": f"remember: {begins}",
        "exit_code": 0,
        "duration": 0,
        "cwd": note.cwd,
        "hostname": note.hostname,
        "shell": note.author,
        "git_repo": note.repo,
        "envelope": note.envelope_id,
        "source_kind": SOURCE,
        "tool_name": "remember",
        "redactions": 0,
        "now": note.at,
    }


def _session(tx: Tx, note: Note) -> int:
    found = session_of(tx, note.session)
    if found is not None:
        return found
    who = {"shell": note.author, "hostname": note.hostname, "username": note.username}
    return tx.insert(
        "insert_shell_session",
        {**who, "terminal": note.session, "start": note.at, "now": note.at},
    )
