"""What a tool call changes in files, as lines that were taken out and put in.

Programs name the same thing differently (`old_string`, `oldString`, `old_str`), so a change is
known by the shape of its arguments and not by the name of the tool.
"""

from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from typing import Any, Final, Literal

import msgspec

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
