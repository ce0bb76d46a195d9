"""How a state file is opened: created, brought up to version 6, or only looked at."""

import logging
import os
from pathlib import Path

from threadkeep.base.backup import make_backup
from threadkeep.base.redacting import Redact
from threadkeep.base.schema import prepare
from threadkeep.base.sqlite import Database
from threadkeep.errors import Invalid
from threadkeep.state.context import Context, Notices, Seconds
from threadkeep.state.layout import (
    QUERIES,
    SCHEMA,
    SCHEMA_VERSION,
    SIDE_VERSION,
    TUNING,
    finish_making,
    heal,
    read_side_version,
    read_version,
    views_for,
)

log = logging.getLogger(__name__)


def default_path() -> Path:
    """Give the file that Hermes uses: in HERMES_HOME, else in .hermes of the user's home."""
    home = os.environ.get("HERMES_HOME")
    return (Path(home) if home else Path.home() / ".hermes") / "state.db"


def open_context(
    path: Path, *, read_only: bool, budget: float, redact: Redact | None, clock: Seconds
) -> Context:
    """Open a state file for writing if that is possible, else for reading."""
    if str(path) == ":memory:":
        msg = "a session store is a file: other connections of it could not see it in memory"
        raise Invalid(msg, hint="give a path in a temporary folder")
    if path.exists() and (read_only or _is_newer(path)):
        return _open_to_look(path, budget, redact, clock)
    database = Database(path, QUERIES, budget=budget, read_only=read_only, tuning=TUNING)
    try:
        finish_making(database)
        prepare(database, SCHEMA, lambda reason: make_backup(database, reason=reason))
        heal(database)
    except BaseException:
        database.close()
        raise
    return Context(database, clock, Notices(), redact)


def _is_newer(path: Path) -> bool:
    if not path.is_file() or path.stat().st_size == 0:
        return False
    with Database(path, QUERIES, read_only=True) as database, database.read() as tx:
        version, side = read_version(tx), read_side_version(tx)
    if version is None or (version <= SCHEMA_VERSION and side <= SIDE_VERSION):
        return False
    known = (version, SCHEMA_VERSION) if version > SCHEMA_VERSION else (side, SIDE_VERSION)
    log.warning(
        "%s has schema version %d, this program writes %d: it is opened read-only", path, *known
    )
    return True


def _open_to_look(path: Path, budget: float, redact: Redact | None, clock: Seconds) -> Context:
    with Database(path, QUERIES, read_only=True) as database, database.read() as tx:
        if read_version(tx) is None:
            msg = f"{path} is a SQLite database, but not a state store"
            raise Invalid(msg, hint="give another path; this file was not touched")
        tuning = TUNING._replace(reader=views_for(tx))
        side = read_side_version(tx) > 0
    looking = Database(path, QUERIES, budget=budget, read_only=True, tuning=tuning)
    return Context(looking, clock, Notices(), redact, side)
