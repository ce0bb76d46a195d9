"""Forgetting: what was captured goes again, with all that came of it, out of the file itself.

Every step is one transaction, and the first one leaves word of the rest. A run that is killed
is completed by the same call, or, once sessions are named as forgotten, by the next capture.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from threadkeep.base.json import decode_line
from threadkeep.base.sqlite.backup import list_backups
from threadkeep.base.tx import Tx
from threadkeep.capture.forget_selection import (
    Matches,
    Picks,
    Searches,
    check,
    in_sessions,
    in_time,
    logs_to_search,
    matching_rows,
    meant_sessions,
    picker,
    rows_of_work,
    strings_in,
    whole_sessions,
)
from threadkeep.capture.intake import CaptureContext
from threadkeep.capture.rebuild import (
    Places,
    RebuildReport,
    Transform,
    changes_of,
    foresee,
    reap,
    rederive,
)
from threadkeep.capture.records import Progress, Watcher, silent
from threadkeep.capture.rescan import clean
from threadkeep.errors import Invalid
from threadkeep.knowledge import forget_scope
from threadkeep.knowledge.archive import (
    LogRow,
    Words,
    drop_log,
    index_words,
    load_log_by_id,
    logs_of_session,
    read_lines,
    told_by_line,
)
from threadkeep.knowledge.commands import envelope_of, event_number
from threadkeep.knowledge.forget import (
    blank_texts,
    doomed_nodes,
    drop_labels,
    drop_names,
    drop_quiet_shells,
    drop_session,
    erase,
    forget_session,
    is_forgotten,
    matching_names,
    remember_forgotten,
    vectors_are,
    want_cleaning,
)
from threadkeep.knowledge.kinds import Kind
from threadkeep.knowledge.query import Query
from threadkeep.knowledge.records import CapturedSession
from threadkeep.knowledge.segments import legacy_numbers, segment_number
from threadkeep.knowledge.sessions import count_entries, known_number
from threadkeep.sources.claude.entries import session_uuid
from threadkeep.sources.copy_marks import origins_in
from threadkeep.sources.records import Source

# ------------------------------------------------------------------------------
# What a forgetting will take, counted before anything is touched.
#
# A dry run tells this and stops here; a real one tells the same.

_EXAMPLES: Final = 10

Chosen = tuple[Query, Searches]


class ForgetReport(msgspec.Struct):
    """What was forgotten, or would be in a dry run."""

    sessions: int = 0
    lines: int = 0
    entries: int = 0
    segments: int = 0
    nodes: int = 0
    observed: int = 0  # commands, visits and runs
    memories: int = 0  # files of memory, or single states of one
    examples: list[str] = []
    backups: list[str] = []  # files from before, which still hold it
    unfinished: bool = False  # a reader was in the way: the next capture cleans the file
    vectors_left: int = 0  # of nodes that went; taking them out needs the extension sqlite-vec


class ForgetPlan(msgspec.Struct):
    """What is chosen, and all that will be gone or without its content."""

    done: ForgetReport
    whole: list[CapturedSession]
    meant: set[int]  # sessions of which only lines go
    logs: list[int] = []
    lost: dict[Kind, set[int]] = {}
    changed: set[int] = set()  # segments that stay, with another content
    rewritten: set[int] = set()  # events that stay so

    def lose(self, kind: Kind, ids: set[int]) -> None:
        """Note rows that will be gone, or have another content."""
        self.lost.setdefault(kind, set()).update(ids)

    def example(self, text: str) -> None:
        """Keep one of the first examples."""
        if len(self.done.examples) < _EXAMPLES:
            self.done.examples.append(text)


def advance(progress: Progress, path: str, show: Watcher) -> None:
    """Show that one more is done."""
    progress.logs_done += 1
    progress.path = path
    show(progress)


def make_plan(
    around: CaptureContext, tx: Tx, places: Places, chosen: Chosen, show: Watcher
) -> ForgetPlan:
    """Choose and count what is to be forgotten, without changing anything."""
    what, searches = chosen
    meant = meant_sessions(tx, what)
    whole = whole_sessions(what, meant)
    gone = {one.id for one in whole}
    plan = ForgetPlan(ForgetReport(sessions=len(whole)), whole, {one.id for one in meant} - gone)
    for session in whole:
        plan.example(f"{session.agent}:{session.session_id} {session.name[:80]}")
        _count_session(tx, places, session, plan)
    for log, picks in mentions(tx, whole):
        plan.done.lines += len(changes_of(tx, log, dropping(picks)))
    for log, picks in copies_of(tx, whole):
        _count_entries(tx, log, changes_of(tx, log, dropping(picks)), plan)
    logs = list(logs_to_search(tx, what, plan.meant, gone))
    progress = Progress(logs_total=len(logs), doing="looking for what to delete")
    for log in logs:
        picks = picker(tx, places.sources, log, what, searches, plan.meant)
        _count_lines(tx, places, log, picks, plan)
        advance(progress, log.path, show)
    for kind, ids in rows_of_work(tx, what, searches).items():
        plan.lose(kind, ids)
    if what.pattern is not None and not (in_sessions(what) or in_time(what)):
        _count_rows(matching_rows(tx, searches), plan)
    _count_all(tx, plan)
    file = around.store.file
    plan.done.backups = [] if file is None else list(map(str, list_backups(around.store.path)))
    return plan


def _count_session(tx: Tx, places: Places, session: CapturedSession, plan: ForgetPlan) -> None:
    plan.done.entries += count_entries(tx, session.id)
    plan.lose("segment", forget_scope.segments_of(tx, session))
    plan.lose("legacy", forget_scope.legacy_of(tx, session))
    plan.lose("event", forget_scope.events_of(tx, terminals_of(session)))
    for log in logs_of_session(tx, session.agent, session.session_id):
        if forget_scope.is_shared(tx, log.id, session.id):
            picked = changes_of(tx, log, dropping(lines_of(tx, log, session)))
            plan.done.lines += len(picked)
        else:
            plan.done.lines += sum(1 for line in read_lines(tx, log.id) if line)
            if log.reader in places.sources:
                places.find(log)
            plan.lose("event", tool_events_in(tx, places, log))


def _count_lines(tx: Tx, places: Places, log: LogRow, picks: Picks, plan: ForgetPlan) -> None:
    changed = changes_of(tx, log, dropping(picks))
    if not changed:
        return
    plan.logs.append(log.id)
    _count_entries(tx, log, changed, plan)
    for number in changed:
        plan.example(f"{log.path}:{number + 1}")
    lost = foresee(tx, places, log, changed)
    for key in lost.segments:
        segment = _known(segment_number(tx, log.harness, *key))
        plan.lose("segment", segment)
        plan.lose("legacy", set(legacy_numbers(tx, *key)))
        plan.changed |= segment if key in lost.segments_changed else set()
    for envelope in lost.events:
        event = _known(event_number(tx, envelope))
        plan.lose("event", event)
        plan.rewritten |= event if envelope in lost.events_changed else set()


def _count_entries(tx: Tx, log: LogRow, changed: Mapping[int, bytes], plan: ForgetPlan) -> None:
    plan.done.lines += len(changed)
    told = told_by_line(tx, log.id)
    plan.done.entries += sum(len(told.get(line, ())) for line in changed)


def _known(number: int | None) -> set[int]:
    return set() if number is None else {number}


def _count_rows(matches: Matches, plan: ForgetPlan) -> None:
    for texts, number, _ in matches:
        if texts.kind is None:
            continue
        made_anew = texts.kind in {"segment", "event"} and number in plan.lost.get(texts.kind, ())
        if not made_anew:
            plan.lose(texts.kind, {number})
            plan.example(f"{texts.table} {number}")


def _count_all(tx: Tx, plan: ForgetPlan) -> None:
    done, lost = plan.done, plan.lost
    done.segments = len(lost.get("segment", set()) - plan.changed)
    done.observed = len(lost.get("event", set()) - plan.rewritten)
    done.observed += len(lost.get("visit", ())) + len(lost.get("run", ()))
    # States of files of memory go by themselves, or with one of their sections.
    states = {
        *lost.get("revision", ()),
        *forget_scope.revisions_of_chunks(tx, lost.get("chunk", ())),
    }
    done.memories = len(lost.get("document", ())) + len(states)
    done.nodes = len(doomed_nodes(tx, lost))
    done.vectors_left = done.nodes if vectors_are(tx, "locked") else 0


def terminals_of(session: CapturedSession) -> set[str]:
    """Return the names under which tool calls of a session are stored."""
    return {session.session_id, session_uuid(session.session_id)}


def tool_events_in(tx: Tx, places: Places, log: LogRow) -> set[int]:
    """Return the tool calls of a log: those of a subagent are stored as its parent's."""
    if log.reader not in places.sources:
        return set()
    source, read = places.source(log), enumerate(read_lines(tx, log.id))
    harvest = reap(tx, source, places.log(tx, log), read)
    found = (event_number(tx, envelope_of(run)) for run in harvest.tools)
    return {number for number in found if number is not None}


def lines_of(tx: Tx, log: LogRow, session: CapturedSession) -> Picks:
    """Pick a session's lines out of a log of several: its entries, and lines that name it."""
    told = told_by_line(tx, log.id)

    def picks(number: int, line: bytes) -> bool:
        if number in told:
            return session.id in told[number]
        return _names_any(line, {session.session_id})

    return picks


def mentions(tx: Tx, sessions: list[CapturedSession]) -> Iterator[tuple[LogRow, Picks]]:
    """Yield the logs that say nothing themselves but tell of sessions, such as lists of names."""
    for harness in sorted({one.agent for one in sessions}):
        ids = {one.session_id for one in sessions if one.agent == harness}
        for log in forget_scope.logs_without_entries(tx, harness):
            if log.session_id not in ids:
                yield log, _naming(ids)


def copies_of(tx: Tx, sessions: list[CapturedSession]) -> Iterator[tuple[LogRow, Picks]]:
    """Yield the logs of other sessions that begin with a copy of these, and pick what is copied.

    What was said there since is not theirs, and stays.
    """
    refs = {f"{one.agent}:{one.session_id}" for one in sessions}
    later = {name for one in sessions for name in forget_scope.continuations_of(tx, one)}
    for harness, session_id in sorted(later):
        if f"{harness}:{session_id}" not in refs:
            for log in logs_of_session(tx, harness, session_id):
                yield log, _copied_from(refs, tx, log)


def _copied_from(refs: set[str], tx: Tx, log: LogRow) -> Picks:
    """Pick the lines that are copies; one that only says so was found not to be one."""
    own = forget_scope.own_lines(tx, log.id)
    return lambda number, line: number not in own and not refs.isdisjoint(origins_in(line))


def _naming(ids: set[str]) -> Picks:
    return lambda _, line: _names_any(line, ids)


def _names_any(line: bytes, ids: set[str]) -> bool:
    """Tell whether one of the texts in a line is the id of a session, and nothing else."""
    if not any(name.encode("utf-8", "replace") in line for name in ids):
        return False  # decoding takes most of the time
    try:
        records = decode_line(line)
    except Invalid:
        return False
    return any(text in ids for one in records for text in strings_in(one))


def dropping(picks: Picks) -> Transform:
    """Make a transform that drops the lines picked."""
    return lambda number, line: None if picks(number, line) else line


def forget(
    around: CaptureContext,
    sources: Mapping[str, Source],
    what: Query,
    *,
    dry_run: bool = False,
    show: Watcher = silent,
) -> ForgetReport:
    """Forget sessions, a span of time, or all that a pattern is found in; or only count it."""
    searches = check(what)
    places = Places(around, sources)
    with around.store.read() as tx:
        plan = make_plan(around, tx, places, (what, searches), show)
    if plan.done.vectors_left and around.store.unlock_vectors():
        plan.done.vectors_left = 0
    if not dry_run:
        _name_forgotten(around, plan.whole)
        _forget_work(around, what, searches)  # sessions tell which notes are a project's
        purge(around, sources, places, show)
        _forget_lines(around, places, plan, (what, searches), show)
        _forget_matches(around, what, searches)
        clean(around, sources, show)
    plan.done.unfinished = around.store.indexes.logs_left() is not None
    return plan.done


# ---------------------------------------------------------------------- doing


def _name_forgotten(around: CaptureContext, sessions: list[CapturedSession]) -> None:
    """Leave word of what is forgotten; from here on it is not captured again."""
    if sessions:
        with around.store.write() as tx:
            for session in sessions:
                forget_session(tx, session.agent, session.session_id, around.clock())


def purge(
    around: CaptureContext,
    sources: Mapping[str, Source],
    places: Places | None = None,
    show: Watcher = silent,
) -> None:
    """Take out the sessions that are forgotten and still there, one in each transaction."""
    waiting = around.store.forgetting.waiting()
    if not waiting:
        return
    places = places or Places(around, sources)
    places.write(partial(_purge_others, around, places, waiting))
    progress = Progress(logs_total=len(waiting), doing="deleting")
    for session in waiting:
        places.write(partial(_purge_if_there, around, places, session))
        advance(progress, session.session_id, show)


def finish(around: CaptureContext, sources: Mapping[str, Source], show: Watcher = silent) -> None:
    """Complete a forgetting, or a rescan, that was interrupted; as a rule there is none."""
    purge(around, sources, None, show)
    clean(around, sources, show)


def _purge_others(
    around: CaptureContext, places: Places, waiting: list[CapturedSession], tx: Tx
) -> None:
    """Take forgotten sessions out of the logs that only tell of them, and out of copies."""
    words: Words = []
    for log, picks in [*mentions(tx, waiting), *copies_of(tx, waiting)]:
        rederive(tx, around, places, log, dropping(picks), words)
    index_words(tx, words)
    want_cleaning(tx)


def _purge_if_there(
    around: CaptureContext, places: Places, session: CapturedSession, tx: Tx
) -> None:
    # Somebody else may have done it, and a new session may have its number by now.
    for one in forget_scope.forgotten_but_there(tx):
        if (one.agent, one.session_id) == (session.agent, session.session_id):
            _purge_session(tx, around, places, one)
            want_cleaning(tx)


def _purge_session(
    tx: Tx, around: CaptureContext, places: Places, session: CapturedSession
) -> None:
    words: Words = []
    for log in logs_of_session(tx, session.agent, session.session_id):
        if forget_scope.is_shared(tx, log.id, session.id):
            transform = dropping(lines_of(tx, log, session))
            rederive(tx, around, places, log, transform, words)
        else:
            erase(tx, "event", tool_events_in(tx, places, log))
            _drop_log(tx, around, places, log, session)
    erase(tx, "event", forget_scope.events_of(tx, terminals_of(session)))
    erase(tx, "segment", forget_scope.segments_of(tx, session))
    erase(tx, "legacy", forget_scope.legacy_of(tx, session))
    drop_session(tx, session.id, terminals_of(session))
    index_words(tx, words)


def _drop_log(
    tx: Tx, around: CaptureContext, places: Places, log: LogRow, session: CapturedSession
) -> None:
    """Take a log out as a whole; under whatever name it is found again, it stays out."""
    for name in _names_of(tx, places, log):
        if _lives(tx, log.harness, name, session):
            remember_forgotten(tx, read_lines(tx, log.id))
        else:
            forget_session(tx, log.harness, name, around.clock())
    drop_log(tx, log, session.session_id)


def _names_of(tx: Tx, places: Places, log: LogRow) -> set[str]:
    """Return the names of a log: what it was known by, and what its place says."""
    names = {log.session_id, log.item or Path(log.path).stem}
    if log.reader in places.sources and not log.item:
        names.add(places.log(tx, log).session_id)
    return names - {""}


def _lives(tx: Tx, harness: str, name: str, session: CapturedSession) -> bool:
    """Tell whether a name is also that of another session, which stays."""
    number = known_number(tx, harness, name)
    if number in {None, session.id} or is_forgotten(tx, harness, name):
        return False
    return count_entries(tx, number) > 0


def _forget_lines(
    around: CaptureContext,
    places: Places,
    plan: ForgetPlan,
    chosen: Chosen,
    show: Watcher,
) -> None:
    """Drop the chosen lines, log by log; each is looked at again, it may have grown."""
    progress = Progress(logs_total=len(plan.logs), doing="deleting lines")

    def drop(number: int, tx: Tx) -> str | None:
        log = load_log_by_id(tx, number)
        if log is None:
            return None
        words: Words = []
        picks = picker(tx, places.sources, log, *chosen, plan.meant)
        done = rederive(tx, around, places, log, dropping(picks), words)
        _forget_legacy(tx, done)
        drop_labels(tx)
        index_words(tx, words)
        want_cleaning(tx)
        return log.path

    for number in plan.logs:
        path = places.write(partial(drop, number))
        if path is not None:
            advance(progress, path, show)


def _forget_legacy(tx: Tx, done: RebuildReport) -> None:
    """Take out the frozen rows of slices whose content has gone: nobody rebuilds them."""
    for key in done.lost.segments:
        erase(tx, "legacy", legacy_numbers(tx, *key))


def _forget_work(around: CaptureContext, what: Query, searches: Searches) -> None:
    with around.store.write() as tx:
        found = rows_of_work(tx, what, searches)
        for kind, ids in found.items():
            erase(tx, kind, ids)
        if any(found.values()):
            drop_quiet_shells(tx, what.since, what.until)
            want_cleaning(tx)


def _forget_matches(around: CaptureContext, what: Query, searches: Searches) -> None:
    if what.pattern is None or in_sessions(what) or in_time(what):
        return
    with around.store.write() as tx:
        if _erase_matches(tx, searches):
            want_cleaning(tx)


def _erase_matches(tx: Tx, searches: Searches) -> bool:
    matches = matching_rows(tx, searches)
    for texts, number, columns in matches:
        if texts.kind is None:
            blank_texts(tx, texts, number, columns)
        else:
            erase(tx, texts.kind, [number])
    kinds = matching_names(tx, "unknown record", searches)
    drop_names(tx, "unknown record", kinds)
    answers = matching_names(tx, "answer of CI", searches)
    drop_names(tx, "answer of CI", answers)
    return bool(matches or kinds or answers)
