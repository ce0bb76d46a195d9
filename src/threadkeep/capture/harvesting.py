"""From what a parser gives to rows: one log, one transaction."""

import logging
import os
import socket
from collections import defaultdict
from typing import Any, Final

import msgspec

from threadkeep.base.tx import Tx
from threadkeep.capture.claims import Claims, Fresh
from threadkeep.capture.report import HarnessReport
from threadkeep.errors import Invalid
from threadkeep.knowledge.entries import EntryChanges, EntryLocation, Words, write_entries
from threadkeep.knowledge.health import health_name, note_success
from threadkeep.knowledge.logs import LogRow, drop_notes
from threadkeep.knowledge.records import Entry
from threadkeep.knowledge.segments import write_segment
from threadkeep.knowledge.sessions import Growth, grow_session, learn, recount, session_number
from threadkeep.knowledge.tool_events import write_tool_runs
from threadkeep.knowledge.usage import counted, write_usage
from threadkeep.sources.decoding import decode_line
from threadkeep.sources.hippo_notes import READER as NOTES
from threadkeep.sources.records import Harvest, Parser

log = logging.getLogger(__name__)

_LONGEST_NAME: Final = 80


class MachineUser(msgspec.Struct, frozen=True):
    """On which machine, and as whom, tools were run."""

    hostname: str
    username: str


def this_machine() -> MachineUser:
    """Name this machine and its user."""
    return MachineUser(socket.gethostname(), os.environ.get("USER") or "unknown")


class Intake:
    """Feeds lines to a parser and turns what it gives into rows of one log."""

    def __init__(
        self, harness: str, row: LogRow, parser: Parser, report: HarnessReport, fresh: Fresh
    ) -> None:
        """Take a log with its parser; `fresh` makes others that know nothing of it yet."""
        self._harness = harness
        self._row = row
        self._parser = parser
        self._claims = Claims(fresh, f"{harness}:{row.session_id}")
        self._report = report
        self._placed: dict[str, list[EntryLocation]] = defaultdict(list)
        self._troubles: dict[str, int] = {}

    def go_on(self, row: LogRow) -> None:
        """Go on in another transaction, with the row of the log as it is there."""
        row.bad_lines = self._row.bad_lines
        self._row = row

    def feed(self, tx: Tx, line: bytes, number: int) -> bool:
        """Take one masked line; tell whether it is readable."""
        try:
            records = decode_line(line)
        except Invalid:
            self._row.bad_lines += 1
            self._report.bad_lines += 1
            return False
        part = 0
        for record in records:
            taken = self._claims.checked(tx, record, line, number)
            for entry in self._entries(taken, line, number):
                session_id = entry.session_id or self._row.session_id
                self._placed[session_id].append(EntryLocation(entry, number, part))
                part += 1
        return True

    def _entries(self, record: Any, line: bytes, number: int) -> list[Entry]:
        try:
            return self._parser.feed(record, line, number)
        except Exception as error:
            # The line itself is archived; a parser's mistake must not stop the capture, and is
            # reported with the record types that are unknown.
            name = f"{type(error).__name__}: {error}"[:_LONGEST_NAME]
            self._troubles[name] = self._troubles.get(name, 0) + 1
            log.debug("%s line %d: %s", self._row.path, number, name, exc_info=True)
            return []

    def write_entries(self, tx: Tx, words: Words, *, live: bool = False) -> None:
        """Store the entries fed so far; `words` takes what is to be indexed."""
        if self._placed and tx.value("log_has_entries", {"log": self._row.id}) is None:
            # The log itself knows better than its name whose it is.
            self._row.session_id = next(iter(self._placed))
            self._take_over_notes(tx)
        for session_id, placed in self._placed.items():
            session = session_number(tx, self._harness, session_id)
            written = write_entries(tx, self._row.id, session, placed, words)
            self._count(tx, session, written, live=live)
        self._placed.clear()

    def _take_over_notes(self, tx: Tx) -> None:
        """Let notes of the sessions of a log give way to the log."""
        if self._row.reader != NOTES:
            for session_id in self._placed:
                drop_notes(tx, NOTES, self._harness, session_id)

    def _count(self, tx: Tx, session: int, written: EntryChanges, *, live: bool) -> None:
        growth = Growth()
        for entry in written.fresh:
            growth.count(entry)
        for entry in written.copies:
            growth.cover(entry)
        if growth.entries:
            grow_session(tx, session, growth, live=live)
            self._report.entries += len(written.fresh)
        if written.replaced:
            recount(tx, session)

    def write_harvest(self, tx: Tx, who: MachineUser, now: int, *, live: bool = False) -> None:
        """Store what the parser found out beside the entries.

        While somebody watches a log grow (`live`), what nobody waits for is left to the next look
        at all logs: the segment that is still open, and that all is well. To write them for each
        line took a third of what was written.
        """
        harvest = self._parser.harvest()
        if live:
            harvest.segments = [one for one in harvest.segments if not one.is_open]
        for session_id, facts in harvest.facts.items():
            learn(tx, session_number(tx, self._harness, session_id or self._row.session_id), facts)
        self._write_usage(tx, harvest)
        changed = self._write_segments(tx, harvest, now)
        tools = write_tool_runs(
            tx,
            harvest.tools,
            shell=self._harness,
            hostname=who.hostname,
            username=who.username,
            now=now,
        )
        if tools:
            newest = max(run.at for run in harvest.tools)
            note_success(tx, "claude-tool", last_event=newest, count=tools, now=now)
        self._write_unknown(tx, harvest, now)
        if not live or changed:
            newest_end = max((segment.end for segment in harvest.segments), default=None)
            source = health_name(self._harness)
            note_success(tx, source, last_event=newest_end, count=changed, now=now)

    def _write_usage(self, tx: Tx, harvest: Harvest) -> None:
        sessions: dict[str, int] = {}
        usage = counted(tx, self._row, harvest.usage)
        for one in usage:
            name = one.session_id or self._row.session_id
            if name not in sessions:
                sessions[name] = session_number(tx, self._harness, name)
        rows = [(sessions[u.session_id or self._row.session_id], u) for u in usage]
        write_usage(tx, self._harness, rows)

    def _write_segments(self, tx: Tx, harvest: Harvest, now: int) -> int:
        changed = 0
        for segment in harvest.segments:
            changed += write_segment(tx, self._harness, segment, self._row.path, now)
        self._report.segments += changed
        return changed

    def _write_unknown(self, tx: Tx, harvest: Harvest, now: int) -> None:
        found = {**harvest.unknown}
        for name, count in self._troubles.items():
            found[name] = found.get(name, 0) + count
        self._troubles.clear()
        for kind, count in found.items():
            values = {"harness": self._harness, "kind": kind[:_LONGEST_NAME], "count": count}
            tx.run("count_unknown", {**values, "log": self._row.id, "now": now})
            self._report.unknown[kind] = self._report.unknown.get(kind, 0) + count

    def state(self) -> bytes:
        """Give what the parser needs to go on later."""
        return self._parser.state()
