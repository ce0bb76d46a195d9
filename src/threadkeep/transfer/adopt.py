"""Taking over the data of another program: copied whole where we have none, else merged.

A copy goes through SQLite's backup API, is checked, brought up to our schema under a name of its
own, and only then becomes the store. A merge brings in the sessions that are not there yet, and of
the others what is new in them, each whole or not at all: a second run changes nothing, and a run
that was cut off is simply repeated. What was said or changed here stays.
"""

from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from threadkeep.base.paths import environment, same_file
from threadkeep.base.sqlite.database import SqliteDatabase
from threadkeep.base.sqlite.foreign import open_foreign
from threadkeep.base.sqlite.schema import prepare
from threadkeep.chat import schema as chat_layout
from threadkeep.chat.store import ChatStore
from threadkeep.chat.transfer import has_news
from threadkeep.errors import Conflict, Invalid
from threadkeep.state import schema as state_layout
from threadkeep.state.context import V6, known_columns, survey
from threadkeep.state.export import read_lines
from threadkeep.state.intake import Update, remember_all
from threadkeep.state.naming import session_as_lines
from threadkeep.state.schema import heal
from threadkeep.state.session_db import SessionDB
from threadkeep.transfer import originals
from threadkeep.transfer.adopt_knowledge import adopt_knowledge
from threadkeep.transfer.adopt_mail import adopt_mail

_HERMES: Final = "hermes"
# The tables whose rows come along with a session; others are the running program's own.
_MERGED: Final = frozenset({"sessions", "messages", "system_prompts", "session_model_usage"})


class Merge(NamedTuple):
    """What is merged into what: the sessions of `wanted`."""

    home: originals.HomeLike
    source: Path
    target: Path
    wanted: list[str]
    progress: originals.Progress | None


def adopt(
    home: originals.HomeLike,
    program: str,
    path: str | Path | None = None,
    *,
    target: str | Path | None = None,
    dry_run: bool = False,
    progress: originals.Progress | None = None,
    environ: originals.Environ | None = None,
) -> originals.AdoptReport:
    """Import the data of another program into this home; the original stays as it is.

    `path` names the data if it is not in its usual place, `target` another file than the home's
    store. With `dry_run` nothing is written.
    """
    source = originals.find_original(program, path, environment() if environ is None else environ)
    original = originals.describe(program, source)
    if program == "nanoclaw":
        if target is not None:
            msg = "mailboxes are folders of a home, not a single file"
            raise Invalid(msg, hint="leave --db out; --home names another home")
        return adopt_mail(home, original, dry_run=dry_run, progress=progress)
    if program == "hippo":
        place = _other_than(source, home.knowledge_path(target))
        return adopt_knowledge(home, original, place, dry_run=dry_run, progress=progress)
    way = _WAYS[program]
    place = _other_than(source, way.place(home, source, target))
    if place.exists():
        return _merge(way, home, original, place, progress, dry_run=dry_run)
    if not dry_run:
        with originals.copy_of(source, place, way.bring_up) as copy:
            originals.name_copy(copy, place)
    added = original.counts.get("sessions", 0)
    return originals.AdoptReport(original, place, copied=True, added=added, dry_run=dry_run)


def _other_than(source: Path, place: Path) -> Path:
    if same_file(source, place):
        msg = f"{source} is already the store of this home"
        raise Conflict(msg, hint="there is nothing to import: the store is used in place")
    return place


def _merge(
    way: "_Way",
    home: originals.HomeLike,
    original: originals.Original,
    place: Path,
    progress: originals.Progress | None,
    *,
    dry_run: bool,
) -> originals.AdoptReport:
    theirs, ours = _ids(original.path, way), set(_ids(place, way))
    new = [session_id for session_id in theirs if session_id not in ours]
    known = [session_id for session_id in theirs if session_id in ours]
    changed = way.compare(original.path, place, known) if known else Compared()
    wanted = [*new, *changed.sessions, *changed.unmarked]
    problems: list[str] = []
    if wanted and not dry_run:
        problems = way.merge(Merge(home, original.path, place, wanted, progress))
    failed = len({problem.partition(":")[0] for problem in problems}.intersection(new))
    return originals.AdoptReport(
        original,
        place,
        added=len(new) - failed,
        updated=len(changed.sessions) - (len(problems) - failed),
        skipped=len(known) - len(changed.sessions),
        problems=problems,
        notes=[*way.notes(original, place), *changed.notes],
        dry_run=dry_run,
    )


def _ids(path: Path, way: "_Way") -> list[str]:
    """List the sessions of a database; one that is not there, or empty, has none."""
    if not path.exists() or path.stat().st_size == 0:
        return []
    with open_foreign(path) as database:
        if way.table not in database.tables():
            return []
        sql = f"SELECT id FROM {way.table} ORDER BY {way.order}"  # noqa: S608  (names of ours)
        return [row[0] for row in database.rows(sql) if isinstance(row[0], str)]


# ---------------------------------------------------------------------- one way for each program


class _Way(NamedTuple):
    place: Callable[[originals.HomeLike, Path, str | Path | None], Path]
    bring_up: Callable[[Path], None]
    table: str
    order: str
    compare: Callable[[Path, Path, list[str]], "Compared"]  # of sessions that both have
    merge: Callable[[Merge], list[str]]  # gives what could not be merged
    notes: Callable[[originals.Original, Path], list[str]]  # what a merge leaves behind


class Compared(msgspec.Struct):
    """Which of the sessions that both files have changed in the other, and what is not taken."""

    sessions: list[str] = []
    notes: list[str] = []
    unmarked: list[str] = []  # nothing is new in them, but their messages are not known by number


def _state_place(home: originals.HomeLike, source: Path, target: str | Path | None) -> Path:
    """A home without a state store of its own uses Hermes's in place; an import gives it one."""
    place = home.state_path(target)
    chosen = target is not None or home.config.stores.state is not None
    return home.paths().data / "state.db" if same_file(source, place) and not chosen else place


def _bring_up_state(path: Path) -> None:
    """Give an old file our schema; one that Hermes has brought further is used as it is."""
    with SqliteDatabase(path, state_layout.QUERIES, tuning=state_layout.TUNING) as database:
        with database.read() as tx:
            old = survey(tx).answers is V6
        if old:
            state_layout.finish_making(database)
            prepare(database, state_layout.SCHEMA, originals.no_backup)
            heal(database)
        with database.write() as tx:
            remember_all(tx, _HERMES)


def _compare_state(source: Path, place: Path, known: list[str]) -> Compared:
    found = Compared()
    with SessionDB(source, read_only=True) as theirs, SessionDB(place, read_only=True) as ours:
        for session_id in known:
            told = next(read_lines(session_as_lines(theirs, session_id)))
            update = ours.plan_update(told, _HERMES)
            if update.is_needed:
                found.sessions.append(session_id)
            elif update.keys:
                found.unmarked.append(session_id)
            found.notes.extend(_left(session_id, update))
    return found


def _left(session_id: str, update: Update) -> Iterator[str]:
    """Say what is not taken over, because something was said or changed here."""
    if update.kept:
        yield f"session {session_id} was changed here: its own {', '.join(update.kept)} stayed"
    if update.gone:
        count = f"{update.gone} message{'s' if update.gone != 1 else ''}"
        yield f"session {session_id}: {count} that Hermes has no more stayed, since it went on here"


def _merge_state(work: Merge) -> list[str]:
    with SessionDB(work.source, read_only=True) as theirs, work.home.state(work.target) as ours:
        lines = chain.from_iterable(session_as_lines(theirs, one) for one in work.wanted)
        ours.import_sessions(lines, on_conflict="update", origin=_HERMES, progress=_of_total(work))
    return []


def _of_total(work: Merge) -> Callable[[int], None] | None:
    heard, total = work.progress, len(work.wanted)
    return None if heard is None else lambda count: heard(count, total)


def _state_notes(original: originals.Original, place: Path) -> list[str]:
    """Say what a merge leaves behind: columns that the store has none for, and whole tables."""
    theirs, ours = _tables(original.path), _tables(place)
    notes = []
    for table, known in known_columns().items():
        can_hold = {*ours.get(table, ()), *(column.name for column in known)}
        left = sorted(set(theirs.get(table, ())) - can_hold)
        if left and table in _MERGED:
            notes.append(
                f"{table}: {', '.join(left)} were not imported: this store has no such column"
            )
    others = sorted(set(theirs) - _MERGED)
    if others:
        notes.append(
            f"tables that belong to the running program were not imported: {', '.join(others)}"
        )
    return notes


def _is_data(table: str) -> bool:
    """Indexes, our own tables and the number of the schema are rebuilt in each store."""
    return not table.startswith(("messages_fts", "sqlite_", "tk_")) and table != "schema_version"


def _tables(path: Path) -> dict[str, tuple[str, ...]]:
    """Return the columns of every table that has rows."""
    if not path.exists() or path.stat().st_size == 0:
        return {}
    with open_foreign(path) as database:
        return {
            name: tuple(str(row[1]) for row in database.rows(f'PRAGMA table_info("{name}")'))
            for name in database.tables()
            if _is_data(name) and any(database.rows(f'SELECT 1 FROM "{name}" LIMIT 1'))  # noqa: S608
        }


def _bring_up_chat(path: Path) -> None:
    with SqliteDatabase(path, chat_layout.QUERIES, tuning=chat_layout.TUNING) as database:
        prepare(database, chat_layout.SCHEMA, originals.no_backup)


def _compare_chat(source: Path, place: Path, known: list[str]) -> Compared:
    with (
        originals.copy_of(source, place, _bring_up_chat) as copy,
        ChatStore.open(copy, read_only=True) as theirs,
        ChatStore.open(place, read_only=True) as ours,
        theirs.database.read() as there,
        ours.database.read() as here,
    ):
        return Compared([one for one in known if has_news(here, there, one)])


def _merge_chat(work: Merge) -> list[str]:
    """Sessions go through a copy at our schema: the original may lack columns and side tables."""
    heard = work.progress
    with (
        originals.copy_of(work.source, work.target, _bring_up_chat) as copy,
        ChatStore.open(copy, read_only=True) as theirs,
        work.home.chat(work.target) as ours,
    ):
        report = ours.import_sessions(
            theirs.export_all(sessions=work.wanted),
            update=True,
            progress=None if heard is None else lambda count: heard(count, 0),
        )
    return [f"{one.session_id}: {one.reason}" for one in report.conflicts]


_WAYS: Final = {
    "hermes": _Way(
        _state_place,
        _bring_up_state,
        "sessions",
        "started_at, id",
        _compare_state,
        _merge_state,
        _state_notes,
    ),
    "grida": _Way(
        lambda home, _, target: home.chat_path(target),
        _bring_up_chat,
        "chat_sessions",
        "created_at, id",
        _compare_chat,
        _merge_chat,
        lambda *_: [],
    ),
}
