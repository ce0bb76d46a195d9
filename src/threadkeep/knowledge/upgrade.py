"""Bringing a file up on purpose, with a report; or only finding out what that would do."""

import os
import tempfile
from pathlib import Path
from typing import Final

import msgspec

from threadkeep.base.clock import Clock, now_ms
from threadkeep.base.database import DEFAULT_BUDGET, Database
from threadkeep.base.paths import need_file
from threadkeep.base.sqlite.backup import make_backup
from threadkeep.base.sqlite.catalogue import object_names
from threadkeep.base.sqlite.checks import sqlite_problems
from threadkeep.base.sqlite.connect import Tuning
from threadkeep.base.sqlite.database import SqliteDatabase
from threadkeep.base.sqlite.foreign import copy_untouched
from threadkeep.base.tx import Tx
from threadkeep.errors import Invalid, SchemaMismatch
from threadkeep.knowledge.opening import UpgradeReport, bring_up, find_version
from threadkeep.knowledge.records import OrphanRow
from threadkeep.knowledge.repair import Orphan, find_orphans
from threadkeep.knowledge.schema import (
    NEWEST,
    SCHEMA_VERSION,
    TUNING,
    WRITTEN,
    SchemaFinding,
    count_rows,
    explain_version,
    is_begun,
    user_version,
    write_version,
)


class Rows(msgspec.Struct, frozen=True):
    """How many rows a table has, before and after; None where no such table exists."""

    before: int | None
    after: int | None


class Migration(msgspec.Struct, frozen=True):
    """What bringing a file up did, or would do."""

    path: str
    dry_run: bool
    version_before: int
    version_after: int
    steps: tuple[str, ...]
    backup: str | None
    rows: dict[str, Rows]
    set_aside: tuple[OrphanRow, ...]
    """Rows without a parent that were moved to `tk_orphans`."""
    orphans_left: tuple[Orphan, ...]
    """Rows without a parent that do no harm and are left alone."""
    problems: tuple[str, ...]
    """What SQLite finds wrong with the file afterwards."""


class _Look(msgspec.Struct, frozen=True):
    version: int
    target: int
    rows: dict[str, int]


def plan_migration(path: str | Path, *, to: int | None = None, clock: Clock = now_ms) -> Migration:
    """Find out what bringing a file up would do, on a private copy; the file is not touched."""
    source = Path(os.path.abspath(path))
    with tempfile.TemporaryDirectory(prefix=".threadkeep-plan-", dir=_room_near(source)) as folder:
        copy = Path(folder) / source.name
        copy_untouched(source, copy)
        with SqliteDatabase(copy, {}, tuning=TUNING) as database:
            before = _look_before(database, source, to)
            done = bring_up(database, lambda _database, _reason: None, clock, before.target)
            return _report(database, source, before, done)


def migrate_file(
    path: str | Path,
    *,
    to: int | None = None,
    budget: float = DEFAULT_BUDGET,
    clock: Clock = now_ms,
) -> Migration:
    """Bring a file to version 18, or to 23 if asked, after a backup of it; tell what was done."""
    saved: list[Path] = []

    def backup(database: Database, reason: str) -> None:
        saved.append(make_backup(database, reason=reason, clock=clock))

    with SqliteDatabase(path, {}, budget=budget, must_exist=True, tuning=TUNING) as database:
        before = _look_before(database, database.path, to)
        done = bring_up(database, backup, clock, before.target)
        report = _report(database, database.path, before, done)
    kept = str(saved[0]) if saved else None
    return msgspec.structs.replace(report, dry_run=False, backup=kept)


def _room_near(source: Path) -> Path | None:
    """Return the folder of a file, which has the room for a copy; None where it takes no files."""
    return source.parent if os.access(source.parent, os.W_OK) else None


def _look_before(database: Database, source: Path, to: int | None) -> _Look:
    target = SCHEMA_VERSION if to is None else to
    _refuse_unwritten(target)
    with database.read() as tx:
        rows, begun = count_rows(tx), is_begun(tx)
    finding = explain_version(0) if begun else find_version(database, source)
    if not finding.writable:
        msg = f"{source} cannot be migrated to version {target}: {finding.cause}"
        raise SchemaMismatch(msg, hint=finding.fix)
    if to is not None and finding.version > to:
        msg = f"{source} is at schema version {finding.version}, beyond {to}"
        hint = "there is no way back but a backup from before; the file was not touched"
        raise SchemaMismatch(msg, hint=hint)
    return _Look(finding.version, target, rows)


def _refuse_unwritten(to: int) -> None:
    if to not in WRITTEN:
        listed = " or ".join(map(str, WRITTEN))
        raise Invalid(f"no store is written at version {to}", hint=f"give {listed}")


def _report(database: Database, source: Path, before: _Look, done: UpgradeReport) -> Migration:
    with database.read() as tx:
        rows, left = count_rows(tx), find_orphans(tx)
        version = user_version(tx)
        problems = sqlite_problems(tx, references=False)
    return Migration(
        path=str(source),
        dry_run=True,
        version_before=before.version,
        version_after=version,
        steps=done.steps,
        backup=None,
        rows={t: Rows(before.rows.get(t), rows.get(t)) for t in (rows | before.rows)},
        set_aside=done.set_aside,
        orphans_left=tuple(left),
        problems=tuple(problems),
    )


# A copy of a version that we do not know is read as the newest one that we know.
_UNGUARDED: Final = Tuning(writer=("PRAGMA trusted_schema = ON",))


def bring_up_copy(path: Path) -> None:
    """Bring a private copy of another program's file up to our version, without a backup of it."""
    with SqliteDatabase(path, {}, tuning=_UNGUARDED) as database, database.write() as tx:
        if user_version(tx) > NEWEST:
            write_version(tx, NEWEST)
    with SqliteDatabase(path, {}, tuning=TUNING) as database:
        find_version(database)
        bring_up(database, lambda _database, _reason: None, now_ms)


# ------------------------------------------------------------------------------
# Knowledge files as files: what their version means, whether they are sound, how they go up.


class KnowledgeCheck(msgspec.Struct, frozen=True):
    """What a knowledge file's version means, and what SQLite finds wrong with the file."""

    path: Path
    finding: SchemaFinding
    problems: list[str]

    @property
    def fits(self) -> bool:
        """Whether the file has a version that this program writes, or none yet."""
        return self.finding.kind in ("current", "empty")


def check_knowledge(path: Path) -> KnowledgeCheck:
    """Look at a knowledge file of any version without changing it."""
    need_file(path, "knowledge")
    with SqliteDatabase(path, {}, read_only=True, tuning=TUNING) as database:
        with database.read() as tx:
            problems = sqlite_problems(tx, references=False)
            unborn = _is_unborn(tx)
        finding = explain_version(0) if unborn else find_version(database)
    return KnowledgeCheck(path, finding, problems)


def _is_unborn(tx: Tx) -> bool:
    return not object_names(tx) or is_begun(tx)


def migrate_knowledge(path: Path, *, to: int | None = None, dry_run: bool = False) -> Migration:
    """Bring a knowledge file to version 18 or 23, or tell what that would do."""
    need_file(path, "knowledge")
    return plan_migration(path, to=to) if dry_run else migrate_file(path, to=to)
