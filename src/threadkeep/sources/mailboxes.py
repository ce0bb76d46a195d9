"""Mailbox folders as a source: one session for each, the mail of both directions brought together.

The folder belongs to a sandboxed agent as much as to its host, so both files are opened with the
mailbox's own caution: no links, no views, no log of the other side's making, a limit on time.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from pathlib import Path
from typing import Any, Final

from threadkeep.knowledge.records import Entry, SessionFacts
from threadkeep.mailbox.folder import Folder, all_mail, size_of_mail
from threadkeep.mailbox.records import Direction
from threadkeep.mailbox.rows import read_moment
from threadkeep.sources.common import describe_input, rows, table, text
from threadkeep.sources.folders import file_stamp, folders_in
from threadkeep.sources.own import (
    OwnStoreRecord,
    Row,
    SessionParser,
    fingerprint,
    frame_of,
    line,
    read_safely,
    row_of,
    said,
)
from threadkeep.sources.records import DocumentItem, Log, Parser, Stamp, UserHome

# How long one folder may keep the others waiting, in seconds: its agent can lock its files.
_PATIENCE: Final = 2.0
_AS_JSON: Final = frozenset(("content",))
# What was said and where; how far it is on its way changes, and is no part of the conversation.
_COLUMNS: Final = (
    *("id", "seq", "kind", "timestamp", "in_reply_to", "channel_type", "platform_id"),
    *("thread_id", "trigger", "series_id", "source_session_id", "content"),
)
_LABELS: Final = {"nanoclaw": "NanoClaw"}


class MailboxSource:
    """The session folders below some roots: `<root>/<agent group>/<session>/`."""

    kind: Final = "document"

    def __init__(self, roots: Sequence[Path], agent: str = "mailbox") -> None:
        """Look below these folders; `agent` is `nanoclaw` for folders that are not ours."""
        self.agent: Final = agent
        self._roots = tuple(roots)

    def roots(self, user: UserHome) -> list[Path]:
        """Name the folders, wherever the user's home is."""
        del user
        return list(self._roots)

    def find(self, user: UserHome) -> Iterator[Log]:
        """Yield the session folders that are there; those behind links are passed over."""
        for root in sorted(set(self._roots)):
            for group in folders_in(root, user, is_root=True):
                for session in folders_in(group, user):
                    stamp = _stamp(session, user)
                    if stamp is not None:
                        path = os.fspath(session)
                        yield Log(path, stamp, session.name, project_dir=group.name)

    def parser(self, log: Log, state: bytes | None) -> Parser:
        """Make a parser; it has no state."""
        del state
        return SessionParser(log, _LABELS.get(self.agent, self.agent.title()), read_record)

    def entries(self, record: Any, line: bytes, number: int) -> list[Entry]:  # noqa: ARG002
        """Read one record alone."""
        return list(read_safely(read_record, record).entries)

    def items(self, log: Log) -> Iterable[DocumentItem]:
        """Yield the one session of a folder."""
        folder = _open(log)
        looks = [size_of_mail(folder, "in"), size_of_mail(folder, "out")]
        yield DocumentItem(folder.path.name, fingerprint(looks))

    def records(self, log: Log, item: str) -> Iterable[tuple[str, bytes]]:
        """Yield the mail of a folder: each direction by its numbers, the two of them by time."""
        folder = _open(log)
        about = {"agent_group": folder.path.parent.name}
        yield "session", line(type="session", session=item, row=about)
        timed = merge(_timed(folder, "in"), _timed(folder, "out"), key=lambda one: one[:2])
        for *_, direction, row in timed:
            key = f"{direction}:{row.get('id')}"
            yield key, line(type="mail", session=item, direction=direction, row=row)


def _stamp(folder: Path, user: UserHome) -> Stamp | None:
    coming = file_stamp(folder / "inbound.db", user)
    going = file_stamp(folder / "outbound.db", user)
    if coming is None or going is None:
        return None
    size = coming.size + going.size
    newest = max(coming.mtime_ns, going.mtime_ns)
    return coming._replace(
        size=size, mtime_ns=newest, ctime_ns=max(coming.ctime_ns, going.ctime_ns)
    )


# ---------------------------------------------------------------------- rows


def _open(log: Log) -> Folder:
    return Folder(log.path, budget=_PATIENCE).need()


def _timed(folder: Folder, direction: Direction) -> Iterator[tuple[int, int, str, Row]]:
    """Give each row a time that never goes back in its direction; in one second numbers decide."""
    latest = highest = 0
    for values in all_mail(folder, direction, _COLUMNS):
        row = row_of(values, _AS_JSON)
        at, seq = _at(row), row.get("seq")
        latest = max(latest, (at or 0) // 1000)
        highest = max(highest, seq if isinstance(seq, int) else 0)
        yield latest, highest, direction, row


def _at(row: Row) -> int | None:
    return read_moment(text(row.get("timestamp")))


# ---------------------------------------------------------------------- records to entries


def read_record(record: Any) -> OwnStoreRecord:
    """Read one record of a mailbox."""
    kind, session_id, row, whole = frame_of(record)
    if not session_id:
        return OwnStoreRecord(unknown="no session")
    if kind == "session":
        return OwnStoreRecord(session_id, facts=SessionFacts(agent=text(row.get("agent_group"))))
    direction, mail_id = text(whole.get("direction")), text(row.get("id"))
    if kind != "mail" or direction not in ("in", "out"):
        return OwnStoreRecord(unknown=kind or "no type")
    if not mail_id:
        return OwnStoreRecord(unknown="mail without an id")
    entry = Entry(f"{direction}:{mail_id}", "system", "note", _at(row), "", session_id)
    known = _incoming(row, entry) if direction == "in" else _outgoing(row, entry)
    if not known:
        return OwnStoreRecord(session_id, unknown=f"{direction}/{text(row.get('kind'))}")
    return OwnStoreRecord(session_id, [entry] if entry.text else [])


def _incoming(row: Row, entry: Entry) -> bool:
    """Fill in what came for the agent; False if its kind is not known."""
    kind, content = text(row.get("kind")), row.get("content")
    if kind in ("chat", "chat-sdk"):
        entry.role = "user"
        entry.text = _spoken(content)
        from_host = table(content).get("senderId") == "system"
        # What wakes nobody was said to others, and is there to be known.
        entry.kind = "note" if from_host or row.get("trigger") == 0 else "prompt"
        return True
    entry.text = text(table(content).get("prompt")) if kind == "task" else ""
    entry.text = entry.text or describe_input(content)
    return kind in ("task", "webhook", "system")


def _outgoing(row: Row, entry: Entry) -> bool:
    """Fill in what the agent sent; False if its kind is not known."""
    kind, content = text(row.get("kind")), row.get("content")
    entry.role = "assistant"
    if kind in ("chat", "chat-sdk"):
        reaction = text(table(content).get("emoji"))
        entry.kind = "note" if reaction else "text"
        entry.text = reaction or _spoken(content)
        return True
    entry.text = describe_input(content)
    return kind == "system"


def _spoken(content: object) -> str:
    """Give the words of a message, a question or a card; content that is no JSON is plain text."""
    fields = table(content)
    if not fields:
        return said(content)
    words = [text(fields.get(name)) for name in ("text", "title", "question", "fallbackText")]
    words += [f"- {text(table(one).get('label'))}" for one in rows(fields.get("options"))]
    files = (*rows(fields.get("attachments")), *rows(fields.get("files")))
    words += [f"[file {_file_name(one)}]" for one in files]
    return "\n".join(word for word in words if word)


def _file_name(file: object) -> str:
    return text(file) or text(table(file).get("name")) or "without a name"
