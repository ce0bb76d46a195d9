"""What the command prints: data on stdout, all else on stderr, nothing that could harm a terminal.

Stored text reaches a terminal only through `write`, `table` and `document`: the first two pass it
through `printable` and never read it as markup, the last one escapes it as JSON.
"""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from contextlib import contextmanager
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import click

from threadkeep.base.text import pattern, printable
from threadkeep.cli.signals import left_to_others

if TYPE_CHECKING:
    from rich.console import Console


# ------------------------------------------------------------------------------
# Long lines broken at blanks, also while they are still being written.

# A word with the blanks before it, or a line end.
_WORDS: Final = pattern(r"\n|[^\S\n]*[^\s]+|[^\S\n]+")


class StyledText(NamedTuple):
    """Text with a style, such as "bold" or "dim red"."""

    text: str
    style: str = ""


def write_snippet(snippet: str) -> None:
    """Print a snippet with its marked words on a line of its own."""
    write_pieces([StyledText("  "), *marked(one_line(snippet)), StyledText("\n")])


def marked(snippet: str) -> list[StyledText]:
    """Show what was found in a snippet, between >>> and <<<, in another colour."""
    pieces = []
    for place, half in enumerate(snippet.split(">>>")):
        found, mark, rest = half.partition("<<<")
        pieces += (
            [StyledText(found, "bold yellow"), StyledText(rest)]
            if place and mark
            else [StyledText(half)]
        )
    return pieces


class Wrap:
    """Takes pieces of text, gives them back with lines no longer than `width` where blanks allow.

    A line that continues begins under the first word of the line before. What could still grow,
    the last word, is held back until a blank or a line end follows.
    """

    def __init__(self, width: int) -> None:
        """Begin at the start of a line."""
        self._width = width
        self._column = 0
        self._indent: int | None = None  # unknown before the first word of the line
        self._held: list[StyledText] = []

    def take(self, piece: StyledText) -> list[StyledText]:
        """Return what can be shown now."""
        ready: list[StyledText] = []
        for text in _WORDS.findall(piece.text):
            if text[0].isspace():
                ready += self._release()
            if text == "\n":
                self._column, self._indent = 0, None
                ready.append(StyledText(text, piece.style))
            else:
                self._held.append(StyledText(text, piece.style))
        return ready

    def rest(self) -> list[StyledText]:
        """Return what was held back: nothing more comes."""
        return self._release()

    def _release(self) -> list[StyledText]:
        """Place the word that is now known to be whole, with the blanks before it."""
        word, self._held = self._held, []
        text = "".join(piece.text for piece in word)
        bare = text.lstrip()
        lead = len(text) - len(bare)
        if self._indent is None and bare:
            self._indent = self._column + lead
        size = _cells(text)
        fits = self._column + size <= self._width
        indent = self._indent or 0
        if fits or not bare or self._column <= indent or indent * 2 > self._width:
            self._column += size
            return word
        self._column = indent + _cells(bare)
        return [StyledText("\n" + " " * indent, word[0].style), *_without_lead(word)]


def _without_lead(word: list[StyledText]) -> Iterator[StyledText]:
    """Leave out the blanks that the line break stands for."""
    leading = True
    for piece in word:
        text = piece.text.lstrip() if leading else piece.text
        leading = leading and not text
        if text:
            yield StyledText(text, piece.style)


def _cells(text: str) -> int:
    from rich.cells import cell_len  # only a terminal needs it

    return cell_len(text)


SCHEMA_VERSION: Final = 1

# Legal inside JSON strings, but not in a terminal: controls beyond ASCII, and what hides or
# reorders text. Written as \uXXXX the value stays the same.
_RISKY: Final = pattern("[\x7f-\x9f\u2028-\u202e\u2066-\u2069\U000e0000-\U000e007f]")
_BLANKS: Final = pattern(r"\s+")
# Line ends that only some programs know: a terminal shows nothing, a pager may begin a line.
_SEPARATORS: Final = pattern("[\u2028\u2029]")
_NUMBER: Final = pattern(r"[$×]?[\d,]+(?:\.\d+)?(?:[+%]| [kMGT]?B| %)?|\?")
_UNITS: Final = ("B", "kB", "MB", "GB", "TB")
_THOUSAND: Final = 1000
_GAP: Final = 2  # between two columns of a table
_ROOM: Final = 24  # what the wide column of a table has at least
_LEAST: Final = 6  # and any other text, if there is not enough for all


def is_terminal(*, err: bool = False) -> bool:
    """Tell whether a person looks at the output (FORCE_COLOR says so, too)."""
    stream = sys.stderr if err else sys.stdout
    return stream.isatty() or bool(os.environ.get("FORCE_COLOR"))


@cache
def _console(*, err: bool) -> "Console":
    from rich.console import Console  # only a terminal needs it

    return Console(stderr=err, highlight=False, markup=False, emoji=False)


def terminal_width() -> int:
    """Return the number of characters in a line of the terminal."""
    return _console(err=False).width


def write(text: str = "", style: str = "", *, end: str = "\n", err: bool = False) -> None:
    """Print text, coloured where a terminal can show it and NO_COLOR does not forbid it."""
    shown = _harmless(text)
    if not is_terminal(err=err):
        click.echo(shown + end, nl=False, err=err)
        return
    from rich.text import Text

    _console(err=err).print(Text(shown, style=style), end=end, soft_wrap=True)


def write_pieces(pieces: Iterable[StyledText]) -> None:
    """Print pieces one after another; they bring their own line ends."""
    with wrapped() as show:
        show(pieces)


def paged(pieces: Iterable[StyledText], *, wanted: bool = True) -> None:
    """Print pieces; on a terminal in the user's pager, which asks for more as it is read."""
    if wanted and _has_pager():
        _to_pager(_painted(pieces))
    else:
        write_pieces(pieces)


@contextmanager
def paging(*, wanted: bool = True) -> Iterator[None]:
    """Show what is written in the block in the user's pager, where a terminal has one."""
    if not (wanted and _has_pager()):
        yield
        return
    with _console(err=False).capture() as held:
        yield
    if shown := held.get():
        _to_pager([shown])


@contextmanager
def redrawn() -> Iterator[Callable[[Callable[[], None]], None]]:
    """Return a function that shows what a drawing writes in place of the drawing before."""
    console = _console(err=False)
    last: list[str] = []

    def again(draw: Callable[[], None]) -> None:
        with console.capture() as held:
            draw()
        last[:] = [held.get()]
        lines = last[0].splitlines()[: console.height - 1]
        console.file.write("\x1b[H\x1b[J" + "\n".join(lines))
        console.file.flush()

    try:
        with console.screen(hide_cursor=True):
            yield again
    finally:
        console.file.write("".join(last))


def _has_pager() -> bool:
    return sys.stdout.isatty() and sys.stdin.isatty()


def _to_pager(texts: Iterable[str]) -> None:
    """Hand text to PAGER; `less` ends at once with what fits the screen, unless LESS says else."""
    os.environ.setdefault("LESS", "FRX")
    with left_to_others():
        click.echo_via_pager(texts)


def _painted(pieces: Iterable[StyledText]) -> Iterator[str]:
    from rich.color import ColorSystem
    from rich.style import Style

    colours = None if os.environ.get("NO_COLOR") else ColorSystem.STANDARD
    lines = Wrap(terminal_width())
    for piece in pieces:
        for part in lines.take(_clean(piece)):
            yield Style.parse(part.style).render(part.text, color_system=colours)
    for part in lines.rest():
        yield Style.parse(part.style).render(part.text, color_system=colours)


@contextmanager
def wrapped() -> Iterator[Callable[[Iterable[StyledText]], None]]:
    """Return a function that prints pieces; on a terminal long lines are broken at blanks.

    There the last word waits for its end, which may be in a later piece.
    """
    lines = Wrap(terminal_width()) if is_terminal() else None

    def show(pieces: Iterable[StyledText]) -> None:
        for piece in pieces:
            _write_all([piece] if lines is None else lines.take(_clean(piece)))

    try:
        yield show
    finally:
        if lines is not None:
            _write_all(lines.rest())


def _write_all(pieces: Iterable[StyledText]) -> None:
    for style, same in groupby(pieces, key=lambda piece: piece.style):
        write("".join(piece.text for piece in same), style, end="")


def _clean(piece: StyledText) -> StyledText:
    return StyledText(_harmless(piece.text), piece.style)


def _harmless(text: str) -> str:
    return _SEPARATORS.sub(_escaped, printable(text))


def note(text: str) -> None:
    """Say something that is not data, unless --quiet asks for data alone."""
    ctx = click.get_current_context(silent=True)
    if ctx is None or not ctx.find_root().params.get("quiet"):
        write(text, "dim", err=True)


def warn(text: str) -> None:
    """Say that something is not as it should be, but continues."""
    write(f"warning: {text}", "yellow", err=True)


def fail(message: str, hint: str = "") -> None:
    """Say what went wrong, and what to do next."""
    write(f"error: {message}", "bold red", err=True)
    if hint:
        write(f"hint: {hint}", err=True)


# ---------------------------------------------------------------------- JSON


def json_text(value: Any) -> str:
    """Write any value, records included, as JSON that is safe to look at."""
    import msgspec  # a help page needs none

    from threadkeep.base import json

    plain = msgspec.to_builtins(value, enc_hook=str)
    return safe_json(json.encode(plain))


def safe_json(text: str) -> str:
    """Escape what a terminal should not see; the JSON value stays the same."""
    return _RISKY.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def document(**content: Any) -> None:
    """Print one JSON document."""
    click.echo(json_text({"schema_version": SCHEMA_VERSION, **content}))


def json_line(value: Any) -> None:
    """Print one line of a JSON stream."""
    click.echo(json_text(value))


def teller(*, as_json: bool) -> Callable[[str], None]:
    """Return what tells of something that continues for long: lines for people, or of JSON."""
    return (lambda text: json_line({"told": text})) if as_json else note


# ---------------------------------------------------------------------- tables


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    wide: str = "",
    spare: Sequence[str] = (),
) -> None:
    """Print rows: aligned under their titles on a terminal, else separated by tabs.

    On a terminal the column `wide` takes the room that is left and is cut at its end; where it
    would be left with too little, columns of `spare` are not shown, the first ones first.
    """
    shown = [[one_line(cell) for cell in row] for row in rows]
    if not is_terminal():
        for cells in shown:
            click.echo("\t".join(cells))
        return
    from rich.cells import cell_len

    widths = {
        name: max(map(cell_len, (name, *(cells[at] for cells in shown))))
        for at, name in enumerate(columns)
    }
    room = terminal_width()
    kept = {name: widths[name] for name in fitting(widths, wide, spare, room)}
    numbers = {
        name for at, name in enumerate(columns) if _are_numbers(cells[at] for cells in shown)
    }
    given = shared(room, kept, wide, numbers)
    _print_grid(
        given,
        numbers,
        [
            [cell for name, cell in zip(columns, cells, strict=True) if name in kept]
            for cells in shown
        ],
    )


def _print_grid(
    widths: Mapping[str, int], numbers: AbstractSet[str], rows: Iterable[Sequence[str]]
) -> None:
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, header_style="bold")
    for name, width in widths.items():
        side: Literal["left", "right"] = "right" if name in numbers else "left"
        grid.add_column(name, no_wrap=True, overflow="ellipsis", justify=side, width=width)
    for cells in rows:
        grid.add_row(*map(Text, cells))
    _console(err=False).print(grid)


def shared(
    room: int, widths: Mapping[str, int], wide: str, numbers: AbstractSet[str]
) -> dict[str, int]:
    """Give each column its width: what is too much is cut from texts, the wide one first.

    Numbers are cut last of all: half a number would be a lie.
    """
    given = dict(widths)
    over = sum(given.values()) + _GAP * (len(given) - 1) - room
    texts = sorted((name for name in given if name not in numbers), key=lambda name: -given[name])
    order = [(wide, _ROOM), *((name, _LEAST) for name in texts), *((name, 1) for name in given)]
    for name, least in ((name, least) for name, least in order if name in given):
        cut = max(0, min(over, given[name] - least))
        given[name] -= cut
        over -= cut
    return given


def fitting(widths: Mapping[str, int], wide: str, spare: Sequence[str], room: int) -> list[str]:
    """Name the columns to show in `room` characters, so that the wide one can be read."""
    kept = list(widths)
    for name in (column for column in spare if column in widths):
        if _taken(widths, kept, wide) <= room:
            break
        kept.remove(name)
    return kept


def _taken(widths: Mapping[str, int], kept: Sequence[str], wide: str) -> int:
    """Return the characters that columns need at least, with what is between them."""
    needed = (min(_ROOM, widths[name]) if name == wide else widths[name] for name in kept)
    return sum(needed) + _GAP * (len(kept) - 1)


def _are_numbers(cells: Iterable[str]) -> bool:
    filled = [cell for cell in cells if cell]
    return bool(filled) and all(map(_NUMBER.fullmatch, filled))


def facts(pairs: Mapping[str, str]) -> None:
    """Print names and values, one pair to a line."""
    width = max((len(name) for name in pairs), default=0)
    for name, value in pairs.items():
        if is_terminal():
            write(f"{name:<{width}}  ", "bold", end="")
            write(one_line(value))
        else:
            write(f"{one_line(name)}\t{one_line(value)}")


def one_line(text: str, limit: int = 0) -> str:
    """Put text on one line, harmless, cut at `limit` characters (0: whole)."""
    flat = _BLANKS.sub(" ", printable(text)).strip()
    return flat if not limit or len(flat) <= limit else flat[: limit - 1] + "…"


def counted(count: int, thing: str) -> str:
    """Write a number of things: 1 message, 2 messages."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def size_text(size: float) -> str:
    """Write a number of bytes for people: 1.5 MB."""
    power = 0
    while abs(size) >= _THOUSAND and power < len(_UNITS) - 1:
        size, power = size / _THOUSAND, power + 1
    return f"{size:.1f} {_UNITS[power]}" if power else f"{size:.0f} B"


# ---------------------------------------------------------------------- progress


@contextmanager
def progress(label: str) -> Iterator[Callable[[int, int], None] | None]:
    """Show a bar on stderr while something long runs; nothing where nobody looks.

    Gives a function to call with (done, total); a total of 0 means that it is not known.
    """
    if not is_terminal(err=True):
        yield None
        return
    from rich.progress import Progress

    with Progress(console=_console(err=True), transient=True) as bar:
        task = bar.add_task(label, total=None)

        def advance(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total or None)

        yield advance
