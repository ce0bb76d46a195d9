"""How a state file is opened: made, brought up to version 6, used as it is, or only looked at."""

import logging
import os
import secrets
from pathlib import Path
from typing import Final

from threadkeep.base.backup import make_backup
from threadkeep.base.database import Database
from threadkeep.base.files import is_zero_filled, set_aside
from threadkeep.base.schema import prepare
from threadkeep.base.text import Redact
from threadkeep.errors import Damaged, Invalid, SchemaMismatch
from threadkeep.state.context import Notices, Seconds, StateContext
from threadkeep.state.form import Form, Forms, Queries, carry_over, has_uncarried, survey
from threadkeep.state.layout import QUERIES, SCHEMA, TUNING, finish_making, read_version, views_for
from threadkeep.state.side import heal
from threadkeep.state.versions import V6

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
    """Give Hermes's folder: HERMES_HOME, else .hermes of the user's home."""
    home = os.environ.get("HERMES_HOME")
    return Path(home) if home else Path.home() / ".hermes"


def default_path() -> Path:
    """Give the file that Hermes uses, in its folder."""
    return hermes_home() / "state.db"


def open_context(
    path: Path, *, read_only: bool, budget: float, redact: Redact | None, clock: Seconds
) -> StateContext:
    """Open a state file for writing if that is possible, else for reading."""
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
    database = Database(path, queries, budget=budget, read_only=read_only, tuning=tuning)
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
        return open_context(path, read_only=read_only, budget=budget, redact=redact, clock=clock)
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
    with Database(path, QUERIES, read_only=True) as database, database.read() as tx:
        return None if read_version(tx) is None else survey(tx)


def _open_to_look(path: Path, budget: float, redact: Redact | None, clock: Seconds) -> StateContext:
    queries = Queries(QUERIES)
    forms = Forms(queries)
    with Database(path, QUERIES, read_only=True) as database, database.read() as tx:
        if read_version(tx) is None:
            msg = f"{path} is a SQLite database, but not a state store"
            raise Invalid(msg, hint="give another path; this file was not touched")
        tuning = TUNING._replace(reader=views_for(tx))
        forms.look_again(tx)
    looking = Database(path, queries, budget=budget, read_only=True, tuning=tuning)
    return StateContext(looking, clock, Notices(), forms, redact)
