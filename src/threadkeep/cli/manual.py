"""`threadkeep man`: manual pages, written from the commands themselves."""

import inspect
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from threadkeep import __version__
from threadkeep.cli.command import Call, Commands, command, summary
from threadkeep.cli.options import folder_option
from threadkeep.cli.output import counted, document, note
from threadkeep.cli.signals import left_to_others
from threadkeep.errors import NotFound

# ------------------------------------------------------------------------------
# The little of roff that manual pages need: pure text, every line harmless.


def escaped(text: str) -> str:
    """Write text so that roff shows it as it is: no escape, no request, no typographic dash."""
    plain = (
        text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga").replace("'", "\\(aq")
    )
    ascii_only = "".join(one if one.isascii() else f"\\[u{ord(one):04X}]" for one in plain)
    lines = ascii_only.replace("\r", "").split("\n")
    return "\n".join(f"\\&{line}" if line.startswith(".") else line for line in lines)


def title(name: str, section: str, source: str) -> str:
    """Begin a page; without a date, so that the same commands give the same page."""
    return f'.TH "{_quoted(name.upper())}" "{section}" "" "{_quoted(source)}" "threadkeep manual"\n'


def heading(text: str) -> str:
    """Begin a section."""
    return f'.SH "{_quoted(text.upper())}"\n'


def subheading(text: str) -> str:
    """Begin a part of a section."""
    return f'.SS "{_quoted(text)}"\n'


def paragraph(text: str) -> str:
    """Write a paragraph; its lines are joined, and blanks in them are single."""
    return f".PP\n{escaped(' '.join(text.split()))}\n"


def literal(text: str) -> str:
    """Write a line of text."""
    return f"{escaped(_flat(text))}\n"


def bold(text: str) -> str:
    """Write a line of bold text."""
    return f".B {escaped(_flat(text))}\n"


def definition(term: str, text: str) -> str:
    """Write a term, and what it means below it."""
    return "".join(_definition(term, text))


def _definition(term: str, text: str) -> Iterator[str]:
    yield ".TP\n"
    # A list of choices may be longer than a line, which ends behind one of them then.
    words = escaped(_flat(term)).replace("|", "|\\:")
    yield f"\\fB{words}\\fR\n"
    yield f"{escaped(_flat(text))}\n"


def _flat(text: str) -> str:
    return " ".join(text.split())


def _quoted(text: str) -> str:
    return escaped(_flat(text)).replace('"', "\\(dq")


Path_ = tuple[str, ...]

_SECTION: Final = "1"
_EXITS: Final = {
    "0": "All is well.",
    "1": "Something failed, or problems were found (doctor, alarms, verify).",
    "2": "Invalid command line or arguments.",
    "3": "Not found.",
    "4": "Busy or locked by another process.",
    "5": "The file has a schema version that this program cannot write.",
    "130": "Interrupted.",
}
_ENVIRONMENT: Final = {
    "THREADKEEP_HOME": "The folder that holds everything; --home overrides it.",
    "THREADKEEP_CONFIG": "The configuration file.",
    "THREADKEEP_LOG": "The log level on stderr: debug, info, warning or error.",
    "PAGER, LESS": "The pager for long output on a terminal, and its options.",
    "NO_COLOR, FORCE_COLOR": "Turn colours off; or keep them without a terminal.",
    "COLUMNS": "The maximum width of tables.",
}


@command(
    "man",
    "threadkeep man chat ls",
    "threadkeep man --install ~/.local/share/man",
    "threadkeep man > threadkeep.1",
)
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
@folder_option("--install", "Write all pages below this folder, where man looks for them.")
def man(call: Call, *, words: Path_, install: str | None) -> None:
    """Show the manual page of a COMMAND, or write all pages.

    On a terminal `man` shows it; otherwise roff is printed.
    """
    root = click.get_current_context().find_root()
    if install is not None:
        written = write_pages(root, Path(install).expanduser() / f"man{_SECTION}")
        if call.as_json:
            document(files=written)
        else:
            note(f"wrote {counted(len(written), 'page')} to {written[0].parent}")
        return
    text = page(*find(root, words), words)
    if call.as_json:
        document(command=" ".join(("threadkeep", *words)), roff=text)
    elif sys.stdout.isatty() and (viewer := shutil.which("man")):
        with left_to_others():
            subprocess.run([viewer, "-l", "-"], input=text.encode(), check=False)  # noqa: S603
    else:
        click.echo(text, nl=False)


def write_pages(root: click.Context, folder: Path) -> list[Path]:
    """Write the page of every command that is shown, and give their files."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for path, (found, ctx) in sorted(all_commands(root).items()):
        file = folder / f"{'-'.join(('threadkeep', *path))}.{_SECTION}"
        file.write_text(page(found, ctx, path), "utf-8")
        written.append(file)
    return written


def all_commands(root: click.Context) -> dict[Path_, tuple[click.Command, click.Context]]:
    """Return every command that is shown, by the words that name it."""
    return dict(_walk(root.command, root, ()))


def _walk(
    command_: click.Command, ctx: click.Context, path: Path_
) -> Iterator[tuple[Path_, tuple[click.Command, click.Context]]]:
    yield path, (command_, ctx)
    if isinstance(command_, click.Group):
        for name in command_.list_commands(ctx):
            found = command_.get_command(ctx, name)
            if found is not None and not found.hidden:
                inner = click.Context(found, info_name=name, parent=ctx)
                yield from _walk(found, inner, (*path, name))


def find(root: click.Context, words: Path_) -> tuple[click.Command, click.Context]:
    """Return the command that some words name."""
    found, ctx = root.command, root
    for name in words:
        inner = found.get_command(ctx, name) if isinstance(found, click.Group) else None
        if inner is None:
            msg = f"there is no command {' '.join(words)!r}"
            raise NotFound(msg, hint="`threadkeep --help` lists the commands")
        found, ctx = inner, click.Context(inner, info_name=name, parent=ctx)
    return found, ctx


# ---------------------------------------------------------------------- a page


def page(found: click.Command, ctx: click.Context, path: Path_) -> str:
    """Write the manual page of one command."""
    return "".join(_lines(found, ctx, path))


def _lines(found: click.Command, ctx: click.Context, path: Path_) -> Iterator[str]:
    name = "-".join(("threadkeep", *path))
    yield title(name, _SECTION, f"threadkeep {__version__}")
    yield heading("Name")
    yield literal(f"{name} - {summary(found)}")
    yield heading("Synopsis")
    yield bold(" ".join(("threadkeep", *path)))
    yield literal(" ".join(found.collect_usage_pieces(ctx)))
    yield heading("Description")
    for text in inspect.cleandoc(found.help or "").split("\n\n"):
        yield paragraph(text)
    yield from _options(found, ctx)
    yield from _commands(found, ctx)
    yield from _examples(found)
    if not path:
        yield from _definitions("Exit status", _EXITS)
        yield from _definitions("Environment", _ENVIRONMENT)
    yield from _related(path)


def _options(found: click.Command, ctx: click.Context) -> Iterator[str]:
    options_ = (one for one in found.get_params(ctx) if isinstance(one, click.Option))
    records = (one.get_help_record(ctx) for one in options_)
    options = {record[0]: record[1] for record in records if record is not None}
    yield from _definitions("Options", options)


def _commands(found: click.Command, ctx: click.Context) -> Iterator[str]:
    if not isinstance(found, Commands):
        return
    yield heading("Commands")
    for part, rows in found.rows(ctx).items():
        yield subheading(part)
        for name, told in rows:
            yield definition(name, told)


def _examples(found: click.Command) -> Iterator[str]:
    lines = [line.strip() for line in (found.epilog or "").splitlines() if line.startswith("  ")]
    if lines:
        yield heading("Examples")
    for line in lines:
        yield paragraph(line)


def _definitions(name: str, rows: dict[str, str]) -> Iterator[str]:
    if rows:
        yield heading(name)
    for term, told in rows.items():
        yield definition(term, told)


def _related(path: Path_) -> Iterator[str]:
    if path:
        yield heading("See also")
        yield bold(f"{'-'.join(('threadkeep', *path[:-1]))}({_SECTION})")
