"""How a function becomes a command: its options, its example, its errors and exit codes."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import click

from threadkeep.cli.complete import complete_session
from threadkeep.cli.groups import Commands
from threadkeep.cli.options import db_option
from threadkeep.cli.output import document, fail, json_line, note
from threadkeep.errors import Invalid, ReadOnly, ThreadkeepError

if TYPE_CHECKING:
    from threadkeep import ChatStore
    from threadkeep.home.home import Home

INTERRUPTED = 130
PROBLEMS = 1
NOT_FOUND = 3
SECONDS = click.FloatRange(min=0.01)

# What the library calls it, and what one types here.
_TYPED = {
    "import with replace": "import with --replace",
    "unrewind shows": "`rewind --undo` shows",
    "open the store with a larger part_limit": "set a larger part_limit in the configuration",
    "pass the next_cursor of the page before": "give the --cursor that the page before ended with",
    "ask for the next page with its cursor": "ask for the next page with --cursor",
    "`force` sends it in any case": "--force sends it in any case",
    "`dead_letters` lists": "`threadkeep mail retry SESSION --list` lists",
}

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

        return click.command(name, epilog=example_text(*examples))(run)

    return decorate


def _shaping(*, lists: bool, pages: bool) -> Callable[[Function], Function]:
    """Add the options that say how to answer."""
    help_ = "Answer in one JSON document." if lists else "Answer in JSON."
    options = [click.option("--json", "as_json", is_flag=True, help=help_)]
    if lists:
        told = "Answer in JSON, an object to a line."
        options.append(click.option("--jsonl", "as_lines", is_flag=True, help=told))
    if pages:
        options.append(click.option("--no-pager", is_flag=True, help="Print all at once."))

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


def group(name: str, *examples: str) -> Callable[[Callable[[], None]], Commands]:
    """Make a function the group that its docstring tells of; alone it shows its help page."""

    def decorate(function: Callable[[], None]) -> Commands:
        @click.pass_context
        @wraps(function)
        def run(ctx: click.Context, /, **_: Any) -> None:
            if ctx.invoked_subcommand is None:
                click.echo(ctx.get_help())

        made = click.group(
            name, cls=Commands, invoke_without_command=True, epilog=example_text(*examples)
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
    """Give the home that the command line names."""
    from threadkeep.home.home import Home

    return Home(ctx.find_root().params.get("home"))


def db_of(ctx: click.Context) -> str | None:
    """Give the file that was named with `--db` on the group."""
    found = ctx.parent.params.get("db") if ctx.parent is not None else None
    return None if found is None else str(found)


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is taken away; without a terminal only `--yes` will do."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Invalid(f"this needs a yes: {question}", hint="add --yes, or --dry-run to look first")
    if not click.confirm(question, err=True):
        raise ThreadkeepError("not confirmed, nothing was changed")


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
    for told, typed in _TYPED.items():
        hint = hint.replace(told, typed)
    return hint


def leave_quietly(ctx: click.Context) -> NoReturn:
    """Nobody reads any more (`… | head`): that is no failure of ours."""
    close_stdout()
    ctx.exit(0)


def close_stdout() -> None:
    """Send what is still buffered nowhere: the interpreter flushes it once more at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
