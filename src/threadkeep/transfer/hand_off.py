"""A session for another agent: where it goes, and the command that continues it."""

import re
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from threadkeep.base import json
from threadkeep.base.files import make_private_dir
from threadkeep.base.json import decode_line
from threadkeep.base.nofollow import write_files
from threadkeep.base.sqlite.from_script import database_of
from threadkeep.capture.intake import alone
from threadkeep.errors import Invalid, ThreadkeepError
from threadkeep.knowledge.archive import text_hash
from threadkeep.sources.claude.paths import project_folders
from threadkeep.sources.cline.sessions import SOURCE as CLINE
from threadkeep.sources.codex.threads import codex_homes
from threadkeep.sources.common import table
from threadkeep.sources.continue_dev import SOURCE as CONTINUE
from threadkeep.sources.copilot_cli import SOURCE as COPILOT_CLI
from threadkeep.sources.files import file_bytes
from threadkeep.sources.folders import folders_in
from threadkeep.sources.format import Databases, DocumentFiles, Documents, encoded
from threadkeep.sources.gemini_cli import SOURCE as GEMINI_CLI
from threadkeep.sources.goose import SOURCE as GOOSE, message_record
from threadkeep.sources.gptme import SOURCE as GPTME
from threadkeep.sources.grok_build import SOURCE as GROK_BUILD
from threadkeep.sources.kimi_code import SOURCE as KIMI_CODE
from threadkeep.sources.llm_logs import HANDED_OVER, SOURCE as LLM
from threadkeep.sources.mistral_vibe import OLDER as MISTRAL_VIBE
from threadkeep.sources.opencode.database import data_root, message_line, part_line
from threadkeep.sources.pi import SOURCE as PI
from threadkeep.sources.places import roots_of
from threadkeep.sources.qwen_code import SOURCE as QWEN_CODE
from threadkeep.sources.records import Log, Source, Stamp, UserHome
from threadkeep.transfer.conversation import (
    Block,
    Conversation,
    ConversationInfo,
    ExportMessage,
    ExportNote,
    NewSession,
    Pairs,
    Reasoning,
    Role,
    Summary,
    ToolCall,
    ToolResult,
    loose_result,
    pair,
    stamp,
)
from threadkeep.transfer.formats.ai_sdk import ai_sdk
from threadkeep.transfer.formats.claude_code import claude_code, session_uuid
from threadkeep.transfer.formats.cline import cline, cline_manifest
from threadkeep.transfer.formats.codex import codex
from threadkeep.transfer.formats.continue_dev import continue_dev
from threadkeep.transfer.formats.copilot_cli import copilot_cli, copilot_workspace
from threadkeep.transfer.formats.gemini_cli import OWNER, gemini_cli, gemini_folder, gemini_owner
from threadkeep.transfer.formats.goose import goose
from threadkeep.transfer.formats.gptme import gptme, gptme_settings
from threadkeep.transfer.formats.grok_build import grok_build, grok_files, grok_folder
from threadkeep.transfer.formats.kimi_code import kimi_code, kimi_folder, kimi_state
from threadkeep.transfer.formats.llm import llm
from threadkeep.transfer.formats.mistral_vibe import mistral_vibe, vibe_meta
from threadkeep.transfer.formats.openai import hermes, openai
from threadkeep.transfer.formats.opencode import opencode, opencode_id
from threadkeep.transfer.formats.pi import pi
from threadkeep.transfer.formats.plain import jsonl, markdown
from threadkeep.transfer.formats.qwen_code import qwen_code

# ------------------------------------------------------------------------------
# A conversation that another agent continues: what it must be like.
#
# A model is given what is written here. So every call has a result and every result a call, names
# and ids are such as every provider takes, and thoughts, which only their own provider can check,
# are kept as notices that no model is shown.

_CONTINUED: Final = "continued from"
# How a text begins that tells a model of the agent that it runs in: the next one tells its own.
_SURROUNDINGS: Final = (
    *("<environment_context", "<user_instructions", "# AGENTS.md instructions", "<INSTRUCTIONS>"),
    *("<permissions", "<skills", "<apps_instructions", "<plugins_instructions"),
    *("<collaboration_mode", "<system-reminder", "<session_context", "Caveat: The messages below"),
)
_NOTICE: Final = 400  # characters: notices are for the eye alone, and the archive has all
_NO_RESULT: Final = "no result was recorded"
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME: Final = 64
_TITLE: Final = 80


def resumable(told: Conversation, cwd: str) -> Conversation:
    """Give a conversation as an agent can continue with it, with a word on where it comes from."""
    about = told.about
    begun = f"{_CONTINUED} {about.harness} {about.session_id}"
    own = about.title.partition(f" ({_CONTINUED} ")[0][:_TITLE]
    title = f"{own} ({begun})" if own else begun
    known: ConversationInfo = msgspec.structs.replace(about, title=title, cwd=cwd)
    pairs = pair(told.messages)
    messages = list(_checked(told, pairs, _Names()))
    # What stands before a summary is not read any more.
    summed_up = [place for place, one in enumerate(messages, 1) if _sums_up(one)]
    begin = summed_up[-1] if summed_up else 0
    at = messages[begin - 1].at if begin else about.started_at
    messages.insert(begin, ExportMessage("user", (ExportNote(_greeting(about)),), at))
    return Conversation(known, tuple(messages))


def _sums_up(message: ExportMessage) -> bool:
    return any(isinstance(block, Summary) for block in message.blocks)


def _greeting(about: ConversationInfo) -> str:
    return (
        f"This conversation was begun in {about.harness} (session {about.session_id}) and"
        " continues here. Its tool calls name that agent's tools; use your own."
    )


class _Names:
    """Gives ids and names that every provider takes."""

    def __init__(self) -> None:
        self._count = 0

    def next_id(self) -> str:
        """Return the next id of a call."""
        self._count += 1
        return f"call_{self._count:08d}"

    @staticmethod
    def tool(name: str) -> str:
        """Return the name of a tool without what providers refuse."""
        return _NOT_IN_NAMES.sub("_", name)[:_LONGEST_NAME] or "tool"


def _checked(told: Conversation, pairs: Pairs, names: _Names) -> Iterator[ExportMessage]:
    """Put each result right behind the message with its call, and close what is open."""
    for number, message in enumerate(told.messages):
        notices: list[Block] = []
        said: list[Block] = []
        results: list[Block] = []
        for place, block in enumerate(message.blocks):
            notice = _notice_of(block, message, is_loose=(number, place) not in pairs.answered)
            if notice is not None:
                notices.append(notice)
            elif isinstance(block, ToolCall):
                call = ToolCall(names.tool(block.name), names.next_id(), block.input)
                said.append(call)
                results.append(_closing(call, pairs.result_of.get((number, place))))
            elif not isinstance(block, ToolResult):
                said.append(block)
        sides: list[tuple[Role, list[Block], str]] = [
            ("system", notices, ""),
            (message.role, said, message.model),
            ("tool", results, ""),
        ]
        for role, blocks, model in sides:
            if blocks:
                yield ExportMessage(role, tuple(blocks), message.at, model, message.origin)


def _notice_of(block: Block, message: ExportMessage, *, is_loose: bool) -> ExportNote | None:
    """Return what is for the eye alone of a block; None if a model is to have it."""
    match block:
        case Reasoning(text=said):
            return _notice(f"Thinking: {said}")
        case ToolResult() if is_loose:
            return _notice(loose_result(block), error=block.error)
        case ExportNote() if message.role == "system" or _is_of_surroundings(block):
            return _notice(block.text, error=block.error)
        case _:
            return None


def _is_of_surroundings(note: ExportNote) -> bool:
    return note.text.lstrip().startswith(_SURROUNDINGS)


def _notice(said: str, *, error: bool = False) -> ExportNote:
    rest = len(said) - _NOTICE
    shown = f"{said[:_NOTICE]}… ({rest:,} more characters)" if rest > 0 else said
    return ExportNote(shown, error)


def _closing(call: ToolCall, result: ToolResult | None) -> ToolResult:
    if result is None:
        return ToolResult(call.id, _NO_RESULT, error=True, name=call.name)
    closed: ToolResult = msgspec.structs.replace(result, id=call.id, name=call.name)
    return closed


# ------------------------------------------------------------------------------
# Every format that a session can be written in.

Writer = Callable[[Conversation, NewSession], str]

WRITERS: Final[dict[str, Writer]] = {
    "claude-code": claude_code,
    "codex": codex,
    "opencode": opencode,
    "pi": pi,
    "qwen-code": qwen_code,
    "kimi-code": kimi_code,
    "continue": continue_dev,
    "gemini-cli": gemini_cli,
    "copilot-cli": copilot_cli,
    "cline": cline,
    "gptme": gptme,
    "goose": goose,
    "grok-build": grok_build,
    "mistral-vibe": mistral_vibe,
    "llm": llm,
    "ai-sdk": ai_sdk,
    "openai": openai,
    "hermes": hermes,
    "markdown": markdown,
    "jsonl": jsonl,
}


_NOT_IN_SLUGS: Final = re.compile(r"[^A-Za-z0-9-]")
_LONGEST_SLUG: Final = 200
_SEPARATORS: Final = re.compile(r"[/\\:]")


class HandOff(msgspec.Struct, frozen=True):
    """A session that was written for another agent, or would be."""

    agent: str
    session_id: str
    path: Path
    command: str  # what continues it
    title: str
    messages: int
    data: bytes
    beside: Mapping[Path, bytes] = {}  # what its agent keeps of it in other files


def hand_off(told: Conversation, agent: str, cwd: str, new: NewSession, user: UserHome) -> HandOff:
    """Make a session for another agent; nothing is written yet."""
    if agent not in TARGETS:
        msg = f"no session can be resumed in {agent!r}"
        raise Invalid(msg, hint=f"use one of {', '.join(TARGETS)}")
    if not told.messages:
        msg = f"there are no messages in session {told.about.session_id}"
        raise Invalid(msg, hint="`threadkeep sessions` lists the sessions that can be continued")
    ready = resumable(told, cwd)
    target = _TARGETS[agent]
    path = target.place(cwd, new, user)
    beside = target.beside(ready, new, path)
    return HandOff(
        agent=agent,
        session_id=new.session_id,
        path=path,
        command=f"cd {shlex.quote(cwd)} && {target.command(new.session_id, path)}",
        title=ready.about.title,
        messages=len(ready.messages),
        data=target.packed(WRITERS[agent](ready, new)),
        beside={place: content.encode() for place, content in beside.items()},
    )


def put(made: HandOff) -> None:
    """Write a session where its agent looks for it: for the owner alone, never over another."""
    for path, data in {**made.beside, made.path: made.data}.items():
        make_private_dir(path.parent)
        write_files(path.parent, (), {path.name: data})


def new_session_id(agent: str, now: int, digits: str) -> str:
    """Make an id such as an agent makes for its own sessions."""
    return _TARGETS[agent].new_id(now, digits) if agent in _TARGETS else session_uuid(digits)


# ---------------------------------------------------------------------- where it goes, by agent


def _uuid7(now: int, digits: str) -> str:
    whole = f"{now:012x}7{digits[:3]}{'89ab'[int(digits[3], 16) % 4]}{digits[4:19]}"
    return "-".join((whole[:8], whole[8:12], whole[12:16], whole[16:20], whole[20:32]))


def _uuid(_now: int, digits: str) -> str:
    return session_uuid(digits)


def _uuid4(_now: int, digits: str) -> str:
    return str(UUID(digits, version=4))  # the program looks at its version


def _opencode_id(now: int, digits: str) -> str:
    # Newer sessions sort first there: the bits of the time are turned over.
    return opencode_id("ses", -now, 0, digits)


def _of_claude_code(cwd: str, new: NewSession, user: UserHome) -> Path:
    return project_folders(user)[0] / project_slug(cwd) / f"{new.session_id}.jsonl"


def _of_codex(_cwd: str, new: NewSession, user: UserHome) -> Path:
    # The agent's own names have the local time; any will do, as long as the parts agree.
    day, _, clock = stamp(new.now)[:19].partition("T")
    folder = codex_homes(user)[0].joinpath("sessions", *day.split("-"))
    return folder / f"rollout-{day}T{clock.replace(':', '-')}-{new.session_id}.jsonl"


def _of_opencode(_cwd: str, new: NewSession, user: UserHome) -> Path:
    # It keeps sessions in a database: its own command takes them in from here.
    return data_root(user) / "import" / f"{new.session_id}.json"


def _of_qwen_code(cwd: str, new: NewSession, user: UserHome) -> Path:
    chats = roots_of(QWEN_CODE.places, user)[0] / project_slug(cwd) / "chats"
    return chats / f"{new.session_id}.jsonl"


def _of_pi(cwd: str, new: NewSession, user: UserHome) -> Path:
    folder = f"--{_SEPARATORS.sub('-', cwd.lstrip('/'))}--"
    name = f"{stamp(new.now).replace(':', '-').replace('.', '-')}_{new.session_id}.jsonl"
    return roots_of(PI.places, user)[0] / folder / name


def _kimi_id(now: int, digits: str) -> str:
    return f"session_{_uuid4(now, digits)}"


def _of_kimi_code(cwd: str, new: NewSession, user: UserHome) -> Path:
    sessions = roots_of(KIMI_CODE.places, user)[0]
    return sessions / kimi_folder(cwd) / new.session_id / "agents" / "main" / "wire.jsonl"


def _of_continue(_cwd: str, new: NewSession, user: UserHome) -> Path:
    return roots_of(CONTINUE.places, user)[0] / f"{new.session_id}.json"


def _of_copilot(_cwd: str, new: NewSession, user: UserHome) -> Path:
    return roots_of(COPILOT_CLI.places, user)[0] / new.session_id / "events.jsonl"


def _of_gemini(cwd: str, new: NewSession, user: UserHome) -> Path:
    root = GEMINI_CLI.roots(user)[0]
    project = next(
        (one for one in folders_in(root, user, is_root=True) if _owner(one) == cwd), None
    )
    at = stamp(new.now)[:16].replace(":", "-")
    folder = project or root / gemini_folder(cwd)
    return folder / "chats" / f"session-{at}-{new.session_id[:8]}.jsonl"


def _owner(folder: Path) -> str:
    try:
        return file_bytes(folder / OWNER, str(folder)).decode("utf-8", "surrogateescape").strip()
    except ThreadkeepError:
        return ""  # a folder of an older version has none


def _cline_id(now: int, digits: str) -> str:
    return f"{now}_{digits[:5]}"


def _of_cline(_cwd: str, new: NewSession, user: UserHome) -> Path:
    own = new.session_id
    return roots_of(CLINE.places, user)[0] / own / f"{own}.messages.json"


def _gptme_id(now: int, digits: str) -> str:
    return f"{stamp(now)[:10]}-continued-{digits[:8]}"


def _of_gptme(_cwd: str, new: NewSession, user: UserHome) -> Path:
    return roots_of(GPTME.places, user)[0] / new.session_id / "conversation.jsonl"


def _goose_id(now: int, digits: str) -> str:
    # The program gives a number of its own to what it imports.
    return f"{stamp(now)[:10].replace('-', '')}_{digits[:8]}"


def _of_goose(_cwd: str, new: NewSession, user: UserHome) -> Path:
    # It keeps sessions in a database: its own command takes them in from here.
    return roots_of(GOOSE.places, user)[0].parent / "import" / f"{new.session_id}.json"


def _of_grok(cwd: str, new: NewSession, user: UserHome) -> Path:
    folder = roots_of(GROK_BUILD.places, user)[0] / grok_folder(cwd) / new.session_id
    return folder / "chat_history.jsonl"


def _of_vibe(_cwd: str, new: NewSession, user: UserHome) -> Path:
    at = re.sub("[-:]", "", stamp(new.now)[:19]).replace("T", "_")
    root = roots_of(MISTRAL_VIBE.places, user)[0]
    return root / f"session_{at}_{new.session_id[:8]}" / "messages.jsonl"


def _of_llm(_cwd: str, new: NewSession, user: UserHome) -> Path:
    # A database of its own: that of the program is nobody else's to write into.
    return roots_of(LLM.places, user)[0] / HANDED_OVER / f"{new.session_id}.db"


def _resume_llm(session_id: str, path: Path) -> str:
    return f"llm chat --cid {session_id} -d {shlex.quote(str(path))}"


def _resume_goose(_session_id: str, path: Path) -> str:
    # What was imported is what was used last.
    imported = f"goose session import {shlex.quote(str(path))}"
    return f"{imported} && goose session --resume --history"


def _resume_opencode(session_id: str, path: Path) -> str:
    return f"opencode import {shlex.quote(str(path))} && opencode --session {session_id}"


class _Target(NamedTuple):
    new_id: Callable[[int, str], str]  # of the time and 32 random digits
    place: Callable[[str, NewSession, UserHome], Path]  # for a folder to continue in
    command: Callable[[str, Path], str]  # what continues a session
    # What is in other files than that of the conversation.
    beside: Callable[[Conversation, NewSession, Path], Mapping[Path, str]] = lambda *_: {}
    source: Source | None = None  # what reads it, where its agent has several
    packed: Callable[[str], bytes] = str.encode  # what stands in its file


_TARGETS: Final[Mapping[str, _Target]] = {
    "claude-code": _Target(_uuid, _of_claude_code, lambda own, _: f"claude --resume {own}"),
    "codex": _Target(_uuid7, _of_codex, lambda own, _: f"codex resume {own}"),
    "opencode": _Target(_opencode_id, _of_opencode, _resume_opencode),
    "pi": _Target(_uuid7, _of_pi, lambda own, _: f"pi --session {own}"),
    "qwen-code": _Target(_uuid4, _of_qwen_code, lambda own, _: f"qwen --resume {own}"),
    "kimi-code": _Target(
        *(_kimi_id, _of_kimi_code, lambda own, _: f"kimi --session {own}", kimi_state)
    ),
    # It resumes only its last session by itself; a fork of any begins with all that was said.
    "continue": _Target(_uuid4, _of_continue, lambda own, _: f"cn --fork {own}"),
    "gemini-cli": _Target(
        *(_uuid4, _of_gemini, lambda own, _: f"gemini --resume {own}", gemini_owner)
    ),
    "copilot-cli": _Target(
        *(_uuid4, _of_copilot, lambda own, _: f"copilot --resume={own}", copilot_workspace)
    ),
    "cline": _Target(*(_cline_id, _of_cline, lambda own, _: f"cline --id {own}", cline_manifest)),
    "gptme": _Target(*(_gptme_id, _of_gptme, lambda own, _: f"gptme --name {own}", gptme_settings)),
    "goose": _Target(_goose_id, _of_goose, _resume_goose),
    "grok-build": _Target(_uuid7, _of_grok, lambda own, _: f"grok --resume {own}", grok_files),
    "mistral-vibe": _Target(
        *(_uuid4, _of_vibe, lambda own, _: f"vibe --resume {own}", vibe_meta, MISTRAL_VIBE)
    ),
    "llm": _Target(_uuid7, _of_llm, _resume_llm, packed=database_of),
}
TARGETS: Final = tuple(_TARGETS)


def project_slug(cwd: str) -> str:
    """Name the folder that Claude Code, and Qwen Code, keep the transcripts of a project in."""
    slug = _NOT_IN_SLUGS.sub("-", cwd)
    if len(slug) > _LONGEST_SLUG:
        raise Invalid(f"the path {cwd[:60]}… is too long", hint="name a shorter one with --cwd")
    return slug


# ------------------------------------------------------------------------------
# What a hand-off makes of a session's words, read as capture will read it.


def retold_in(made: HandOff, sources: Mapping[str, Source]) -> dict[str, set[int]]:
    """Return the hashes of the texts in a session that was handed over, by where they were said."""
    log = Log(str(made.path), Stamp(0, 0, 0, 0), made.session_id)
    source = _TARGETS[made.agent].source or sources[made.agent]
    fresh = partial(source.parser, log, None)
    found: dict[str, set[int]] = defaultdict(set)
    for number, line in enumerate(_lines(made, source, log)):
        for record in decode_line(line):
            for entry in alone(fresh, record, line, number):
                if entry.origin:
                    found[entry.origin].add(text_hash(entry.text))
    return found


def _lines(made: HandOff, source: Source, log: Log) -> Iterable[bytes]:
    if made.agent == "opencode":
        return _parts(json.decode(made.data.decode()))
    if made.agent == "goose":
        return _messages(json.decode(made.data.decode()))
    if isinstance(source, Documents):
        files = DocumentFiles(log, {**made.beside, made.path: made.data})
        return (line for _, line in encoded(source.split(files)))
    if isinstance(source, Databases):
        return _records(made, source)
    return made.data.splitlines()


def _records(made: HandOff, source: Databases) -> Iterator[bytes]:
    """Return the records of a database that is not in its place yet."""
    with TemporaryDirectory() as folder:
        path = Path(folder, made.path.name)
        write_files(path.parent, (), {path.name: made.data})
        log = Log(str(path), Stamp(0, 0, 0, 0), made.session_id)
        yield from (line for _, line in source.records(log, made.session_id))


def _parts(document: Any) -> Iterator[bytes]:
    """Return the records that a document for OpenCode becomes in its database."""
    for message in table(document)["messages"]:
        _, about = message_line(message["info"]["id"], json.encode(message["info"]))
        for part in message["parts"]:
            yield part_line(part["id"], about, json.encode(part))


def _messages(document: Any) -> Iterator[bytes]:
    """Return the records that a document for goose becomes in its database."""
    for message in table(document)["conversation"]:
        row = {
            "role": message["role"],
            "content_json": message["content"],
            "created_timestamp": message["created"],
            "metadata_json": message["metadata"],
        }
        yield json.encode(message_record(message["id"], row)).encode()
