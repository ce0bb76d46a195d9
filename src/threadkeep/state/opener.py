"""How a state store is opened: made, brought up to version 6, used as it is, or only looked at."""

import logging
import os
import secrets
from pathlib import Path
from typing import Final

from threadkeep.base.engines import is_url, open_database, prepare, server_of
from threadkeep.base.files import is_zero_filled, set_aside
from threadkeep.base.sqlite.backup import make_backup
from threadkeep.base.sqlite.database import SqliteDatabase
from threadkeep.base.text import Redact
from threadkeep.errors import Damaged, Invalid, SchemaMismatch
from threadkeep.state.context import (
    V6,
    Form,
    Forms,
    Notices,
    Queries,
    Seconds,
    StateContext,
    carry_over,
    has_uncarried,
    survey,
)
from threadkeep.state.schema import (
    QUERIES,
    SCHEMA,
    SERVER_SCHEMA,
    TUNING,
    finish_making,
    heal,
    read_version,
    server_queries,
    views_for,
)

log = logging.getLogger(__name__)


class Refusals:
    """Keeps why a store could not be opened last: programs tell their users long after."""

    def __init__(self) -> None:
        self.last: str | None = None


_REFUSALS: Final = Refusals()


def last_refusal() -> str | None:
    """Tell why a store could not be opened last in this process, None if none was refused."""
    return _REFUSALS.last


def note_refusal(error: Exception) -> None:
    """Remember why a store could not be opened."""
    _REFUSALS.last = str(error)


def hermes_home() -> Path:
    """Return Hermes's folder: HERMES_HOME, else .hermes of the user's home."""
    home = os.environ.get("HERMES_HOME")
    return Path(home) if home else Path.home() / ".hermes"


def default_path() -> Path:
    """Return the file that Hermes uses, in its folder."""
    return hermes_home() / "state.db"


def open_context(
    place: str | Path, *, read_only: bool, budget: float, redact: Redact | None, clock: Seconds
) -> StateContext:
    """Open a state store: a file for writing if that is possible, else for reading."""
    opens = _open_on_server if is_url(place) else _open_file
    return opens(place, read_only=read_only, budget=budget, redact=redact, clock=clock)


def _open_file(
    place: str | Path, *, read_only: bool, budget: float, redact: Redact | None, clock: Seconds
) -> StateContext:
    path = Path(place)
    if str(path) == ":memory:":
        msg = "a session store is a file: other connections of it could not see it in memory"
        raise Invalid(msg, hint="give a path in a temporary folder")
    form = _form_of(path) if read_only else _form_or_aside(path)
    if path.exists() and (read_only or (form is not None and form.refusal is not None)):
        if not read_only and form is not None:
            log.warning("%s is opened read-only: %s", path, form.refusal)
        return _open_to_look(path, budget, redact, clock)
    queries = Queries(QUERIES)
    forms = Forms(queries)
    ours = form is None or form.answers is V6 or form.side
    tuning = TUNING._replace(guard=forms.refuse_unwritable, statistics=ours)
    database = SqliteDatabase(path, queries, budget=budget, read_only=read_only, tuning=tuning)
    try:
        # A file that Hermes has brought further is used as it is; nothing of ours goes into it.
        if ours:
            finish_making(database)
            if form is None or form.answers is V6:
                prepare(database, SCHEMA, lambda reason: make_backup(database, reason=reason))
            heal(database)
        with database.read() as tx:
            forms.look_again(tx)
            uncarried = has_uncarried(tx, forms.current)
        if uncarried:
            with database.write() as tx:
                carry_over(tx, forms.look(tx))
    except SchemaMismatch:
        database.close()
        if _form_of(path) in (None, form):
            raise
        # Hermes has brought the file further since we looked: it is another file now.
        return _open_file(path, read_only=read_only, budget=budget, redact=redact, clock=clock)
    except BaseException:
        database.close()
        raise
    return StateContext(database, clock, Notices(), forms, redact)


def _open_on_server(
    place: str | Path, *, read_only: bool, budget: float, redact: Redact | None, clock: Seconds
) -> StateContext:
    """Open a store whose tables are there from the beginning, in their newest form."""
    queries = Queries(server_queries())
    forms = Forms(queries)
    database = open_database(place, "state", lambda _: queries, budget=budget, read_only=read_only)
    try:
        queries.schema = server_of(database).schema
        prepare(database, SERVER_SCHEMA)
        with database.read() as tx:
            forms.look_again(tx)
    except BaseException:
        database.close()
        raise
    return StateContext(database, clock, Notices(), forms, redact)


def _form_or_aside(path: Path) -> Form | None:
    """Look at a file; one of zeros, as some crashes leave it, is set aside for a new one."""
    try:
        return _form_of(path)
    except Damaged:
        if not is_zero_filled(path):
            raise
        aside = set_aside(path, f"zeroed-{secrets.token_hex(4)}")
        log.warning("%s held nothing but zeros; it is now %s, and a new one begins", path, aside)
        return None


def _form_of(path: Path) -> Form | None:
    """Look at a file before it is opened; None if it is none yet, or no state file."""
    if not path.is_file() or path.stat().st_size == 0:
        return None
    with SqliteDatabase(path, QUERIES, read_only=True) as database, database.read() as tx:
        return None if read_version(tx) is None else survey(tx)


def _open_to_look(path: Path, budget: float, redact: Redact | None, clock: Seconds) -> StateContext:
    queries = Queries(QUERIES)
    forms = Forms(queries)
    with SqliteDatabase(path, QUERIES, read_only=True) as database, database.read() as tx:
        if read_version(tx) is None:
            msg = f"{path} is a SQLite database, but not a state store"
            raise Invalid(msg, hint="give another path; this file was not touched")
        tuning = TUNING._replace(reader=views_for(tx))
        forms.look_again(tx)
    looking = SqliteDatabase(path, queries, budget=budget, read_only=True, tuning=tuning)
    return StateContext(looking, clock, Notices(), forms, redact)
