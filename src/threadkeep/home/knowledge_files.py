"""Knowledge files as files: what their version means, whether they are sound, how they go up."""

from pathlib import Path

import msgspec

from threadkeep.base.checks import sqlite_problems
from threadkeep.base.sqlite import Database
from threadkeep.base.tx import Tx
from threadkeep.home.places import need_file
from threadkeep.knowledge.layout import TUNING, is_begun, names
from threadkeep.knowledge.opening import find_version
from threadkeep.knowledge.upgrading import Migration, migrate_file, plan_migration
from threadkeep.knowledge.versions import SchemaFinding, explain_version


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
    with Database(path, {}, read_only=True, tuning=TUNING) as database:
        with database.read() as tx:
            problems = sqlite_problems(tx, references=False)
            unborn = _is_unborn(tx)
        finding = explain_version(0) if unborn else find_version(database)
    return KnowledgeCheck(path, finding, problems)


def _is_unborn(tx: Tx) -> bool:
    return not names(tx) or is_begun(tx)


def migrate_knowledge(path: Path, *, to: int | None = None, dry_run: bool = False) -> Migration:
    """Bring a knowledge file to version 18 or 23, or tell what that would do."""
    need_file(path, "knowledge")
    return plan_migration(path, to=to) if dry_run else migrate_file(path, to=to)
