"""Bringing a file up on purpose, with a report; or only finding out what that would do."""

import os
import tempfile
from pathlib import Path

import msgspec

from threadkeep.base.backup import make_backup
from threadkeep.base.clock import Clock, now_ms
from threadkeep.base.database import DEFAULT_BUDGET, Database
from threadkeep.base.sqlite.checks import sqlite_problems
from threadkeep.base.sqlite.foreign import copy_untouched
from threadkeep.errors import Invalid, SchemaMismatch
from threadkeep.knowledge.opening import UpgradeReport, bring_up, find_version
from threadkeep.knowledge.repair import Orphan, OrphanRow, find_orphans
from threadkeep.knowledge.schema import (
    SCHEMA_VERSION,
    TUNING,
    WRITTEN,
    count_rows,
    explain_version,
    is_begun,
    user_version,
)


class Rows(msgspec.Struct, frozen=True):
    """How many rows a table has, before and after; None where there is no such table."""

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
    """Rows without their parent that went to `tk_orphans`."""
    orphans_left: tuple[Orphan, ...]
    """Such rows that are in nobody's way, and stay."""
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
        with Database(copy, {}, tuning=TUNING) as database:
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

    with Database(path, {}, budget=budget, must_exist=True, tuning=TUNING) as database:
        before = _look_before(database, database.path, to)
        done = bring_up(database, backup, clock, before.target)
        report = _report(database, database.path, before, done)
    kept = str(saved[0]) if saved else None
    return msgspec.structs.replace(report, dry_run=False, backup=kept)


def _room_near(source: Path) -> Path | None:
    """Give the folder of a file, which has the room for a copy; None where it takes no files."""
    return source.parent if os.access(source.parent, os.W_OK) else None


def _look_before(database: Database, source: Path, to: int | None) -> _Look:
    target = SCHEMA_VERSION if to is None else to
    _refuse_unwritten(target)
    with database.read() as tx:
        rows, begun = count_rows(tx), is_begun(tx)
    finding = explain_version(0) if begun else find_version(database, source)
    if not finding.writable:
        msg = f"{source} cannot be brought to version {target}: {finding.cause}"
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
