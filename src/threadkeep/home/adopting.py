"""Taking over the data of another program: copied whole where we have none, else merged.

A copy goes through SQLite's backup API, is checked, brought up to our schema under a name of its
own, and only then becomes the store. A merge brings in the sessions that are not there yet, each
whole or not at all, so a second run changes nothing and a run that was cut off is simply repeated.
"""

import errno
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

from threadkeep.base.backup import restore_backup
from threadkeep.base.files import SIDECARS, make_private_dir, sync_dir
from threadkeep.base.foreign import open_foreign
from threadkeep.base.processes import is_running
from threadkeep.base.schema import prepare
from threadkeep.base.sqlite import Database
from threadkeep.base.trouble import translate_os
from threadkeep.chat import layout as chat_layout
from threadkeep.chat.store import ChatStore
from threadkeep.errors import Conflict, Damaged, Invalid, SchemaMismatch, ThreadkeepError
from threadkeep.home.adopting_mail import adopt_mail
from threadkeep.home.originals import (
    Adopted,
    Environ,
    HomeLike,
    Original,
    Progress,
    describe,
    find_original,
)
from threadkeep.home.places import environment, same_file
from threadkeep.home.sessions import session_as_lines
from threadkeep.knowledge.opening import open_knowledge
from threadkeep.knowledge.versions import SCHEMA_VERSION as KNOWLEDGE_VERSION
from threadkeep.state import layout as state_layout
from threadkeep.state.session_db import SessionDB

# A file system without hard links says so in one of these ways.
_NO_LINKS: Final = (errno.EPERM, errno.ENOTSUP, errno.EMLINK)


class Merge(NamedTuple):
    """What is merged into what: the sessions of `wanted` that are not there yet."""

    home: HomeLike
    source: Path
    target: Path
    wanted: list[str]
    progress: Progress | None


def adopt(
    home: HomeLike,
    program: str,
    path: str | Path | None = None,
    *,
    target: str | Path | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
    environ: Environ | None = None,
) -> Adopted:
    """Import the data of another program into this home; the original stays as it is.

    `path` names the data if it is not in its usual place, `target` another file than the home's
    store. With `dry_run` nothing is written.
    """
    source = find_original(program, path, environment() if environ is None else environ)
    original = describe(program, source)
    if program == "nanoclaw":
        if target is not None:
            msg = "mailboxes are folders of a home, not one file"
            raise Invalid(msg, hint="leave --db out; --home names another home")
        return adopt_mail(home, original, dry_run=dry_run, progress=progress)
    way = _WAYS[program]
    place = way.place(home, source, target)
    if same_file(source, place):
        msg = f"{source} is the store of this home already"
        raise Conflict(msg, hint="there is nothing to import: it is used where it is")
    if place.exists() or not way.can_copy(original):
        return _merge(way, home, original, place, progress, dry_run=dry_run)
    if not dry_run:
        with _copy_of(source, place, way.bring_up) as copy:
            _name(copy, place)
    added = original.counts.get("sessions", 0)
    return Adopted(original, place, copied=True, added=added, dry_run=dry_run)


def _merge(
    way: "_Way",
    home: HomeLike,
    original: Original,
    place: Path,
    progress: Progress | None,
    *,
    dry_run: bool,
) -> Adopted:
    if way.merge is None:
        raise _cannot_merge(original, place)
    theirs, ours = _ids(original.path, way), set(_ids(place, way))
    wanted = [session_id for session_id in theirs if session_id not in ours]
    problems: list[str] = []
    if wanted and not dry_run:
        problems = way.merge(Merge(home, original.path, place, wanted, progress))
    return Adopted(
        original,
        place,
        added=len(wanted) - len(problems),
        skipped=len(theirs) - len(wanted),
        problems=problems,
        notes=way.notes(original),
        dry_run=dry_run,
    )


def _cannot_merge(original: Original, place: Path) -> ThreadkeepError:
    if place.exists():
        msg = f"there is a store at {place} already, and {original.path} cannot be merged into it"
        return Conflict(msg, hint="import to another file with --db, or move that store aside")
    msg = f"{original.path} has schema version {original.version}, which this program cannot write"
    return SchemaMismatch(msg, hint="it can be read where it is; upgrade threadkeep to import it")


def _ids(path: Path, way: "_Way") -> list[str]:
    """List the sessions of a database; one that is not there, or empty, has none."""
    if not path.exists() or path.stat().st_size == 0:
        return []
    with open_foreign(path) as database:
        if way.table not in database.tables():
            return []
        sql = f"SELECT id FROM {way.table} ORDER BY {way.order}"  # noqa: S608  (names of ours)
        return [row[0] for row in database.rows(sql) if isinstance(row[0], str)]


# ---------------------------------------------------------------------- copying


@contextmanager
def _copy_of(source: Path, target: Path, bring_up: Callable[[Path], None]) -> Iterator[Path]:
    """Make a copy beside the target, at our schema; what is left of it is removed at the end."""
    make_private_dir(target.parent)
    _sweep(target)
    copy = target.with_name(f".{target.name}.{os.getpid()}.importing")
    try:
        restore_backup(source, copy)
        bring_up(copy)
        yield copy
    except Damaged as error:
        msg = f"{source} could not be imported, and nothing was: {error.message}"
        raise Damaged(msg, hint="repair it with its own program, then import again") from error
    finally:
        _remove(copy)


def _sweep(target: Path) -> None:
    """Remove the copies of imports that were killed."""
    name = rf"\.{re.escape(target.name)}\.(\d+)\.importing"
    for path in target.parent.iterdir():
        found = re.fullmatch(name, path.name)
        if found and not is_running(int(found[1])):
            _remove(path)


def _remove(copy: Path) -> None:
    for suffix in ("", *SIDECARS, ".lock"):
        Path(f"{copy}{suffix}").unlink(missing_ok=True)


def _name(copy: Path, target: Path) -> None:
    """Let a finished copy become the store, unless somebody has begun one meanwhile."""
    try:
        os.link(copy, target)
    except OSError as error:
        if target.exists():
            msg = f"a store was begun at {target} meanwhile"
            raise Conflict(msg, hint="import again, which merges into it") from None
        if error.errno not in _NO_LINKS:
            raise translate_os(error, target, "cannot write") from error
        copy.rename(target)
    sync_dir(target.parent)


# ---------------------------------------------------------------------- one way for each program


class _Way(NamedTuple):
    place: Callable[[HomeLike, Path, str | Path | None], Path]
    can_copy: Callable[[Original], bool]
    bring_up: Callable[[Path], None]
    table: str
    order: str
    merge: Callable[[Merge], list[str]] | None  # gives what could not be merged
    notes: Callable[[Original], list[str]]


def _no_backup(*_: Any) -> None:
    """A fresh copy needs no backup: the original is one."""


def _state_place(home: HomeLike, source: Path, target: str | Path | None) -> Path:
    """A home without a state store of its own uses Hermes's in place; an import gives it one."""
    place = home.state_path(target)
    chosen = target is not None or home.config.stores.state is not None
    return home.paths().data / "state.db" if same_file(source, place) and not chosen else place


def _bring_up_state(path: Path) -> None:
    with Database(path, state_layout.QUERIES, tuning=state_layout.TUNING) as database:
        state_layout.finish_making(database)
        prepare(database, state_layout.SCHEMA, _no_backup)
        state_layout.heal(database)


def _merge_state(work: Merge) -> list[str]:
    with SessionDB(work.source, read_only=True) as theirs, work.home.state(work.target) as ours:
        lines = chain.from_iterable(session_as_lines(theirs, one) for one in work.wanted)
        ours.import_sessions(lines, progress=_of_total(work))
    return []


def _of_total(work: Merge) -> Callable[[int], None] | None:
    heard, total = work.progress, len(work.wanted)
    return None if heard is None else lambda count: heard(count, total)


def _state_notes(original: Original) -> list[str]:
    if (original.version or 0) <= state_layout.SCHEMA_VERSION:
        return []
    ours = state_layout.SCHEMA_VERSION
    return [f"columns that came after schema version {ours} stay in the original"]


def _bring_up_chat(path: Path) -> None:
    with Database(path, chat_layout.QUERIES) as database:
        prepare(database, chat_layout.SCHEMA, _no_backup)


def _merge_chat(work: Merge) -> list[str]:
    """Sessions go through a copy at our schema: the original may lack columns and side tables."""
    heard = work.progress
    with (
        _copy_of(work.source, work.target, _bring_up_chat) as copy,
        ChatStore.open(copy, read_only=True) as theirs,
        work.home.chat(work.target) as ours,
    ):
        report = ours.import_sessions(
            theirs.export_all(sessions=work.wanted),
            progress=None if heard is None else lambda count: heard(count, 0),
        )
    return [f"{one.session_id}: {one.reason}" for one in report.conflicts]


def _knowledge_place(home: HomeLike, _: Path, target: str | Path | None) -> Path:
    return home.knowledge_path(target)


def _bring_up_knowledge(path: Path) -> None:
    open_knowledge(path, {}, backup=_no_backup).database.close()


_WAYS: Final = {
    "hermes": _Way(
        _state_place,
        lambda original: (original.version or 1) <= state_layout.SCHEMA_VERSION,
        _bring_up_state,
        "sessions",
        "started_at, id",
        _merge_state,
        _state_notes,
    ),
    "grida": _Way(
        lambda home, _, target: home.chat_path(target),
        lambda _: True,
        _bring_up_chat,
        "chat_sessions",
        "created_at, id",
        _merge_chat,
        lambda _: [],
    ),
    "hippo": _Way(
        _knowledge_place,
        lambda original: (original.version or 0) <= KNOWLEDGE_VERSION,
        _bring_up_knowledge,
        "agentic_sessions",
        "id",
        None,
        lambda _: [],
    ),
}
