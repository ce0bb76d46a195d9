"""Messages of a session as they are shown: results beneath their calls, long texts folded.

All of it is pure: a window of messages in, what the templates write out. The page, the pieces that
are loaded later and the offline file are made from the same.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from markupsafe import Markup

from threadkeep.knowledge.records import Image
from threadkeep.knowledge.results import SessionSummary, TranscriptMessage, TurnSum
from threadkeep.memory.learn.text_cleaning import split_injected
from threadkeep.web.code import (
    language_of_command,
    language_of_path,
    language_of_text,
    markup_of,
    parted,
    pieces,
)
from threadkeep.web.diffs import PATHS, FileDiff, changes_of, colored
from threadkeep.web.markup import anchor

CUT: Final = 20_000  # characters of one text in a window
_HEAD_LINES: Final = 8
_HEAD_CHARACTERS: Final = 1_200
_LONG_PROSE: Final = 30  # lines of a prompt that are shown without folding
_OPEN_LINES: Final = 10
_BRIEF: Final = 3
_OPEN_DIFF: Final = 60
_HEADLINE: Final = 160
_PICTURE: Final = 400_000  # base64 characters of one picture in a window
_RASTER: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]+={0,2}")
# The one argument that says what a call is about, the most telling first.
_TELLING: Final = (
    *("command", "cmd", "pattern", "query", "file_path", "filePath", "path", "target_file"),
    *("notebook_path", "absolute_path", "url", "description", "prompt", "name", "message"),
)
_COMMANDS: Final = ("command", "cmd")
_SHELLS: Final = frozenset({"bash", "sh", "zsh", "/bin/bash", "/bin/sh", "/bin/zsh"})
_GROUPS: Final = {
    "prompt": ("prompts", "Prompt"),
    "text": ("answers", "Answer"),
    "reasoning": ("reasoning", "Reasoning"),
    "tool_call": ("tools", "Tool"),
    "tool_result": ("results", "Result"),
    "summary": ("notes", "Compaction"),
    "note": ("notes", "Note"),
}
# What Codex writes above the output of a command, a line each.
_HEADER: Final = (
    re.compile(r"Chunk ID: \w+"),
    re.compile(r"Wall time: (?P<seconds>\d{1,9}(?:\.\d{1,9})?) seconds?"),
    re.compile(r"(?:Exit code:|Process exited with code) (?P<exit>-?\d{1,9})"),
    re.compile(r"(?P<running>Process running) with session ID \d+"),
    re.compile(r"(?:Original token count|Total output lines): \d+"),
)
_HEADER_ENDS: Final = "Output:"
_HEADER_LINES: Final = 8
_REMINDER: Final = "system-reminder"
_FENCE: Final = ("```", "~~~")
_WORD: Final = re.compile(r"[a-z][a-z-]{0,30}")
_ASKED: Final = ("prompt", "message", "description", "task", "instructions")
_ALIKE: Final = 60  # characters by which a subagent's task is recognised


class TextPreview(msgspec.Struct, frozen=True):
    """A text as it is: its beginning, what is folded away, and how much is not here at all."""

    head: str
    rest: str = ""
    lines: int = 0
    missing: int = 0  # characters
    language: str = ""


class Aside(msgspec.Struct, frozen=True):
    """A note that a program put into somebody's words, or into a result."""

    name: str
    text: str


class Ran(msgspec.Struct, frozen=True):
    """What the program said about a command beside its output."""

    took: float | None = None  # milliseconds
    exit_code: int | None = None
    running: bool = False


class Argument(msgspec.Struct, frozen=True):
    """One argument of a tool call."""

    name: str
    piece: TextPreview
    inline: bool  # short enough to stand beside its name


class MessageView(msgspec.Struct, frozen=True):
    """One message as it is shown."""

    message: TranscriptMessage
    anchor: str
    group: str  # what the filters of the page call it
    label: str
    piece: TextPreview
    headline: str = ""
    headline_language: str = ""
    asides: tuple[Aside, ...] = ()
    ran: Ran | None = None
    arguments: tuple[Argument, ...] = ()
    changes: tuple[FileDiff, ...] = ()
    pictures: tuple[str, ...] = ()
    hidden_pictures: int = 0  # too large for a window, or of a type that is not shown
    is_open: bool = False
    final: bool = False  # the last answer of its turn
    result: "MessageView | None" = None
    subagent: SessionSummary | None = None

    @property
    def is_brief(self) -> bool:
        """Whether the arguments of a call are a few short ones, which need no folding."""
        return 0 < len(self.arguments) <= _BRIEF and all(one.inline for one in self.arguments)

    @property
    def raw(self) -> TextPreview:
        """Its text as it was captured; of a very long one the beginning."""
        return piece_of(self.message.text)

    @property
    def missing(self) -> int:
        """How many characters are not here; they come when they are asked for."""
        return self.piece.missing + sum(one.piece.missing for one in self.arguments)


def filters() -> dict[str, Callable[..., Any]]:
    """Return the filters of the templates."""
    return {
        "views": views,
        "view": view,
        "written": written,
        "bars": bars,
        "agent": agent_class,
        "colored": colored,
        "colored_piece": colored_piece,
        "one_line": one_line,
    }


def views(
    messages: Sequence[TranscriptMessage],
    children: Sequence[SessionSummary] = (),
    *,
    whole: bool = False,
) -> list[MessageView]:
    """Return messages as they are shown; with `whole` nothing is cut."""
    calls = {
        one.call_id: one.position for one in messages if one.part == "tool_call" and one.call_id
    }
    results = {
        one.call_id: one
        for one in messages
        if one.part == "tool_result" and calls.get(one.call_id, one.position) < one.position
    }
    beneath = {one.position for one in results.values()}
    finals = _finals(messages)
    shown = []
    for message in messages:
        if message.position in beneath:
            continue
        # Some programs give an id again: a result belongs to the last call that has it.
        is_last = message.part == "tool_call" and calls.get(message.call_id) == message.position
        result = results.get(message.call_id) if is_last else None
        shown.append(
            msgspec.structs.replace(
                view(message, whole=whole),
                final=message.position in finals,
                result=None if result is None else view(result, whole=whole, call=message),
                subagent=subagent_of(message, children) if children else None,
            )
        )
    return shown


def view(
    message: TranscriptMessage, *, whole: bool = False, call: TranscriptMessage | None = None
) -> MessageView:
    """Return one message as it is shown; a result is shown as what its `call` asked for."""
    group, label = _GROUPS.get(message.part, ("notes", message.part))
    pictures, hidden = _pictures(message.images, whole=whole)
    text, ran = (
        without_header(message.text) if message.part == "tool_result" else (message.text, None)
    )
    text, asides = without_asides(text, message.part)
    piece = prose_of(text, whole=whole) if message.part == "prompt" else piece_of(text, whole=whole)
    found = MessageView(
        message,
        anchor(message.key),
        group,
        label,
        piece,
        pictures=pictures,
        hidden_pictures=hidden,
        asides=asides,
        ran=ran,
    )
    if message.part == "tool_call":
        return _call(found, whole=whole)
    if message.part == "note":
        return msgspec.structs.replace(found, headline=one_line(message.text))
    if message.part == "tool_result":
        piece = msgspec.structs.replace(piece, language=_language(call, message, text))
        return msgspec.structs.replace(found, piece=piece)
    return found


def without_asides(text: str, part: str) -> tuple[str, tuple[Aside, ...]]:
    """Part what somebody said, or a tool gave back, from what the program added to it."""
    if part not in {"prompt", "tool_result"} or "<" not in text:
        return text, ()
    said, asides = [], []
    for name, words in split_injected(text):
        if name and (part == "prompt" or name == _REMINDER) and words.strip():
            asides.append(Aside(name, words.strip()[:CUT]))
        elif name and words:  # a file may be about such things
            said.append(f"<{name}>{words}</{name}>")
        else:
            said.append(f"<{name}>" if name else words)
    return ("".join(said).strip("\n"), tuple(asides)) if asides else (text, ())


def without_header(text: str) -> tuple[str, Ran | None]:
    """Part the output of a command from the lines that Codex writes above it."""
    if text.startswith('{"output":'):
        return _unwrapped(text)
    told: dict[str, str] = {}
    at = 0
    for _ in range(_HEADER_LINES):
        end = text.find("\n", at)
        line = text[at : end if end >= 0 else len(text)]
        if line == _HEADER_ENDS and at:
            return text[end + 1 :] if end >= 0 else "", _ran(told)
        found = next((match for one in _HEADER if (match := one.fullmatch(line))), None)
        if found is None or end < 0:
            break
        told |= {name: value for name, value in found.groupdict().items() if value}
        at = end + 1
    return text, None


def _ran(told: Mapping[str, str]) -> Ran:
    took = float(told["seconds"]) * 1000 if "seconds" in told else None
    return Ran(took, int(told["exit"]) if "exit" in told else None, "running" in told)


def _unwrapped(text: str) -> tuple[str, Ran | None]:
    """Read the form of a result in which the output is a field beside its exit code."""
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        return text, None
    facts = given.get("metadata")
    if not isinstance(given.get("output"), str) or not isinstance(facts, dict):
        return text, None
    seconds, code = facts.get("duration_seconds"), facts.get("exit_code")
    took = seconds * 1000 if isinstance(seconds, int | float) else None
    return given["output"], Ran(took, code if isinstance(code, int) else None)


def _language(call: TranscriptMessage | None, result: TranscriptMessage, text: str) -> str:
    """Find out what a result is written in: the file that was read, or how the text begins."""
    given = call.input if call is not None else None
    if isinstance(given, Mapping) and not result.error:
        path = next((given[one] for one in PATHS if isinstance(given.get(one), str)), "")
        command = next((given[name] for name in _COMMANDS if given.get(name)), "")
        typed = command_of(command) if isinstance(command, list) else str(command)
        if found := language_of_path(path) or language_of_command(typed):
            return found
    return language_of_text(text)


def _finals(messages: Iterable[TranscriptMessage]) -> set[int]:
    """Find the last answer of each turn."""
    last = {one.turn: one.position for one in messages if one.part == "text"}
    return set(last.values())


# ------------------------------------------------------------------------------------ tool calls


def _call(found: MessageView, *, whole: bool) -> MessageView:
    message = found.message
    told = headline(message.input, message.text)
    given = message.input
    if isinstance(given, Mapping) and any(given.get(name) for name in _COMMANDS):
        found = msgspec.structs.replace(found, headline_language=_shell(message.tool))
    changes = tuple(changes_of(message.tool, message.input))
    if changes:
        lines = sum(len(one.lines) for one in changes)
        return msgspec.structs.replace(
            found, headline=told, changes=changes, is_open=lines <= _OPEN_DIFF
        )
    arguments = tuple(_arguments(message, told, whole=whole))
    lines = sum(1 if one.inline else one.piece.lines + 1 for one in arguments)
    return msgspec.structs.replace(
        found, headline=told, arguments=arguments, is_open=lines <= _OPEN_LINES
    )


def headline(given: Any, text: str) -> str:
    """Say in one line what a call is about."""
    told = given
    if isinstance(given, Mapping):
        told = next((given[name] for name in _TELLING if given.get(name)), text)
    return _flat(command_of(told) if isinstance(told, list) else str(told or text))


def command_of(words: Sequence[Any]) -> str:
    """Write a command that is given as a list; of `bash -lc SCRIPT` only the script."""
    texts = [str(word) for word in words]
    if len(texts) >= 3 and texts[0] in _SHELLS and texts[1].startswith("-"):  # noqa: PLR2004
        return " ".join(texts[2:])
    return " ".join(texts)


def one_line(text: str) -> str:
    """Put the beginning of a text on one line, without the marks that begin a line of Markdown."""
    return _flat(text[: 4 * _HEADLINE].lstrip("#*>` \n") or text)


def _flat(text: str) -> str:
    flat = " ".join(text[: 4 * _HEADLINE].split())
    return flat if len(flat) <= _HEADLINE else f"{flat[: _HEADLINE - 1]}…"


def _arguments(message: TranscriptMessage, told: str, *, whole: bool) -> Iterable[Argument]:
    """Return the arguments of a call, but for what its headline says completely."""
    if not isinstance(message.input, Mapping):
        text = written(message.input) if message.input is not None else message.text
        if text.strip() and text.strip() != told:
            yield Argument("", piece_of(text, whole=whole), inline=False)
        return
    for name, value in message.input.items():
        text = command_of(value) if _is_command(name, value) else written(value)
        if text.strip() == told or value is None:
            continue
        inline = len(text) <= _HEADLINE and "\n" not in text
        language = "" if isinstance(value, str) else "json"
        language = _shell(message.tool) if name in _COMMANDS else language
        piece = msgspec.structs.replace(piece_of(text, whole=whole), language=language)
        yield Argument(str(name), piece, inline)


def _shell(tool: str) -> str:
    return "powershell" if "powershell" in tool.lower() else "bash"


def _is_command(name: object, value: object) -> bool:
    return isinstance(value, list) and name in _COMMANDS


def written(value: Any) -> str:
    """Write an argument: texts as they are, anything else as JSON."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, indent=2, default=str)
    except (RecursionError, ValueError):  # nested beyond reason
        return "…"


# ---------------------------------------------------------------------------------- long things


def piece_of(text: str, *, whole: bool = False) -> TextPreview:
    """Part a text into what is seen at once and what is folded; more than a window holds is cut."""
    kept = text if whole else text[:CUT]
    at = _end_of_head(kept)
    lines = text.count("\n") + bool(text and not text.endswith("\n"))
    return TextPreview(kept[:at], kept[at:], lines, len(text) - len(kept))


def prose_of(text: str, *, whole: bool = False) -> TextPreview:
    """Part Markdown between two paragraphs; where no such place exists, it is not parted."""
    found = piece_of(text, whole=whole)
    if not found.rest or found.lines <= _LONG_PROSE:
        return msgspec.structs.replace(found, head=found.head + found.rest, rest="")
    kept = found.head + found.rest
    at = seen = 0
    fenced = False
    for line in kept.split("\n"):
        fenced ^= line.lstrip().startswith(_FENCE)
        seen += len(line) + 1
        if seen > len(found.head) and not fenced and not line.strip():
            at = seen
            break
    at = at or len(kept)
    return msgspec.structs.replace(found, head=kept[:at], rest=kept[at:])


def colored_piece(piece: TextPreview) -> tuple[Markup, Markup]:
    """Return the beginning and the rest of a text in the colors of its language."""
    head, rest = parted(pieces(piece.head + piece.rest, piece.language), len(piece.head))
    return markup_of(head), markup_of(rest)


def _end_of_head(text: str) -> int:
    """Find where the head of a text ends; a rest of a few lines is not worth folding."""
    at = -1
    for _ in range(_HEAD_LINES):
        at = text.find("\n", at + 1)
        if at < 0:
            break
    at = len(text) if at < 0 else at + 1
    if at <= _HEAD_CHARACTERS:
        return len(text) if text.count("\n", at) <= 2 and len(text) - at < 300 else at  # noqa: PLR2004
    return _HEAD_CHARACTERS


def _pictures(images: Iterable[Image], *, whole: bool) -> tuple[tuple[str, ...], int]:
    """Return pictures as addresses that hold them; other types could run, and addresses load."""
    images = tuple(images)
    shown = tuple(
        f"data:{one.media_type};base64,{one.data}"
        for one in images
        if one.media_type in _RASTER
        and (whole or len(one.data) <= _PICTURE)
        and _BASE64.fullmatch(one.data)
    )
    return shown, len(images) - len(shown)


# ------------------------------------------------------------------------------------ subagents


def subagent_of(
    message: TranscriptMessage, children: Iterable[SessionSummary]
) -> SessionSummary | None:
    """Find the session that a call started: it begins with the task, or is named as the call."""
    if message.part != "tool_call" or not isinstance(message.input, Mapping):
        return None
    asked = {_start(message.input.get(name)) for name in _ASKED} - {""}
    return next((one for one in children if asked & _beginnings(one)), None)


def _beginnings(child: SessionSummary) -> set[str]:
    return {_start(child.session.first_prompt), _start(child.session.title)}


def _start(text: object) -> str:
    return "".join(text[: 4 * _ALIKE].split())[:_ALIKE] if isinstance(text, str) else ""


# ------------------------------------------------------------------------------------------ turns


class Bar(msgspec.Struct, frozen=True):
    """What a turn took, drawn: its share of the largest turn, in percent."""

    turn: TurnSum
    tokens: int
    took: int  # milliseconds
    token_width: int
    time_width: int


def bars(turns: Sequence[TurnSum]) -> list[Bar]:
    """Measure the turns of a session against its largest."""
    counted = [(_tokens(one), _took(one)) for one in turns]
    most_tokens = max((tokens for tokens, _ in counted), default=0)
    most_time = max((took for _, took in counted), default=0)
    return [
        Bar(one, tokens, took, _share(tokens, most_tokens), _share(took, most_time))
        for one, (tokens, took) in zip(turns, counted, strict=True)
    ]


def _tokens(turn: TurnSum) -> int:
    return turn.input + turn.output + turn.cache_read + turn.cache_write


def _took(turn: TurnSum) -> int:
    return 0 if turn.at is None or turn.ended_at is None else max(0, turn.ended_at - turn.at)


def _share(part: int, most: int) -> int:
    return 0 if not part or not most else max(1, round(100 * part / most))


def agent_class(agent: str) -> str:
    """Return the class that colours an agent; a name that is no word has none."""
    return agent if _WORD.fullmatch(agent) else ""
