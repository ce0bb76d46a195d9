"""The sessions of all programs: one row each, kept up to date as more of them is read."""

import msgspec

from threadkeep.base.tx import Tx
from threadkeep.knowledge.copies import note_origin
from threadkeep.knowledge.records import Entry, SessionFacts

_PREVIEW_CHARACTERS = 200
_MOST_BEHIND_MS = 30_000  # as long as the time between two looks at all logs


class Growth(msgspec.Struct):
    """What a batch adds to a session's row."""

    entries: int = 0
    prompts: int = 0
    tool_calls: int = 0
    errors: int = 0
    first_prompt: str = ""
    started_at: int | None = None
    ended_at: int | None = None

    def count(self, entry: Entry) -> None:
        """Add a new entry."""
        self.cover(entry)
        if entry.kind == "prompt":
            self.prompts += 1
            if not self.first_prompt:
                self.first_prompt = " ".join(entry.text[: 4 * _PREVIEW_CHARACTERS].split())
        elif entry.kind == "tool_call":
            self.tool_calls += 1
        self.errors += entry.error

    def cover(self, entry: Entry) -> None:
        """Add an entry that is there and was said elsewhere."""
        self.entries += 1
        if entry.at is not None:
            if self.started_at is None or entry.at < self.started_at:
                self.started_at = entry.at
            if self.ended_at is None or entry.at > self.ended_at:
                self.ended_at = entry.at


def session_number(tx: Tx, harness: str, session_id: str) -> int:
    """Give the row number of a session, and make the row if it is new."""
    values = {"harness": harness, "session_id": session_id}
    found = tx.value("session_number", values)
    return int(found) if found is not None else tx.insert("insert_session", values)


def grow_session(tx: Tx, session: int, growth: Growth, *, live: bool = False) -> None:
    """Add a batch to a session's row.

    With the row eight lists are written. So while its log is watched (`live`) that waits for the
    next look at all logs, unless the session comes to stand elsewhere in them.
    """
    values = msgspec.structs.asdict(growth)
    values |= {"first_prompt": growth.first_prompt[:_PREVIEW_CHARACTERS], "session": session}
    if live and tx.value("session_may_wait", {**values, "ms": _MOST_BEHIND_MS}):
        return
    tx.run("grow_session", values)
    if live:
        recount(tx, session)  # what waited until now


def learn(tx: Tx, session: int, facts: SessionFacts) -> None:
    """Store what is known about a session; what is empty changes nothing."""
    folder = (facts.began_in or facts.cwd).replace("\\", "/").rstrip("/")
    values = msgspec.structs.asdict(facts)
    values["project"] = folder.rpartition("/")[2]
    tx.run("learn_session", {**values, "session": session})
    if facts.continues:
        note_origin(tx, session, facts.continues)


def recount(tx: Tx, session: int) -> None:
    """Count a session's entries anew, after some of them were taken away."""
    tx.run("recount_session", {"session": session})


def recount_of_log(tx: Tx, log_id: int) -> None:
    """Count the entries of all sessions of a log anew."""
    tx.run("recount_sessions_of_log", {"log": log_id})
