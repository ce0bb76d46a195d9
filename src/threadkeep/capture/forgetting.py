"""Forgetting: what was captured goes again, with all that came of it, out of the file itself.

Every step is one transaction, and the first one leaves word of the rest. A run that is killed
is completed by the same call, or, once sessions are named as forgotten, by the next capture.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from threadkeep.base.tx import Tx
from threadkeep.capture.choosing import Forget, Searches, check, matching_rows, picker, rows_of_work
from threadkeep.capture.context import CaptureContext
from threadkeep.capture.places import Places
from threadkeep.capture.planning import (
    Chosen,
    ForgetPlan,
    ForgetReport,
    advance,
    copies_of,
    dropping,
    events_of,
    is_shared,
    lines_of,
    make_plan,
    mentions,
    named,
    segments_of,
    terminals_of,
    tool_events_in,
)
from threadkeep.capture.rederiving import RebuildReport, legacy_numbers, rederive
from threadkeep.capture.reindexing import clean
from threadkeep.capture.report import Progress, Watcher, silent
from threadkeep.knowledge.archive import drop_lines, read_lines
from threadkeep.knowledge.context import KnowledgeContext
from threadkeep.knowledge.entries import Words, index_words
from threadkeep.knowledge.forgetting import erase, remember_forgotten, want_cleaning
from threadkeep.knowledge.logs import LogRow, load_log_by_id, logs_of_session
from threadkeep.knowledge.reading import CapturedSession, to_session
from threadkeep.knowledge.texts import blank_texts
from threadkeep.knowledge.vectors import unlock
from threadkeep.sources.records import Source

_CURSORS: Final = {"codex": "codex", "cursor": "cursor-agent"}


def forget(
    context: KnowledgeContext,
    around: CaptureContext,
    sources: Mapping[str, Source],
    what: Forget,
    *,
    dry_run: bool = False,
    show: Watcher = silent,
) -> ForgetReport:
    """Forget sessions, a span of time, or all that a pattern is found in; or only count it."""
    searches = check(what)
    places = Places(around, sources)
    with around.db.read() as tx:
        plan = make_plan(context, tx, places, (what, searches), show)
    if plan.done.vectors_left and unlock(context.db):
        plan.done.vectors_left = 0
    if not dry_run:
        _name_forgotten(around, plan.whole)
        _forget_work(around, what, searches)  # sessions tell which notes are a project's
        purge(around, sources, places, show)
        _forget_lines(around, places, plan, (what, searches), show)
        _forget_matches(around, what, searches)
        clean(around, sources, show)
        with around.db.read() as tx:
            plan.done.unfinished = tx.one("cleaning") is not None
    return plan.done


# ---------------------------------------------------------------------- doing


def _name_forgotten(around: CaptureContext, sessions: list[CapturedSession]) -> None:
    """Leave word of what is forgotten; from here on it is not captured again."""
    if sessions:
        with around.db.write() as tx:
            for session in sessions:
                tx.run("put_forgotten", {**named(session), "now": around.clock()})


def purge(
    around: CaptureContext,
    sources: Mapping[str, Source],
    places: Places | None = None,
    show: Watcher = silent,
) -> None:
    """Take out the sessions that are forgotten and still there, one in each transaction."""
    with around.db.read() as tx:
        waiting = [to_session(row) for row in tx.all("forgotten_but_there")]
    if not waiting:
        return
    places = places or Places(around, sources)
    places.write(partial(_purge_others, around, places, waiting))
    progress = Progress(logs_total=len(waiting))
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
    for one in [to_session(row) for row in tx.all("forgotten_but_there")]:
        if named(one) == named(session):
            _purge_session(tx, around, places, one)
            want_cleaning(tx)


def _purge_session(
    tx: Tx, around: CaptureContext, places: Places, session: CapturedSession
) -> None:
    words: Words = []
    for log in logs_of_session(tx, session.harness, session.session_id):
        if is_shared(tx, log, session):
            transform = dropping(lines_of(tx, log, session))
            rederive(tx, around, places, log, transform, words)
        else:
            erase(tx, "event", tool_events_in(tx, places, log))
            _drop_log(tx, around, places, log, session)
    erase(tx, "event", events_of(tx, session))
    erase(tx, "segment", segments_of(tx, session))
    erase(tx, "legacy", {row[0] for row in tx.all("legacy_of_session", named(session))})
    for terminal in terminals_of(session):
        tx.run("drop_empty_shell_session", {"terminal": terminal})
    for part in ("session_usage", "session_entries", "retold", "session"):
        tx.run(f"delete_{part}", {"session": session.id})
    index_words(tx, words)


def _drop_log(
    tx: Tx, around: CaptureContext, places: Places, log: LogRow, session: CapturedSession
) -> None:
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
    for step in ("entries", "records", "masks", "unknown"):
        tx.run(f"delete_log_{step}", {"log": log.id})
    tx.run("delete_log", {"log": log.id})


def _names_of(tx: Tx, places: Places, log: LogRow) -> set[str]:
    """Give the names of a log: what it was known by, and what its place says."""
    names = {log.session_id, log.item or Path(log.path).stem}
    if log.reader in places.sources and not log.item:
        names.add(places.log(tx, log).session_id)
    return names - {""}


def _lives(tx: Tx, harness: str, name: str, session: CapturedSession) -> bool:
    """Tell whether a name is also that of another session, which stays."""
    values = {"harness": harness, "session_id": name}
    number = tx.value("session_number", values)
    if number in {None, session.id} or tx.value("is_forgotten", values) is not None:
        return False
    return bool(tx.value("count_session_entries", {"session": number}))


def _forget_lines(
    around: CaptureContext,
    places: Places,
    plan: ForgetPlan,
    chosen: Chosen,
    show: Watcher,
) -> None:
    """Drop the chosen lines, log by log; each is looked at again, it may have grown."""
    progress = Progress(logs_total=len(plan.logs))

    def drop(number: int, tx: Tx) -> str | None:
        log = load_log_by_id(tx, number)
        if log is None:
            return None
        words: Words = []
        picks = picker(tx, places.sources, log, *chosen, plan.meant)
        done = rederive(tx, around, places, log, dropping(picks), words)
        _forget_legacy(tx, done)
        index_words(tx, words)
        want_cleaning(tx)
        return log.path

    for number in plan.logs:
        path = places.write(partial(drop, number))
        if path is not None:
            advance(progress, path, show)


def _forget_legacy(tx: Tx, done: RebuildReport) -> None:
    """Take out the frozen rows of slices whose content has gone: nobody makes them anew."""
    for key in done.lost.segments:
        erase(tx, "legacy", legacy_numbers(tx, key))


def _forget_work(around: CaptureContext, what: Forget, searches: Searches) -> None:
    with around.db.write() as tx:
        found = rows_of_work(tx, what, searches)
        for kind, ids in found.items():
            erase(tx, kind, ids)
        if any(found.values()):
            tx.run("drop_quiet_shell_sessions", {"since": what.since, "until": what.until})
            want_cleaning(tx)


def _forget_matches(around: CaptureContext, what: Forget, searches: Searches) -> None:
    if what.pattern is None or what.in_sessions or what.in_time:
        return
    with around.db.write() as tx:
        if _erase_matches(tx, searches):
            want_cleaning(tx)


def _erase_matches(tx: Tx, searches: Searches) -> bool:
    matches = matching_rows(tx, searches)
    for texts, number, columns in matches:
        if texts.kind is None:
            blank_texts(tx, texts, number, columns)
        else:
            erase(tx, texts.kind, [number])
    kinds = [row for row in tx.all("unknown_kinds") if searches(row[0])]
    tx.run_bulk("delete_unknown_kind", kinds)
    answers = [row for row in tx.all("ci_answer_urls") if searches(row[0])]
    tx.run_bulk("forget_ci_answer", answers)
    return bool(matches or kinds or answers)
