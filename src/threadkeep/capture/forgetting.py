"""Forgetting: what was captured goes again, with all that came of it, out of the file itself.

Every step is one transaction, and the first one leaves word of the rest. A run that is killed
is completed by the same call, or, once sessions are named as forgotten, by the next capture.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from threadkeep.base.backup import list_backups
from threadkeep.base.sqlite import Tx
from threadkeep.capture.choosing import (
    Forget,
    Matches,
    Picks,
    Searches,
    check,
    logs_to_search,
    matching_rows,
    meant_sessions,
    picker,
    rows_in_time,
    strings_in,
    whole_sessions,
)
from threadkeep.capture.context import Surroundings
from threadkeep.capture.rederiving import (
    Places,
    Rederived,
    Transform,
    changes_of,
    envelope_of,
    event_number,
    foresee,
    legacy_numbers,
    reap,
    rederive,
    segment_number,
)
from threadkeep.capture.reindexing import clean
from threadkeep.capture.report import Progress, Watcher, silent
from threadkeep.errors import Invalid
from threadkeep.knowledge.archive import drop_lines, read_lines
from threadkeep.knowledge.context import Context
from threadkeep.knowledge.entries import Words, index_words
from threadkeep.knowledge.forgetting import (
    Kind,
    doomed_nodes,
    erase,
    remember_forgotten,
    vectors_are,
)
from threadkeep.knowledge.logs import LogRow, load_log_by_id, logs_of_session
from threadkeep.knowledge.reading import Session, to_session
from threadkeep.knowledge.texts import blank_texts
from threadkeep.sources.claude_tools import session_uuid
from threadkeep.sources.decoding import decode_line
from threadkeep.sources.records import Source

__all__ = ["Forget", "Forgotten", "finish", "forget", "purge"]

_EXAMPLES: Final = 10
_CURSORS: Final = {"codex": "codex", "cursor": "cursor-agent"}


class Forgotten(msgspec.Struct):
    """What was forgotten, or would be in a dry run."""

    sessions: int = 0
    lines: int = 0
    entries: int = 0
    segments: int = 0
    nodes: int = 0
    events: int = 0  # with visits and runs of CI
    examples: list[str] = []
    backups: list[str] = []  # files from before, which still hold it
    vectors_left: int = 0  # of nodes that went; taking them out needs the extension sqlite-vec


class _Plan(msgspec.Struct):
    """What is chosen, and all that will be gone or without its content."""

    done: Forgotten
    whole: list[Session]
    meant: set[int]
    logs: list[int] = []
    lost: dict[Kind, set[int]] = {}
    changed: set[int] = set()  # segments that stay, with another content
    rewritten: set[int] = set()  # events that stay so

    def lose(self, kind: Kind, ids: set[int]) -> None:
        self.lost.setdefault(kind, set()).update(ids)

    def example(self, text: str) -> None:
        if len(self.done.examples) < _EXAMPLES:
            self.done.examples.append(text)


def forget(
    context: Context,
    around: Surroundings,
    sources: Mapping[str, Source],
    what: Forget,
    *,
    dry_run: bool = False,
    show: Watcher = silent,
) -> Forgotten:
    """Forget sessions, a span of time, or all that a pattern is found in; or only count it."""
    searches = check(what)
    places = Places(around, sources)
    with around.db.read() as tx:
        plan = _plan(context, tx, places, what, searches)
    if not dry_run:
        _name_forgotten(around, plan.whole)
        purge(around, sources, places, show)
        _forget_lines(around, places, plan, (what, searches), show)
        _forget_rows(around, what, searches)
        clean(around, sources, show)
    return plan.done


# ---------------------------------------------------------------------- looking


def _plan(context: Context, tx: Tx, places: Places, what: Forget, searches: Searches) -> _Plan:
    meant = meant_sessions(context, tx, what)
    whole = whole_sessions(what, meant)
    plan = _Plan(Forgotten(sessions=len(whole)), whole, {one.id for one in meant})
    for session in whole:
        plan.example(f"{session.harness}:{session.session_id} {session.name[:80]}")
        _count_session(tx, places, session, plan)
    for log in logs_to_search(tx, what, plan.meant, {one.id for one in whole}):
        picks = picker(tx, places.sources, log, what, searches, plan.meant)
        _count_lines(tx, places, log, picks, plan)
    if what.pattern is None and what.in_time:
        for kind, ids in rows_in_time(tx, what).items():
            plan.lose(kind, ids)
    elif what.pattern is not None and not (what.in_sessions or what.in_time):
        _count_rows(matching_rows(tx, searches), plan)
    _count_all(tx, plan)
    plan.done.backups = [str(path) for path in list_backups(context.db.path)]
    return plan


def _count_session(tx: Tx, places: Places, session: Session, plan: _Plan) -> None:
    plan.done.entries += tx.value("count_session_entries", {"session": session.id})
    plan.lose("segment", _segments_of(tx, session))
    plan.lose("legacy", {row[0] for row in tx.all("legacy_of_session", _named(session))})
    plan.lose("event", _events_of(tx, session))
    for log in logs_of_session(tx, session.harness, session.session_id):
        if _is_shared(tx, log, session):
            picked = changes_of(tx, log, _dropping(_lines_of(tx, log, session)))
            plan.done.lines += len(picked)
        else:
            plan.done.lines += sum(1 for line in read_lines(tx, log.id) if line)
            plan.lose("event", _tool_events_in(tx, places, log))


def _count_lines(tx: Tx, places: Places, log: LogRow, picks: Picks, plan: _Plan) -> None:
    changed = changes_of(tx, log, _dropping(picks))
    if not changed:
        return
    plan.logs.append(log.id)
    plan.done.lines += len(changed)
    told = tx.all("entry_sessions_of_log", {"log": log.id})
    plan.done.entries += sum(line in changed for line, _ in told)
    for number in changed:
        plan.example(f"{log.path}:{number + 1}")
    lost = foresee(tx, places, log, changed)
    for key in lost.segments:
        segment = _known(segment_number(tx, log.harness, key))
        plan.lose("segment", segment)
        plan.lose("legacy", set(legacy_numbers(tx, key)))
        plan.changed |= segment if key in lost.segments_changed else set()
    for envelope in lost.events:
        event = _known(event_number(tx, envelope))
        plan.lose("event", event)
        plan.rewritten |= event if envelope in lost.events_changed else set()


def _known(number: int | None) -> set[int]:
    return set() if number is None else {number}


def _count_rows(matches: Matches, plan: _Plan) -> None:
    for texts, number, _ in matches:
        if texts.kind is None:
            continue
        made_anew = texts.kind in {"segment", "event"} and number in plan.lost.get(texts.kind, ())
        if not made_anew:
            plan.lose(texts.kind, {number})
            plan.example(f"{texts.table} {number}")


def _count_all(tx: Tx, plan: _Plan) -> None:
    done, lost = plan.done, plan.lost
    done.segments = len(lost.get("segment", set()) - plan.changed)
    done.events = len(lost.get("event", set()) - plan.rewritten)
    done.events += len(lost.get("visit", ())) + len(lost.get("run", ()))
    done.nodes = len(doomed_nodes(tx, lost))
    done.vectors_left = done.nodes if vectors_are(tx, "locked") else 0


def _named(session: Session) -> dict[str, str]:
    return {"harness": session.harness, "session_id": session.session_id}


def _segments_of(tx: Tx, session: Session) -> set[int]:
    return {row[0] for row in tx.all("segments_of_session", _named(session))}


def _terminals(session: Session) -> set[str]:
    """Give the names under which tool calls of a session are stored."""
    return {session.session_id, session_uuid(session.session_id)}


def _events_of(tx: Tx, session: Session) -> set[int]:
    found = (tx.all("tool_events_of_session", {"terminal": t}) for t in _terminals(session))
    return {row[0] for rows in found for row in rows}


def _tool_events_in(tx: Tx, places: Places, log: LogRow) -> set[int]:
    """Give the tool calls of a log: those of a subagent are stored as its parent's."""
    if log.reader not in places.sources:
        return set()
    harvest = reap(places.source(log), places.log(tx, log), enumerate(read_lines(tx, log.id)))
    found = (event_number(tx, envelope_of(run)) for run in harvest.tools)
    return {number for number in found if number is not None}


def _is_shared(tx: Tx, log: LogRow, session: Session) -> bool:
    return tx.value("log_has_others", {"log": log.id, "session": session.id}) is not None


def _lines_of(tx: Tx, log: LogRow, session: Session) -> Picks:
    """Pick a session's lines out of a log of several: its entries, and lines that name it."""
    told: dict[int, set[int]] = {}
    for line, number in tx.all("entry_sessions_of_log", {"log": log.id}):
        told.setdefault(line, set()).add(number)

    def picks(number: int, line: bytes) -> bool:
        if number in told:
            return session.id in told[number]
        try:
            records = decode_line(line)
        except Invalid:
            return False
        return any(text == session.session_id for one in records for text in strings_in(one))

    return picks


def _dropping(picks: Picks) -> Transform:
    return lambda number, line: None if picks(number, line) else line


# ---------------------------------------------------------------------- doing


def _name_forgotten(around: Surroundings, sessions: list[Session]) -> None:
    """Leave word of what is forgotten; from here on it is not captured again."""
    if sessions:
        with around.db.write() as tx:
            for session in sessions:
                tx.run("put_forgotten", {**_named(session), "now": around.clock()})
            tx.run("want_cleaning")


def purge(
    around: Surroundings,
    sources: Mapping[str, Source],
    places: Places | None = None,
    show: Watcher = silent,
) -> None:
    """Take out the sessions that are forgotten and still there, one in each transaction."""
    with around.db.read() as tx:
        waiting = [to_session(row) for row in tx.all("forgotten_but_there")]
    progress = Progress(logs_total=len(waiting))
    for session in waiting:
        progress.path = session.session_id
        with around.db.write() as tx:
            _purge_session(tx, around, places or Places(around, sources), session)
            tx.run("want_cleaning")
        progress.logs_done += 1
        show(progress)


def finish(around: Surroundings, sources: Mapping[str, Source], show: Watcher = silent) -> None:
    """Complete a forgetting, or a rescan, that was interrupted; as a rule there is none."""
    purge(around, sources, None, show)
    clean(around, sources, show)


def _purge_session(tx: Tx, around: Surroundings, places: Places, session: Session) -> None:
    words: Words = []
    for log in logs_of_session(tx, session.harness, session.session_id):
        if _is_shared(tx, log, session):
            transform = _dropping(_lines_of(tx, log, session))
            rederive(tx, around, places.sources, log, transform, words, places)
        else:
            erase(tx, "event", _tool_events_in(tx, places, log))
            _drop_log(tx, around, places, log, session)
    erase(tx, "event", _events_of(tx, session))
    erase(tx, "segment", _segments_of(tx, session))
    erase(tx, "legacy", {row[0] for row in tx.all("legacy_of_session", _named(session))})
    for terminal in _terminals(session):
        tx.run("drop_empty_shell_session", {"terminal": terminal})
    for step in ("delete_session_usage", "delete_session_entries", "delete_session"):
        tx.run(step, {"session": session.id})
    index_words(tx, words)


def _drop_log(tx: Tx, around: Surroundings, places: Places, log: LogRow, session: Session) -> None:
    """Take a log out as a whole; under whatever name it is found again, it stays out."""
    for name in _names_of(tx, places, log):
        if _lives(tx, log.harness, name, session):
            remember_forgotten(tx, read_lines(tx, log.id))
        else:
            values = {"harness": log.harness, "session_id": name, "now": around.clock()}
            tx.run("put_forgotten", values)
    drop_lines(tx, log.id)
    place = {"session_id": session.session_id, "path": log.path}
    tx.run("drop_offsets", place)
    tx.run("drop_parity", {"path": log.path})
    key = f"{_CURSORS.get(log.harness, log.harness)}-{log.inode}"
    tx.run("drop_cursors", {"session_id": session.session_id, "key": key})
    for step in ("delete_log_entries", "delete_log_records", "delete_log_unknown", "delete_log"):
        tx.run(step, {"log": log.id})


def _names_of(tx: Tx, places: Places, log: LogRow) -> set[str]:
    """Give the names of a log: what it was known by, and what its place says."""
    names = {log.session_id, log.item or Path(log.path).stem}
    if log.reader in places.sources and not log.item:
        names.add(places.log(tx, log).session_id)
    return names - {""}


def _lives(tx: Tx, harness: str, name: str, session: Session) -> bool:
    """Tell whether a name is also that of another session, which stays."""
    values = {"harness": harness, "session_id": name}
    number = tx.value("session_number", values)
    if number in {None, session.id} or tx.value("is_forgotten", values) is not None:
        return False
    return bool(tx.value("count_session_entries", {"session": number}))


def _forget_lines(
    around: Surroundings,
    places: Places,
    plan: _Plan,
    chosen: tuple[Forget, Searches],
    show: Watcher,
) -> None:
    """Drop the chosen lines, log by log; each is looked at again, it may have grown."""
    progress = Progress(logs_total=len(plan.logs))
    for number in plan.logs:
        with around.db.write() as tx:
            log = load_log_by_id(tx, number)
            if log is None:
                continue
            words: Words = []
            picks = picker(tx, places.sources, log, *chosen, plan.meant)
            done = rederive(tx, around, places.sources, log, _dropping(picks), words, places)
            _forget_legacy(tx, done)
            index_words(tx, words)
            tx.run("want_cleaning")
        progress.logs_done += 1
        progress.path = log.path
        show(progress)


def _forget_legacy(tx: Tx, done: Rederived) -> None:
    """Take out the frozen rows of slices whose content has gone: nobody makes them anew."""
    for key in done.lost.segments:
        erase(tx, "legacy", legacy_numbers(tx, key))


def _forget_rows(around: Surroundings, what: Forget, searches: Searches) -> None:
    if what.pattern is None and what.in_time:
        with around.db.write() as tx:
            found = rows_in_time(tx, what)
            for kind, ids in found.items():
                erase(tx, kind, ids)
            if any(found.values()):
                tx.run("drop_quiet_shell_sessions", {"since": what.since, "until": what.until})
                tx.run("want_cleaning")
    elif what.pattern is not None and not (what.in_sessions or what.in_time):
        with around.db.write() as tx:
            if _erase_matches(tx, searches):
                tx.run("want_cleaning")


def _erase_matches(tx: Tx, searches: Searches) -> bool:
    matches = matching_rows(tx, searches)
    for texts, number, columns in matches:
        if texts.kind is None:
            blank_texts(tx, texts, number, columns)
        else:
            erase(tx, texts.kind, [number])
    kinds = [row for row in tx.all("unknown_kinds") if searches(row[0])]
    tx.run_bulk("delete_unknown_kind", kinds)
    return bool(matches or kinds)
