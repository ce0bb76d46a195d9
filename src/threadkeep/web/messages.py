"""Messages of a session as they are shown: results beneath their calls, long texts folded.

All of it is pure: a window of messages in, what the templates write out. The page, the pieces that
are loaded later and the offline file are made from the same.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Final, Literal

import msgspec

from threadkeep.knowledge.records import Image
from threadkeep.knowledge.results import SessionSummary, TranscriptMessage, TurnSum
from threadkeep.web.markup import anchor

# ------------------------------------------------------------------------------
# What a tool call changes in files, as lines that were taken out and put in.
#
# Programs name the same thing differently (`old_string`, `oldString`, `old_str`), so a change is
# known by the shape of its arguments and not by the name of the tool.

Sign = Literal["+", "-", " ", "@"]

_PATHS: Final = ("file_path", "filePath", "path", "target_file", "notebook_path", "absolute_path")
_PAIRS: Final = (
    ("old_string", "new_string"),
    ("oldString", "newString"),
    ("old_str", "new_str"),
    ("old_text", "new_text"),
    ("oldText", "newText"),
)
_WHOLE: Final = ("content", "file_text", "contents", "new_source", "code_edit")
_PATCHES: Final = ("input", "patch", "patchText", "patch_text", "diff", "unified_diff")
_WRITERS: Final = ("write", "create", "edit", "replace")
_NAMED: Final = {
    "*** Update File: ": "",
    "*** Add File: ": " (new)",
    "*** Delete File: ": " (deleted)",
}
_LINES: Final = 600  # that are shown of one file
_COMPARED: Final = 1500  # lines a side: beyond it difflib takes seconds
_AROUND: Final = 3


class DiffLine(msgspec.Struct, frozen=True):
    """One line of a change."""

    sign: Sign
    text: str


class FileDiff(msgspec.Struct, frozen=True):
    """What happens to one file."""

    path: str
    lines: tuple[DiffLine, ...]
    added: int
    removed: int
    left_out: int = 0  # lines that are not shown


def changes_of(tool: str, given: Any) -> list[FileDiff]:
    """Give the changes of a tool call; none if it changes no file."""
    if isinstance(given, str):
        return list(_patched(given))
    if not isinstance(given, Mapping):
        return []
    found = list(_edited(tool, given))
    if found:
        return found
    texts = [given.get(name) for name in _PATCHES]
    command = given.get("command")
    texts += command if isinstance(command, list) else [command]
    return [change for text in texts if isinstance(text, str) for change in _patched(text)]


def compare(path: str, old: str, new: str) -> FileDiff:
    """Compare two texts line by line, with a little of what stays around each difference."""
    before, after = old.splitlines(), new.splitlines()
    if not before or not after or max(len(before), len(after)) > _COMPARED:
        lines = [DiffLine("-", text) for text in before] + [DiffLine("+", text) for text in after]
    else:
        lines = list(_compared(before, after))
    return _change(path, lines)


def _compared(before: list[str], after: list[str]) -> Iterator[DiffLine]:
    matcher = SequenceMatcher(None, before, after)
    for number, group in enumerate(matcher.get_grouped_opcodes(_AROUND)):
        if number:
            yield DiffLine("@", "")
        for tag, low, high, new_low, new_high in group:
            if tag == "equal":
                yield from (DiffLine(" ", text) for text in before[low:high])
                continue
            yield from (DiffLine("-", text) for text in before[low:high])
            yield from (DiffLine("+", text) for text in after[new_low:new_high])


def _change(path: str, lines: list[DiffLine]) -> FileDiff:
    added = sum(line.sign == "+" for line in lines)
    removed = sum(line.sign == "-" for line in lines)
    left_out = max(0, len(lines) - _LINES)
    return FileDiff(path, tuple(lines[:_LINES]), added, removed, left_out)


# ------------------------------------------------------------------- arguments with texts in them


def _edited(tool: str, given: Mapping[str, Any]) -> Iterator[FileDiff]:
    path = _text(given, _PATHS)
    several = given.get("edits")
    if isinstance(several, list):
        edits = [edit for edit in several if isinstance(edit, Mapping)]
        yield from (change for edit in edits for change in _edited(tool, {"path": path, **edit}))
        return
    for old, new in _PAIRS:
        if isinstance(given.get(new), str):
            yield compare(path, _text(given, (old,)), given[new])
            return
    if path and any(word in tool.lower() or given.get("command") == word for word in _WRITERS):
        whole = next((given[name] for name in _WHOLE if isinstance(given.get(name), str)), None)
        if whole is not None:
            yield compare(path, "", whole)


def _text(given: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return next((given[name] for name in names if isinstance(given.get(name), str)), "")


# ---------------------------------------------------------------------------------------- patches


def _patched(text: str) -> Iterator[FileDiff]:
    """Read a patch: the kind with `*** Begin Patch`, or the kind that `diff -u` writes."""
    if "*** Begin Patch" in text:
        yield from _files(text[text.index("*** Begin Patch") :].splitlines(), _named)
    elif "\n@@ " in text and "\n+++ " in f"\n{text}":
        yield from _files(text.splitlines(), _unified)


def _named(line: str) -> str | None:
    for start, after in _NAMED.items():
        if line.startswith(start):
            return line.removeprefix(start).strip() + after
    return None


def _unified(line: str) -> str | None:
    if not line.startswith("+++ "):
        return None
    return line[4:].partition("\t")[0].strip().removeprefix("b/")


def _files(lines: list[str], name_of: Any) -> Iterator[FileDiff]:
    path: str | None = None
    found: list[DiffLine] = []
    for line in lines:
        named = name_of(line)
        if named is not None:
            if path is not None:
                yield _change(path, found)
            path, found = named, []
        elif line.startswith(("*** ", "--- ", "diff --git ", "index ")):
            continue
        elif line.startswith("@@"):
            found.append(DiffLine("@", line.strip("@ ")))
        elif line[:1] in {"+", "-"}:
            found.append(DiffLine("+" if line[0] == "+" else "-", line[1:]))
        else:
            found.append(DiffLine(" ", line[1:]))
    if path is not None:
        yield _change(path, found)


CUT: Final = 20_000  # characters of one text in a window
_HEAD_LINES: Final = 8
_HEAD_CHARACTERS: Final = 1_200
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
_WORD: Final = re.compile(r"[a-z][a-z-]{0,30}")
_ASKED: Final = ("prompt", "message", "description", "task", "instructions")
_ALIKE: Final = 60  # characters by which a subagent's task is recognised


class TextPreview(msgspec.Struct, frozen=True):
    """A text as it is: its beginning, what is folded away, and how much is not here at all."""

    head: str
    rest: str = ""
    lines: int = 0
    missing: int = 0  # characters


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
    def missing(self) -> int:
        """How many characters are not here; they come when they are asked for."""
        return self.piece.missing + sum(one.piece.missing for one in self.arguments)


def filters() -> dict[str, Callable[..., Any]]:
    """Give the filters of the templates."""
    return {"views": views, "view": view, "written": written, "bars": bars, "agent": agent_class}


def views(
    messages: Sequence[TranscriptMessage],
    children: Sequence[SessionSummary] = (),
    *,
    whole: bool = False,
) -> list[MessageView]:
    """Give messages as they are shown; with `whole` nothing is cut."""
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
                result=None if result is None else view(result, whole=whole),
                subagent=subagent_of(message, children) if children else None,
            )
        )
    return shown


def view(message: TranscriptMessage, *, whole: bool = False) -> MessageView:
    """Give one message as it is shown."""
    group, label = _GROUPS.get(message.part, ("notes", message.part))
    pictures, hidden = _pictures(message.images, whole=whole)
    piece = piece_of(message.text, whole=whole)
    found = MessageView(
        message, anchor(message.key), group, label, piece, pictures=pictures, hidden_pictures=hidden
    )
    if message.part == "tool_call":
        return _call(found, whole=whole)
    if message.part == "note":
        return msgspec.structs.replace(found, headline=_one_line(message.text))
    return found


def _finals(messages: Iterable[TranscriptMessage]) -> set[int]:
    """Find the last answer of each turn."""
    last = {one.turn: one.position for one in messages if one.part == "text"}
    return set(last.values())


# ------------------------------------------------------------------------------------ tool calls


def _call(found: MessageView, *, whole: bool) -> MessageView:
    message = found.message
    told = headline(message.input, message.text)
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
    return _one_line(command_of(told) if isinstance(told, list) else str(told or text))


def command_of(words: Sequence[Any]) -> str:
    """Write a command that is given as a list; of `bash -lc SCRIPT` only the script."""
    texts = [str(word) for word in words]
    if len(texts) >= 3 and texts[0] in _SHELLS and texts[1].startswith("-"):  # noqa: PLR2004
        return " ".join(texts[2:])
    return " ".join(texts)


def _one_line(text: str) -> str:
    flat = " ".join(text[: 4 * _HEADLINE].split())
    return flat if len(flat) <= _HEADLINE else f"{flat[: _HEADLINE - 1]}…"


def _arguments(message: TranscriptMessage, told: str, *, whole: bool) -> Iterable[Argument]:
    """Give the arguments of a call, but for what its headline says completely."""
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
        yield Argument(str(name), piece_of(text, whole=whole), inline)


def _is_command(name: object, value: object) -> bool:
    return isinstance(value, list) and name in {"command", "cmd"}


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
    """Give pictures as addresses that hold them; other types could run, and addresses load."""
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
    """Give the class that colours an agent; a name that is no word has none."""
    return agent if _WORD.fullmatch(agent) else ""
