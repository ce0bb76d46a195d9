"""A session for another program: where it goes, and the command that goes on with it."""

import re
import shlex
from pathlib import Path
from typing import Final

import msgspec

from threadkeep.base.files import make_private_dir
from threadkeep.base.nofollow import write_files
from threadkeep.errors import Invalid
from threadkeep.export.claude_code import session_uuid
from threadkeep.export.formats import WRITERS
from threadkeep.export.opencode import opencode_id
from threadkeep.export.records import Conversation, NewSession
from threadkeep.export.resuming import resumable
from threadkeep.export.wording import stamp
from threadkeep.sources.claude_paths import project_folders
from threadkeep.sources.codex_paths import codex_homes
from threadkeep.sources.opencode import data_root
from threadkeep.sources.records import UserHome

TARGETS: Final = ("claude-code", "codex", "opencode")
_NOT_IN_SLUGS: Final = re.compile(r"[^A-Za-z0-9-]")
_LONGEST_SLUG: Final = 200


class HandOff(msgspec.Struct, frozen=True):
    """A session that was written for another program, or would be."""

    program: str
    session_id: str
    path: Path
    command: str  # what goes on with it
    title: str
    messages: int
    data: bytes


def hand_off(
    told: Conversation, program: str, cwd: str, new: NewSession, user: UserHome
) -> HandOff:
    """Make a session for another program; nothing is written yet."""
    if program not in TARGETS:
        msg = f"no session can be resumed in {program!r}"
        raise Invalid(msg, hint=f"use one of {', '.join(TARGETS)}")
    if not told.messages:
        msg = f"nothing was said in session {told.about.session_id}"
        raise Invalid(msg, hint="`threadkeep sessions` lists sessions that one can go on with")
    ready = resumable(told, cwd)
    path = _path(program, cwd, new, user)
    return HandOff(
        program=program,
        session_id=new.session_id,
        path=path,
        command=_command(program, cwd, new.session_id, path),
        title=ready.about.title,
        messages=len(ready.messages),
        data=WRITERS[program](ready, new).encode(),
    )


def put(made: HandOff) -> None:
    """Write a session where its program looks for it: for the owner alone, never over another."""
    make_private_dir(made.path.parent)
    write_files(made.path.parent, (), {made.path.name: made.data})


def new_session_id(program: str, now: int, digits: str) -> str:
    """Make an id such as a program makes for its own sessions."""
    if program == "opencode":
        # Newer sessions sort first there: the bits of the time are turned over.
        return opencode_id("ses", -now, 0, digits)
    if program == "codex":
        return _uuid7(now, digits)
    return session_uuid(digits)


def _uuid7(now: int, digits: str) -> str:
    whole = f"{now:012x}7{digits[:3]}{'89ab'[int(digits[3], 16) % 4]}{digits[4:19]}"
    return "-".join((whole[:8], whole[8:12], whole[12:16], whole[16:20], whole[20:32]))


# ---------------------------------------------------------------------- where it goes


def _path(program: str, cwd: str, new: NewSession, user: UserHome) -> Path:
    if program == "claude-code":
        return project_folders(user)[0] / project_slug(cwd) / f"{new.session_id}.jsonl"
    if program == "opencode":
        # It keeps sessions in a database: its own command takes them in from here.
        return data_root(user) / "import" / f"{new.session_id}.json"
    # The program's own names have the local time; any will do, as long as the parts agree.
    day, _, clock = stamp(new.now)[:19].partition("T")
    folder = codex_homes(user)[0].joinpath("sessions", *day.split("-"))
    return folder / f"rollout-{day}T{clock.replace(':', '-')}-{new.session_id}.jsonl"


def project_slug(cwd: str) -> str:
    """Name the folder that Claude Code keeps the transcripts of a project in."""
    slug = _NOT_IN_SLUGS.sub("-", cwd)
    if len(slug) > _LONGEST_SLUG:
        raise Invalid(f"the path {cwd[:60]}… is too long", hint="name a shorter one with --cwd")
    return slug


def _command(program: str, cwd: str, session_id: str, path: Path) -> str:
    there = f"cd {shlex.quote(cwd)} && "
    if program == "claude-code":
        return f"{there}claude --resume {session_id}"
    if program == "codex":
        return f"{there}codex resume {session_id}"
    taken = shlex.quote(str(path))
    return f"{there}opencode import {taken} && opencode --session {session_id}"
