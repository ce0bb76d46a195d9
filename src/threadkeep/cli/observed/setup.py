"""`threadkeep shell-init` and `import-history`: commands from now on, and those before."""

import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from threadkeep.cli.command import PROBLEMS, Call, command, group, store_command
from threadkeep.cli.options import OneOf
from threadkeep.cli.output import counted, document, note, progress, table, warn, write
from threadkeep.errors import Invalid, ThreadkeepError

if TYPE_CHECKING:
    from io import BufferedReader

    from threadkeep.capture.observed.observed import Observations
    from threadkeep.capture.observed.shell_history import HistoryFile, ImportedFile
    from threadkeep.capture.observed.shell_hooks import ShellInstallPlan


Json = dict[str, Any]

_COLUMNS = ("shell", "history", "commands", "new", "known", "excluded", "damaged")
_DONE = {"create": "created", "change": "changed", "keep": "as it was", "remove": "removed"}
_PLANNED = {"create": "create", "change": "change", "keep": "leave as it is", "remove": "remove"}


@command(
    "shell-init",
    "threadkeep shell-init zsh",
    "threadkeep shell-init bash --dry-run",
    "threadkeep shell-init fish --uninstall",
)
@click.argument("shell", type=OneOf(["zsh", "bash", "fish"]))
@click.option("--uninstall", is_flag=True, help="Remove it and restore the file exactly.")
@click.option("--print", "only_print", is_flag=True, help="Print the hook; change nothing.")
@click.option("--dry-run", is_flag=True, help="Show what would change; change nothing.")
def shell_init(call: Call, *, shell: str, uninstall: bool, only_print: bool, dry_run: bool) -> None:
    """Record every command of a SHELL from now on, with exit code, duration and folder.

    A hook appends them to the spool; no program runs at the prompt. A command typed with a leading
    space is never kept, and THREADKEEP_SHELL=off pauses recording.
    """
    from threadkeep.home.observed import hook_text, install_hook, uninstall_hook

    if only_print:
        if uninstall or dry_run:
            raise Invalid("--print changes nothing", hint="use --print alone")
        _print(call, shell, hook_text(call.home, shell))
        return
    change = uninstall_hook if uninstall else install_hook
    plan = change(call.home, shell, dry_run=dry_run)
    if call.as_json:
        document(shell=shell, dry_run=dry_run, uninstall=uninstall, files=_files(plan))
        return
    words = _PLANNED if dry_run else _DONE
    table(("what", "file"), [(words[step.action], str(step.path)) for step in plan.steps])
    _tell(plan, uninstall=uninstall, dry_run=dry_run)


def _print(call: Call, shell: str, text: str) -> None:
    if call.as_json:
        document(shell=shell, script=text)
    else:
        click.echo(text, nl=not text.endswith("\n"))


def _files(plan: "ShellInstallPlan") -> list[Json]:
    return [{"action": step.action, "path": step.path} for step in plan.steps]


def _tell(plan: "ShellInstallPlan", *, uninstall: bool, dry_run: bool) -> None:
    if not plan.changes:
        note("nothing to do: " + ("it is not installed" if uninstall else "already set up"))
    elif dry_run:
        note("nothing was changed")
    elif uninstall:
        note("shells running now keep their hook until they exit")
    else:
        note(f"open a new {plan.shell} to start; `threadkeep commands` shows what it does")


# ---------------------------------------------------------------------- histories


@store_command(
    "import-history",
    "threadkeep import-history",
    "threadkeep import-history --shell atuin --dry-run",
    "threadkeep import-history ./old_history --shell bash",
)
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option(
    "--shell",
    "kind",
    type=OneOf(["zsh", "bash", "fish", "atuin"]),
    help="Only this shell; or the shell that wrote PATH.",
)
@click.option("--dry-run", is_flag=True, help="Count the commands; store nothing.")
def import_history(call: Call, *, paths: tuple[str, ...], kind: Any, dry_run: bool) -> int:
    """Import the commands from shell histories, each once.

    Without PATH, all histories of this user are imported. The files are only read.
    """
    from threadkeep.home.observed import named_histories, user_histories

    files = named_histories(paths, kind) if paths else user_histories(call.home, kind)
    if not files:
        _tell_none(call, dry_run=dry_run)
        return 0
    with _opened(call, dry_run=dry_run) as observations:
        done, problems = _import(observations, files, dry_run=dry_run)
    if call.as_json:
        document(dry_run=dry_run, files=done, errors=problems)
    else:
        rows = [_row(one, dry_run=dry_run) for one in done]
        table(_COLUMNS, rows, wide="history", spare=("damaged", "excluded"))
        _sum_up(done, dry_run=dry_run)
    for problem in problems:
        warn(problem)
    return PROBLEMS if problems else 0


def _tell_none(call: Call, *, dry_run: bool) -> None:
    if call.as_json:
        document(dry_run=dry_run, files=[], errors=[])
    else:
        note("No shell history found; name a file to import it")


@contextmanager
def _opened(call: Call, *, dry_run: bool) -> Iterator["Observations"]:
    """Open where the commands go; a dry run counts without the store, which need not exist."""
    if not dry_run:
        with call.home.observations(call.db) as observations:
            yield observations
        return
    with (
        tempfile.TemporaryDirectory(prefix="threadkeep-") as folder,
        call.home.observations(Path(folder) / "knowledge.db") as observations,
    ):
        yield observations


def _import(
    observations: "Observations", files: Iterable["HistoryFile"], *, dry_run: bool
) -> tuple[list["ImportedFile"], list[str]]:
    done: list[ImportedFile] = []
    problems: list[str] = []
    with progress("importing") as advance:
        for file in files:
            before = sum(one.commands for one in done)
            try:
                came = observations.import_history(
                    [file], dry_run=dry_run, show=_shower(advance, before)
                )
            except ThreadkeepError as error:
                problems.append(error.message)
            else:
                done += came.files
    return done, problems


def _shower(
    advance: Callable[[int, int], None] | None, before: int
) -> Callable[["ImportedFile"], None]:
    def show(file: "ImportedFile") -> None:
        if advance is not None:
            advance(before + file.commands, 0)

    return show


def _row(file: "ImportedFile", *, dry_run: bool) -> tuple[str, ...]:
    stored = file.stored
    came = ("", "", "") if dry_run else (stored.new, stored.known + stored.updated, stored.excluded)
    counts = (file.commands, *came, file.damaged)
    return (file.kind, file.path, *(f"{one:,}" if one != "" else "" for one in counts))


def _sum_up(done: Iterable["ImportedFile"], *, dry_run: bool) -> None:
    files = list(done)
    if dry_run:
        note(f"would look at {counted(sum(one.commands for one in files), 'command')}")
    else:
        note(f"{counted(sum(one.stored.new for one in files), 'new command')}")


# ------------------------------------------------------------------------------
# `threadkeep browser`: pages that were read; and the host that a browser itself starts.

_FEW = 3
_WORDS = {
    "new": "create",
    "same": "leave as it is",
    "changed": "change",
    "foreign": "of another program",
}


@group("browser", "threadkeep browser install firefox", "threadkeep browser domains")
def browser() -> None:
    """Record the web pages you read, on developer sites only."""


@command(
    "install",
    "threadkeep browser install chromium",
    "threadkeep browser install firefox --hippo --dry-run",
)
@click.argument("name", metavar="BROWSER")
@click.option("--hippo", is_flag=True, help="Hippo's own extension may report here, too.")
@click.option("--dry-run", is_flag=True, help="Show what would be written; write nothing.")
@click.option("--replace", is_flag=True, help="Move another program's manifest aside.")
def install(call: Call, *, name: str, hippo: bool, dry_run: bool, replace: bool) -> None:
    """Set up a BROWSER: register the native host and unpack the extension.

    Supported: firefox, librewolf, chromium, chrome, brave, edge and vivaldi.
    """
    from threadkeep.home.observed import carry_out, plan_for

    plan = plan_for(call.home, name, hippo=hippo)
    written = () if dry_run else carry_out(plan, replace=replace)
    if call.as_json:
        files = [{"path": step.path, "change": step.change} for step in plan.steps]
        document(browser=name, dry_run=dry_run, files=files, next_step=plan.next_step)
        return
    if dry_run:
        for change, word in _WORDS.items():
            for line in by_folder(step.path for step in plan.steps if step.change == change):
                write(f"{word}\t{line}")
        note("nothing was written")
        return
    for line in by_folder(written):
        write(line)
    note("everything was installed already" if not written else "written")
    note(f"next: {plan.next_step}")


def _folder(path: Path) -> Path:
    return path.parent


def by_folder(paths: Iterable[Path]) -> Iterator[str]:
    """Write a line for each file; many that lie in one folder get one line."""
    for folder, files in groupby(sorted(paths, key=_folder), key=_folder):
        names = list(files)
        if len(names) > _FEW:
            yield f"{folder}/ ({len(names)} files)"
        else:
            yield from map(str, names)


@command("uninstall", "threadkeep browser uninstall firefox")
@click.argument("name", metavar="BROWSER")
@click.option("--dry-run", is_flag=True, help="Show what would be removed; remove nothing.")
def uninstall(call: Call, *, name: str, dry_run: bool) -> None:
    """Remove what was installed for a BROWSER; recorded pages are kept."""
    from threadkeep.home.observed import plan_removal, remove_from

    paths = (plan_removal if dry_run else remove_from)(call.home, name)
    if call.as_json:
        document(browser=name, dry_run=dry_run, files=paths)
        return
    for path in paths:
        write(str(path))
    done = (
        "nothing was removed" if dry_run else "removed; now remove the extension from the browser"
    )
    note(done if paths else f"nothing is installed for {name}")


@command("domains", "threadkeep browser domains", lists=True)
def domains(call: Call) -> None:
    """List the domains whose pages are kept; their sub-domains are included."""
    from threadkeep.home.observed import visit_rules

    rules = visit_rules(call.home)
    if call.as_json:
        call.answer("domains", enabled=rules.enabled, domains=rules.domains, exclude=rules.exclude)
        return
    for name in rules.domains:
        write(name)
    if rules.exclude:
        note(f"excluded again: {', '.join(rules.exclude)}")
    if not rules.enabled:
        note("[browser] enabled is false: no page is kept at all")


for _command in (install, uninstall, domains):
    browser.add_command(_command)


# ---------------------------------------------------------------------- what a browser starts


@command("native-host", "threadkeep native-host")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def native_host(call: Call, *, arguments: tuple[str, ...]) -> None:
    """Answer a browser over stdin and stdout; `browser install` sets it up."""
    from threadkeep.home.observed import serve_browser

    stdin = cast("BufferedReader", sys.stdin.buffer)
    serve_browser(call.home, arguments, stdin, sys.stdout.buffer)


native_host.hidden = True
native_host.context_settings = {"ignore_unknown_options": True}
