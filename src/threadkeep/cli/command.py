"""How a function becomes a command: its options, its example, its errors and exit codes."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import click

from threadkeep.cli.options import complete_session, db_option
from threadkeep.cli.output import document, fail, json_line, note
from threadkeep.errors import Invalid, ReadOnly, ThreadkeepError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from threadkeep import ChatStore
    from threadkeep.base.verb_table import Verb
    from threadkeep.home.home import Home


# ------------------------------------------------------------------------------
# Groups of commands: listed in sections, and loaded one by one when they are asked for.

_WHOLE = 1000  # characters of a summary: all of it, broken into lines where it is long


class CommandEntry(NamedTuple):
    """Where a command is: a module below this package and a name in it; and what it does."""

    place: str  # module:name; a name that is a tuple holds several commands
    summary: str


Sections = Mapping[str, Mapping[str, CommandEntry]]  # the section without a title is not shown


class NotACommand(click.UsageError):
    """A word that is no command, although what it is about can be done in another way."""

    def __init__(self, word: str, hint: str, ctx: click.Context) -> None:
        super().__init__(f"No such command {word!r}.", ctx)
        self.hint = hint


class Commands(click.Group):
    """A group that loads a command's module when it is asked for, and cuts no summary.

    click asks for a class of its own here: it has no other place for either.
    """

    def __init__(
        self, *arguments: Any, sections: Sections | None = None, bare: str = "", **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        self.sections: Sections = sections or {}
        self._bare = bare

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words; without a command, those of the one that is meant."""
        own = {name for one in self.get_params(ctx) for name in (*one.opts, *one.secondary_opts)}
        if self._bare and (not args or (args[0][:1] == "-" and args[0] not in own)):
            args = [self._bare, *args]
        return super().parse_args(ctx, args)

    def entries(self) -> dict[str, CommandEntry]:
        """Return the commands that are loaded when they are asked for, hidden ones as well."""
        return {name: one for part in self.sections.values() for name, one in part.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands that are shown, in the order of the help page."""
        lazy = [name for title, part in self.sections.items() if title for name in part]
        return [*lazy, *super().list_commands(ctx)]

    def get_help_option_names(self, ctx: click.Context) -> list[str]:
        """Offer help as `-h`, too."""
        del ctx  # its names are those of whoever asks first, and click makes the option once
        return _help_names(self)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command, or give None where there is none of this name."""
        entry = self.entries().get(cmd_name)
        return super().get_command(ctx, cmd_name) if entry is None else load(cmd_name, entry)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is meant; for one that is not there, name those like it."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand:
            from threadkeep.cli.guesses import elsewhere, meant_by

            known = self.list_commands(ctx)
            words = meant_by(args, known)
            if words == ["--help"]:
                click.echo(ctx.get_help())
                ctx.exit()
            if words is not None:
                import shlex

                note(f"`{args[0]}` means `{ctx.command_path} {shlex.join(words)}`")
                return super().resolve_command(ctx, words)
            if ctx.parent is None and (place := elsewhere(args[0])):
                raise NotACommand(args[0], place, ctx) from None
            raise click.NoSuchCommand(args[0], possibilities=known, ctx=ctx) from None

    def rows(self, ctx: click.Context) -> dict[str, list[tuple[str, str]]]:
        """Return the names and summaries of what is shown, by section; none is loaded for that."""
        parts = {
            title: [(name, entry.summary) for name, entry in part.items()]
            for title, part in self.sections.items()
            if title
        }
        own = [(name, summary(one)) for name, one in self._own(ctx)]
        return parts | ({"Commands": own} if own else {})

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands below their sections, their summaries in one column."""
        parts = self.rows(ctx)
        width = max((len(name) for rows in parts.values() for name, _ in rows), default=0)
        for title, rows in parts.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), told) for name, told in rows])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """Offer the commands that begin as typed; none is loaded for that."""
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=told)
            for rows in self.rows(ctx).values()
            for name, told in rows
            if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def _own(self, ctx: click.Context) -> Iterator[tuple[str, click.Command]]:
        for name in super().list_commands(ctx):
            found = super().get_command(ctx, name)
            if found is not None and not found.hidden:
                yield name, found


def _help_names(command: click.Command) -> list[str]:
    taken = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
    return [name for name in ("-h", "--help") if name not in taken]


def load(name: str, entry: CommandEntry) -> click.Command:
    """Import the module of a command, and give the command."""
    module, _, attribute = entry.place.partition(":")
    found: Any = getattr(import_module(f"threadkeep.cli.{module}"), attribute)
    command: click.Command = (
        next(one for one in found if one.name == name) if isinstance(found, tuple) else found
    )
    command.short_help = entry.summary or None
    return command


def alias(command: click.Command, name: str) -> click.Command:
    """Return a command under another name as well, left out of the help page."""
    same = copy(command)
    same.name, same.hidden = name, True
    return same


def summary(command: click.Command) -> str:
    """Return the first sentence of a command's help, whole."""
    return command.get_short_help_str(_WHOLE).removesuffix(".")


INTERRUPTED = 130
PROBLEMS = 1
NOT_FOUND = 3
SECONDS = click.FloatRange(min=0.01)

# A command gives its exit code, or nothing when all is well.
Function = Callable[..., int | None]


class Call(NamedTuple):
    """What every command is given: the home, the file that was named, and how to answer."""

    home: "Home"
    db: str | None
    as_json: bool
    as_lines: bool = False  # one JSON object for each thing that is listed
    pager: bool = True

    def answer(self, listed: str, **content: Any) -> None:
        """Answer in JSON: one document, or with --jsonl only what is listed, line by line."""
        if not self.as_lines:
            document(**content)
            return
        for one in content[listed]:
            json_line(one)

    def reading(self) -> "ChatStore":
        """Open the chat store without changing it."""
        return self.home.chat(self.db, read_only=True)

    def writing(self) -> "ChatStore":
        """Open the chat store, and begin one if there is none."""
        return self.home.chat(self.db)

    def changing(self) -> "ChatStore":
        """Open a chat store that is there, to change it."""
        return self.home.chat(self.db, must_exist=True)

    def following(self) -> "ChatStore":
        """Open an existing store as a full member where that is possible.

        Searching brings the index up to date, and following asks writers to keep what it has
        not read yet: both write a little. A place that cannot be written is read as it is.
        """
        self.reading().close()  # looking at a file of another program must not change its tables
        try:
            return self.changing()
        except ReadOnly:
            return self.reading()


def typed(call: Call, *words: str) -> str:
    """Write a command as it is typed to ask the same store, with its `--home` and `--db`."""
    from threadkeep.base.engines import without_password

    home = click.get_current_context().find_root().params.get("home")
    before = ["threadkeep", *(["--home", str(without_password(home))] if home else [])]
    after = ["--db", str(without_password(call.db))] if call.db else []
    import shlex

    return shlex.join([*before, *words, *after])


def program(started: str) -> str:
    """Give the words that start this command from here: its name if that finds it, else a path."""
    import shlex
    import shutil  # (14 ms)
    from pathlib import Path

    name, found = Path(started).name, shutil.which("threadkeep")
    if name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m threadkeep"
    same = found is not None and Path(started).exists() and Path(found).samefile(started)
    return "threadkeep" if same or name != "threadkeep" else shlex.quote(started)


def command(
    name: str, *examples: str, lists: bool = False, pages: bool = False
) -> Callable[[Function], click.Command]:
    """Make a function a command with `--json`; it is given a Call, then its own options.

    One that `lists` things has `--jsonl` as well, and one that `pages` has `--no-pager`.
    """

    def decorate(function: Function) -> click.Command:
        @_shaping(lists=lists, pages=pages)
        @click.pass_context
        @wraps(function)
        def run(ctx: click.Context, /, *, as_json: bool, **options: Any) -> None:
            db = options.pop("db", None) or db_of(ctx)
            lines, plain = options.pop("as_lines", False), options.pop("no_pager", False)
            with exit_codes(ctx):
                call = Call(home_of(ctx), db, as_json or lines, lines, not plain)
                ctx.exit(function(call, **options) or 0)

        return click.command(name, _Worded, epilog=example_text(*examples))(run)

    return decorate


class _Worded(click.Command):
    """A command that understands options of the version before; click has no other place."""

    def get_help_option_names(self, ctx: click.Context) -> list[str]:
        """Offer help as `-h`, too."""
        del ctx  # its names are those of whoever asks first, and click makes the option once
        return _help_names(self)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the command line, old names of options as the new ones."""
        known = {
            name.removeprefix("--")
            for one in self.params
            for name in (*one.opts, *one.secondary_opts)
        }
        end = args.index("--") if "--" in args else len(args)
        if any(arg[2:].partition("=")[0] not in known for arg in args[:end] if arg[:2] == "--"):
            args = [*_today(args[:end], known), *args[end:]]
        return super().parse_args(ctx, args)


def _today(args: list[str], known: set[str]) -> Iterator[str]:
    from threadkeep.base.old_words import renamed

    rest = iter(args)
    for arg in rest:
        name, given, value = arg[2:].partition("=")
        if not arg.startswith("--") or name in known:
            yield arg
            continue
        value = value if given else next(rest, "")
        new, translated = renamed(name, value, known)
        yield from [arg, *([] if given else [value])] if new == name else (f"--{new}", translated)


def _shaping(*, lists: bool, pages: bool) -> Callable[[Function], Function]:
    """Add the options that say how to answer."""
    help_ = "Print one JSON document." if lists else "Print JSON."
    options = [click.option("--json", "as_json", is_flag=True, help=help_)]
    if lists:
        told = "Print JSON Lines, one object per item."
        options.append(click.option("--jsonl", "as_lines", is_flag=True, help=told))
    if pages:
        options.append(click.option("--no-pager", is_flag=True, help="Print without a pager."))

    def decorate(function: Function) -> Function:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def store_command(
    name: str, *examples: str, lists: bool = False, pages: bool = False
) -> Callable[[Function], click.Command]:
    """Make a function a command that works on a file of a store, which `--db` may name."""

    def decorate(function: Function) -> click.Command:
        option = db_option()
        return command(name, *examples, lists=lists, pages=pages)(option(function))

    return decorate


def group(name: str, *examples: str, bare: str = "") -> Callable[[Callable[[], None]], Commands]:
    """Make a function the group that its docstring tells of.

    Alone it runs the command `bare`; if it has none, it shows its help page.
    """

    def decorate(function: Callable[[], None]) -> Commands:
        @click.pass_context
        @wraps(function)
        def run(ctx: click.Context, /, **_: Any) -> None:
            if ctx.invoked_subcommand is None:
                click.echo(ctx.get_help())

        made = click.group(
            name,
            cls=Commands,
            bare=bare,
            invoke_without_command=True,
            epilog=example_text(*examples),
        )
        return made(run)

    return decorate


def example_text(*lines: str) -> str:
    """Put examples below the options of a help page."""
    return "\n".join(["\b", "Example:", *(f"  {line}" for line in lines)])


def session_argument(function: Function) -> Function:
    """Add the argument that names a session."""
    return click.argument("session", shell_complete=complete_session)(function)


def home_of(ctx: click.Context) -> "Home":
    """Return the home that the command line names."""
    from threadkeep.home.home import Home

    return Home(ctx.find_root().params.get("home"))


def db_of(ctx: click.Context) -> str | None:
    """Return the file that was named with `--db` on the group."""
    found = ctx.parent.params.get("db") if ctx.parent is not None else None
    return None if found is None else str(found)


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is taken away; without a terminal only `--yes` will do."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Invalid(
            f"confirmation required: {question}",
            hint="confirm with --yes, or use --dry-run to look first",
        )
    if not click.confirm(question, err=True):
        raise ThreadkeepError("cancelled; nothing was changed")


# ---------------------------------------------------------------------- exit codes


@contextmanager
def exit_codes(ctx: click.Context) -> Iterator[None]:
    """Turn what goes wrong into one line, a hint and an exit code."""
    try:
        yield
    except ThreadkeepError as error:
        fail(error.message, as_typed(error.hint))
        ctx.exit(error.exit_code)
    except BrokenPipeError:
        leave_quietly(ctx)
    except (KeyboardInterrupt, click.Abort):
        note("interrupted")
        ctx.exit(INTERRUPTED)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        fail(f"{error.filename or 'input or output'}: {error.strerror or error}")
        ctx.exit(NOT_FOUND if missing else PROBLEMS)


def as_typed(hint: str) -> str:
    """Say a hint of the library in the words of the command line."""
    if "(" not in hint:  # it names no verb: the table need not be loaded
        return hint
    from threadkeep.base.verb_table import said_by
    from threadkeep.verbs import each_verb

    return said_by(hint, each_verb(), _typed)


def _typed(verb: "Verb", argument: str, value: str) -> str:
    """Write a verb as one types it; what is true is a flag."""
    flag = f" --{argument.replace('_', '-')}" if argument else ""
    given = f" {value}" if value not in ("", "True") else ""
    return f"threadkeep {verb.command}{flag}{given}" if verb.command else ""


def leave_quietly(ctx: click.Context) -> NoReturn:
    """Nobody reads any more (`… | head`): that is no failure of ours."""
    close_stdout()
    ctx.exit(0)


def close_stdout() -> None:
    """Send what is still buffered nowhere: the interpreter flushes it once more at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
