"""What a tool call changes in files, as lines that were taken out and put in.

Programs name the same thing differently (`old_string`, `oldString`, `old_str`), so a change is
known by the shape of its arguments and not by the name of the tool.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from difflib import SequenceMatcher
from itertools import groupby, pairwise
from typing import Any, Final, Literal

import msgspec
from markupsafe import Markup

from threadkeep.web.code import Piece, language_of_path, lines_of, markup_of, parted

Sign = Literal["+", "-", " ", "@"]

PATHS: Final = ("file_path", "filePath", "path", "target_file", "notebook_path", "absolute_path")
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
_NEW_FILE: Final = "*** Add File: "
_HUNK: Final = re.compile(r"@@+ -(\d{1,7})(?:,\d+)? \+(\d{1,7})")
_WORD: Final = re.compile(r"\w+|\s+|.")
_LINES: Final = 600  # that are shown of one file
_COMPARED: Final = 1500  # lines a side: beyond it difflib takes seconds
_AROUND: Final = 3
_MARKED_LINE: Final = 400  # characters of a line whose words are compared
_MARKED_RUN: Final = 40  # lines in a row whose words are compared
_ALIKE: Final = 0.4  # lines that share less are two lines, not one that was changed


class DiffLine(msgspec.Struct, frozen=True):
    """One line of a change."""

    sign: Sign
    text: str
    old: int | None = None  # its number before the change, and after it
    new: int | None = None
    marks: tuple[tuple[int, int], ...] = ()  # the words that differ from the line it replaces

    @property
    def gutter(self) -> str:
        """The numbers and the sign that stand before the line."""
        old, new = ("" if one is None else str(one) for one in (self.old, self.new))
        return f"{old:>4} {new:>4} {self.sign.replace('-', '−')}"


class FileDiff(msgspec.Struct, frozen=True):
    """What happens to one file."""

    path: str
    lines: tuple[DiffLine, ...]
    added: int
    removed: int
    left_out: int = 0  # lines that are not shown
    placed: bool = False  # the numbers are those of the file; else they count from the edit's start


def changes_of(tool: str, given: Any) -> list[FileDiff]:
    """Return the changes of a tool call; none if it changes no file."""
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
        lines = [DiffLine("-", text, at) for at, text in enumerate(before, 1)]
        lines += [DiffLine("+", text, None, at) for at, text in enumerate(after, 1)]
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
                for at in range(low, high):
                    yield DiffLine(" ", before[at], at + 1, new_low + at - low + 1)
                continue
            yield from (DiffLine("-", before[at], at + 1) for at in range(low, high))
            yield from (DiffLine("+", after[at], None, at + 1) for at in range(new_low, new_high))


def _change(path: str, lines: list[DiffLine], *, placed: bool = False) -> FileDiff:
    added = sum(line.sign == "+" for line in lines)
    removed = sum(line.sign == "-" for line in lines)
    left_out = max(0, len(lines) - _LINES)
    return FileDiff(path, tuple(with_marks(lines[:_LINES])), added, removed, left_out, placed)


# -------------------------------------------------------------------------- words that differ


def with_marks(lines: list[DiffLine]) -> list[DiffLine]:
    """Mark the words that differ where some lines stand in for as many others."""
    runs = [list(run) for _, run in groupby(lines, key=lambda line: line.sign)]
    for before, after in pairwise(runs):
        signs = before[0].sign, after[0].sign
        if signs == ("-", "+") and len(before) == len(after) <= _MARKED_RUN:
            pairs = zip(before, after, strict=True)
            before[:], after[:] = map(list, zip(*(_marked(*pair) for pair in pairs), strict=True))
    return [line for run in runs for line in run]


def _marked(before: DiffLine, after: DiffLine) -> tuple[DiffLine, DiffLine]:
    if max(len(before.text), len(after.text)) > _MARKED_LINE:
        return before, after
    old, new = _WORD.findall(before.text), _WORD.findall(after.text)
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    if matcher.ratio() < _ALIKE:
        return before, after
    differing = [code for code in matcher.get_opcodes() if code[0] != "equal"]
    return (
        msgspec.structs.replace(before, marks=_ranges(old, [code[1:3] for code in differing])),
        msgspec.structs.replace(after, marks=_ranges(new, [code[3:5] for code in differing])),
    )


def _ranges(words: list[str], spans: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return stretches of words as stretches of characters."""
    starts = [0]
    for word in words:
        starts.append(starts[-1] + len(word))
    return tuple((starts[low], starts[high]) for low, high in spans if low < high)


# ---------------------------------------------------------------------------------- as markup


def colored(change: FileDiff) -> list[tuple[DiffLine, Markup]]:
    """Return the lines of a change with their code in the colors of its language, words marked."""
    language = language_of_path(change.path.removesuffix(" (new)").removesuffix(" (deleted)"))
    sides = {
        sign: iter(
            lines_of("\n".join(one.text for one in change.lines if one.sign in kept), language)
        )
        for sign, kept in (("-", " -"), ("+", " +"))
    }
    found = []
    for line in change.lines:
        before = next(sides["-"]) if line.sign in " -" else []
        after = next(sides["+"]) if line.sign in " +" else []
        tokens = [Piece(line.text)] if line.sign == "@" else after or before
        found.append((line, _with_words(tokens, line.marks)))
    return found


def _with_words(tokens: list[Piece], marks: tuple[tuple[int, int], ...]) -> Markup:
    shown, seen = Markup(""), 0
    for begin, end in marks:
        plain, tokens = parted(tokens, begin - seen)
        words, tokens = parted(tokens, end - begin)
        shown += markup_of(plain) + Markup("<b>{}</b>").format(markup_of(words))
        seen = end
    return shown + markup_of(tokens)


# ------------------------------------------------------------------- arguments with texts in them


def _edited(tool: str, given: Mapping[str, Any]) -> Iterator[FileDiff]:
    path = _text(given, PATHS)
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
            yield msgspec.structs.replace(compare(path, "", whole), placed=True)


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


def _files(lines: list[str], name_of: Callable[[str], str | None]) -> Iterator[FileDiff]:
    path: str | None = None
    found: list[DiffLine] = []
    placed = False
    old = new = 1
    for line in lines:
        named = name_of(line)
        if named is not None:
            if path is not None:
                yield _change(path, found, placed=placed)
            path, found, old, new = named, [], 1, 1
            placed = line.startswith(_NEW_FILE)
        elif line.startswith(("*** ", "--- ", "diff --git ", "index ")):
            continue
        elif line.startswith("@@"):
            found.append(DiffLine("@", line.strip("@ ")))
            if (numbers := _HUNK.match(line)) is not None:
                old, new, placed = int(numbers[1]), int(numbers[2]), True
        else:
            sign: Sign = "+" if line[:1] == "+" else "-" if line[:1] == "-" else " "
            numbers_here = (None if sign == "+" else old, None if sign == "-" else new)
            found.append(DiffLine(sign, line[1:], *numbers_here))
            old, new = old + (sign != "+"), new + (sign != "-")
    if path is not None:
        yield _change(path, found, placed=placed)
