"""What surfaces need to hand captured sessions on, so that none imports a service."""

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from threadkeep.base.clock import now_ms
from threadkeep.errors import ReadOnly, SchemaMismatch
from threadkeep.knowledge.records import CapturedSession
from threadkeep.knowledge.transcript import SessionArchive
from threadkeep.sources.records import UserHome
from threadkeep.sources.registry import foreign_sources
from threadkeep.transfer.conversation import NewSession, conversation, without_notes
from threadkeep.transfer.hand_off import (
    TARGETS,
    WRITERS,
    HandOff,
    hand_off,
    new_session_id,
    put,
    retold_in,
)

if TYPE_CHECKING:
    from threadkeep.home.home import Home


FORMATS = (*WRITERS, "html")


def exported(
    history: SessionArchive, session: CapturedSession, form: str, *, notes: bool = False
) -> str:
    """Write a session in one of the formats, but for `html`, which the web page writes.

    Markdown, which is to be read, has the notes of the agent's program only with `notes`.
    """
    told = conversation(history, session)
    if form == "markdown" and not notes:
        told = without_notes(told)
    return WRITERS[form](told, _new(form, session.session_id))


def handed_off(
    home: "Home",
    history: SessionArchive,
    session: CapturedSession,
    agent: str,
    cwd: str | None = None,
    *,
    dry_run: bool = False,
) -> HandOff:
    """Write a session for another agent to continue with; with `dry_run` only say what would be.

    It is a new session there. What was said in branches that were given up is left out.
    """
    told = conversation(history, session, active=True)
    place = os.path.realpath(cwd or session.cwd or Path.cwd())
    user = UserHome(Path(home.environ.get("HOME") or Path.home()), home.environ)
    made = hand_off(told, agent, place, _new(agent), user)
    if not dry_run:
        _note_retold(home, made)
        put(made)
    return made


def _note_retold(home: "Home", made: HandOff) -> None:
    """Let the home know its own words when capture meets them in the other agent's log.

    The session itself may be read from elsewhere, such as a backup, which is not written to. A
    home that cannot be written captures nothing either.
    """
    if not home.has("knowledge"):
        return
    retold = retold_in(made, foreign_sources())
    with suppress(ReadOnly, SchemaMismatch), home.knowledge(must_exist=True) as store:
        store.archive.note_retold(retold)


def _new(agent: str, fallback: str = "") -> NewSession:
    now = now_ms()
    is_session = agent in (*TARGETS, "hermes")
    own = new_session_id(agent, now, _digits()) if is_session else fallback
    return NewSession(own, now, _digits)


def _digits() -> str:
    return uuid4().hex
