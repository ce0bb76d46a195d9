"""Code as markup: the tokens of Pygments as spans with a class, within limits of size and time.

A page allows no style of its own, so a token has one of a dozen classes that the stylesheet colors.
Only the languages listed here are read: text that an agent wrote chooses the lexer.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple

from markupsafe import Markup, escape
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Generic, Keyword, Name, Number, String

from threadkeep.knowledge.library import AnswerCache

MOST: Final = 8_000  # characters that are colored; Pygments reads about 0.5 MB a second
_SECONDS: Final = 0.15  # for one text, whatever is in it
_KEPT_CHARACTERS: Final = 4_000_000

# What Pygments calls a language -> how files end and code fences begin that are written in it.
LANGUAGES: Final = {
    "python": "py pyi py3 python3",
    "javascript": "js mjs cjs jsx node",
    "typescript": "ts tsx mts cts",
    "bash": "sh zsh shell ksh shellscript",
    "console": "shell-session terminal",
    "json": "jsonl ndjson json5 jsonc ipynb webmanifest",
    "diff": "patch udiff",
    "rust": "rs",
    "go": "golang",
    "java": "",
    "kotlin": "kt kts",
    "swift": "",
    "scala": "sc",
    "c": "h",
    "cpp": "c++ cc cxx hpp hh",
    "csharp": "cs c#",
    "ruby": "rb rake gemspec",
    "php": "",
    "html": "htm vue svelte jinja jinja2 j2",
    "xml": "svg xsl plist",
    "css": "",
    "scss": "sass less",
    "yaml": "yml",
    "toml": "lock",
    "ini": "cfg conf properties env editorconfig",
    "sql": "sqlite postgresql psql",
    "markdown": "md mdx",
    "docker": "dockerfile containerfile",
    "make": "makefile mk",
    "lua": "",
    "elixir": "ex exs",
    "erlang": "erl",
    "haskell": "hs",
    "dart": "",
    "r": "",
    "perl": "pl pm",
    "powershell": "ps1 pwsh",
    "graphql": "gql",
    "protobuf": "proto",
    "nix": "",
    "terraform": "tf hcl",
    "zig": "",
    "pytb": "traceback",
}
_LANGUAGES: Final = {
    name: language for language, names in LANGUAGES.items() for name in (language, *names.split())
}
_READERS: Final = frozenset({"cat", "sed", "head", "tail", "nl", "bat", "less"})
_DIFF: Final = re.compile(r"(?:diff --git |--- \S+.*\n\+\+\+ \S|commit [0-9a-f]{7,40}\n)")
_JSON: Final = re.compile(r'\s*(?:\{\s*"|\[\s*[\[{"\d]|\{\s*\}|\[\s*\])')
# The number before a line, as `cat -n` and several agents write it.
_NUMBERED: Final = re.compile(r"[ \t]{0,8}\d{1,7}(?:→|\t|: |\| )")
# The class of a token is the class of the first of these that it belongs to.
_CLASSES: Final[tuple[tuple[Any, str], ...]] = (
    (Comment.Preproc, "hl-k"),
    (Comment, "hl-c"),
    (Keyword.Constant, "hl-n"),
    (Keyword, "hl-k"),
    (String, "hl-s"),
    (Number, "hl-n"),
    (Name.Function, "hl-f"),
    (Name.Class, "hl-f"),
    (Name.Decorator, "hl-f"),
    (Name.Builtin, "hl-b"),
    (Name.Tag, "hl-k"),
    (Name.Attribute, "hl-a"),
    (Name.Variable, "hl-a"),
    (Generic.Inserted, "hl-i"),
    (Generic.Deleted, "hl-d"),
    (Generic.Heading, "hl-f"),
    (Generic.Subheading, "hl-a"),
    (Generic.Prompt, "hl-c"),
)
CLASSES: Final = frozenset(css for _, css in _CLASSES)


class Piece(NamedTuple):
    """A stretch of code with one class; without one it is plain."""

    text: str
    css: str = ""


_COLORED: Final = AnswerCache(_KEPT_CHARACTERS, weigh=lambda pieces: sum(map(len, pieces)))


def filters() -> dict[str, Callable[..., Any]]:
    """Return the filters of the templates."""
    return {"code": code}


def code(text: str, language: str) -> Markup:
    """Show code in the colors of its language; without one it is text."""
    return markup_of(pieces(text, language))


def language_named(name: str) -> str:
    """Return the language that a code fence or the end of a file name stands for; empty: none."""
    return _LANGUAGES.get(name.strip().lower(), "")


def language_of_path(path: str) -> str:
    """Return the language of a file by its name."""
    name = PurePosixPath(path.replace("\\", "/")).name
    return language_named(name.rpartition(".")[2])


def language_of_command(command: str) -> str:
    """Return the language of what a command prints: that of the one file it shows, or a diff."""
    words = command[:500].split()
    if words[:2] in (["git", "diff"], ["git", "show"]):
        return "diff"
    if not words or words[0] not in _READERS or any(mark in command for mark in "|;&<>"):
        return ""
    return language_of_path(words[-1].strip("'\""))


def language_of_text(text: str) -> str:
    """Guess the language of a result whose origin does not tell: JSON, a diff, or none."""
    head = text[:400]
    if _DIFF.match(head):
        return "diff"
    if head.startswith("Traceback (most recent call last)"):
        return "pytb"
    return "json" if _JSON.match(head) else ""


def pieces(text: str, language: str) -> list[Piece]:
    """Split code into its tokens; together they are the text, unchanged."""
    if not language or not text:
        return [Piece(text)] if text else []
    found: list[Piece] = _COLORED.get((language, text), lambda: _split(text, language))
    return found


def markup_of(found: Iterable[Piece]) -> Markup:
    """Write tokens as spans."""
    return Markup("").join(
        Markup('<span class="{}">{}</span>').format(one.css, one.text)
        if one.css
        else escape(one.text)
        for one in found
    )


def parted(found: Iterable[Piece], at: int) -> tuple[list[Piece], list[Piece]]:
    """Part tokens at a character; one that begins before it and ends behind it is cut in two."""
    before, after, seen = list[Piece](), list[Piece](), 0
    for one in found:
        cut = at - seen
        seen += len(one.text)
        if cut > 0:
            before.append(one._replace(text=one.text[:cut]))
        if cut < len(one.text):
            after.append(one._replace(text=one.text[max(0, cut) :]))
    return before, after


def lines_of(text: str, language: str) -> list[list[Piece]]:
    """Return the tokens of code line by line, without the ends of lines."""
    return _by_line(pieces(text, language))


def _by_line(found: Iterable[Piece]) -> list[list[Piece]]:
    lines: list[list[Piece]] = [[]]
    for one in found:
        first, *others = one.text.split("\n")
        lines[-1].append(one._replace(text=first))
        lines.extend([one._replace(text=other)] for other in others)
    return lines


# --------------------------------------------------------------------------------------- tokens


def _split(text: str, language: str) -> list[Piece]:
    head, rest = text[:MOST], text[MOST:]
    lines = head.split("\n")
    numbers = [_NUMBERED.match(line) for line in lines]
    filled = sum(map(bool, lines))
    if filled > 1 and sum(map(bool, numbers)) * 5 >= filled * 4:
        found = _beside_numbers(lines, numbers, language)
    else:
        found = list(_tokens(head, language))
    return [*found, Piece(rest)] if rest else found


def _beside_numbers(
    lines: list[str], numbers: list["re.Match[str] | None"], language: str
) -> list[Piece]:
    """Color a numbered listing: the code is read without the numbers, which stay where they are."""
    starts = [0 if number is None else number.end() for number in numbers]
    bare = "\n".join(line[start:] for line, start in zip(lines, starts, strict=True))
    found: list[Piece] = []
    for line, start, here in zip(lines, starts, _by_line(_tokens(bare, language)), strict=True):
        found += (Piece(line[:start], "hl-c"), *here, Piece("\n"))
    return [one for one in found[:-1] if one.text]


def _tokens(text: str, language: str) -> Iterator[Piece]:
    """Yield tokens until the time is up; what is left then is plain."""
    until = time.monotonic() + _SECONDS
    css, kept, at = "", "", 0
    for start, kind, value in _lexer(language).get_tokens_unprocessed(text):
        if start != at or time.monotonic() > until:  # a lexer that skips something is not believed
            break
        at += len(value)
        named = _class_of(kind)
        if named == css or not value.strip():  # neighbors of one class are one span
            kept += value
            continue
        if kept:
            yield Piece(kept, css)
        css, kept = named, value
    if kept:
        yield Piece(kept, css)
    if at < len(text):
        yield Piece(text[at:])


@lru_cache(maxsize=64)
def _lexer(language: str) -> Lexer:
    found: Lexer = get_lexer_by_name(language)
    return found


@lru_cache(maxsize=512)
def _class_of(kind: Any) -> str:
    return next((css for one, css in _CLASSES if kind in one), "")
