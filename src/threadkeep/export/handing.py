"""A conversation that another program goes on with: what it must be like, and where it goes.

A model is given what is written here. So every call has a result and every result a call, names
and ids are such as every provider takes, and thoughts, which only their own provider can check,
are kept as notices that no model is shown.
"""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from threadkeep.base.files import make_private_dir
from threadkeep.base.nofollow import write_files
from threadkeep.errors import Invalid
from threadkeep.export.claude_code import session_uuid
from threadkeep.export.formats import WRITERS
from threadkeep.export.opencode import opencode_id
from threadkeep.export.pairing import Pairs, pair
from threadkeep.export.records import (
    About,
    Block,
    Conversation,
    Message,
    New,
    Note,
    Reasoning,
    Summary,
    ToolCall,
    ToolResult,
)
from threadkeep.export.wording import loose_result, stamp
from threadkeep.sources.claude_paths import project_folders
from threadkeep.sources.codex_paths import codex_homes
from threadkeep.sources.opencode import data_root
from threadkeep.sources.records import UserHome

TARGETS: Final = ("claude-code", "codex", "opencode")
_NO_RESULT: Final = "no result was recorded"
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")
_NOT_IN_SLUGS: Final = re.compile(r"[^A-Za-z0-9-]")
_LONGEST_NAME: Final = 64
_LONGEST_SLUG: Final = 200
_TITLE: Final = 80


class HandOff(msgspec.Struct, frozen=True):
    """A session that was written for another program, or would be."""

    program: str
    session_id: str
    path: Path
    command: str  # what goes on with it
    title: str
    messages: int
    data: bytes


def hand_off(told: Conversation, program: str, cwd: str, new: New, user: UserHome) -> HandOff:
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


def _path(program: str, cwd: str, new: New, user: UserHome) -> Path:
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


# ---------------------------------------------------------------------- what it is like


def resumable(told: Conversation, cwd: str) -> Conversation:
    """Give a conversation as a program can go on with it, with a word on where it comes from."""
    about = told.about
    begun = f"continued from {about.harness} {about.session_id}"
    title = f"{about.title[:_TITLE]} ({begun})" if about.title else begun
    known: About = msgspec.structs.replace(about, title=title, cwd=cwd)
    pairs = pair(told.messages)
    messages = list(_checked(told, pairs, _Names()))
    # What stands before a summary is not read any more.
    summed_up = [place for place, one in enumerate(messages, 1) if _sums_up(one)]
    begin = summed_up[-1] if summed_up else 0
    at = messages[begin - 1].at if begin else about.started_at
    messages.insert(begin, Message("user", (Note(_greeting(about)),), at))
    return Conversation(known, tuple(messages))


def _sums_up(message: Message) -> bool:
    return any(isinstance(block, Summary) for block in message.blocks)


def _greeting(about: About) -> str:
    return (
        f"This conversation was begun in {about.harness} (session {about.session_id}) and goes on"
        " here. What its tool calls name are that program's tools; use your own."
    )


class _Names:
    """Gives ids and names that every provider takes."""

    def __init__(self) -> None:
        self._count = 0

    def next_id(self) -> str:
        """Give the next id of a call."""
        self._count += 1
        return f"call_{self._count:08d}"

    @staticmethod
    def tool(name: str) -> str:
        """Give the name of a tool without what providers refuse."""
        return _NOT_IN_NAMES.sub("_", name)[:_LONGEST_NAME] or "tool"


def _checked(told: Conversation, pairs: Pairs, names: _Names) -> Iterator[Message]:
    """Put each result right behind the message with its call, and close what is open."""
    for number, message in enumerate(told.messages):
        notes: list[Block] = []
        said: list[Block] = []
        results: list[Block] = []
        for place, block in enumerate(message.blocks):
            if isinstance(block, Reasoning):
                notes.append(Note(f"Thinking: {block.text}"))
            elif isinstance(block, ToolCall):
                call = ToolCall(names.tool(block.name), names.next_id(), block.input)
                said.append(call)
                results.append(_closing(call, pairs.result_of.get((number, place))))
            elif not isinstance(block, ToolResult):
                said.append(block)
            elif (number, place) not in pairs.answered:
                notes.append(Note(loose_result(block), block.error))
        if notes:
            yield Message("system", tuple(notes), message.at)
        if said:
            yield Message(message.role, tuple(said), message.at, message.model)
        if results:
            yield Message("tool", tuple(results), message.at)


def _closing(call: ToolCall, result: ToolResult | None) -> ToolResult:
    if result is None:
        return ToolResult(call.id, _NO_RESULT, error=True, name=call.name)
    closed: ToolResult = msgspec.structs.replace(result, id=call.id, name=call.name)
    return closed
