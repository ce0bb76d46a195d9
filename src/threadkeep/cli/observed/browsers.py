"""`threadkeep browser`: pages that were read; and the host that a browser itself starts."""

import sys
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from threadkeep.cli.command import Call, command, group
from threadkeep.cli.output import document, note, write

if TYPE_CHECKING:
    from io import BufferedReader

_FEW = 3
_WORDS = {
    "new": "create",
    "same": "leave as it is",
    "changed": "change",
    "foreign": "of another program",
}


@group("browser", "threadkeep browser install firefox", "threadkeep browser domains")
def browser() -> None:
    """Keep the pages that are read, of sites for developers alone."""


@command(
    "install",
    "threadkeep browser install chromium",
    "threadkeep browser install firefox --hippo --dry-run",
)
@click.argument("name", metavar="BROWSER")
@click.option("--hippo", is_flag=True, help="Hippo's own extension may report here, too.")
@click.option("--dry-run", is_flag=True, help="Say what would be written, write nothing.")
@click.option("--replace", is_flag=True, help="Put another program's manifest aside.")
def install(call: Call, *, name: str, hippo: bool, dry_run: bool, replace: bool) -> None:
    """Tell a BROWSER where to report, and lay the extension ready for it.

    It knows firefox, librewolf, chromium, chrome, brave, edge and vivaldi.
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
    note("all of it was there already" if not written else "written")
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
@click.option("--dry-run", is_flag=True, help="Say what would be removed, remove nothing.")
def uninstall(call: Call, *, name: str, dry_run: bool) -> None:
    """Take away what was installed for a BROWSER; what it reported stays."""
    from threadkeep.home.observed import plan_removal, remove_from

    paths = (plan_removal if dry_run else remove_from)(call.home, name)
    if call.as_json:
        document(browser=name, dry_run=dry_run, files=paths)
        return
    for path in paths:
        write(str(path))
    done = "nothing was removed" if dry_run else "removed; take the extension out of the browser"
    note(done if paths else f"nothing is installed for {name}")


@command("domains", "threadkeep browser domains", lists=True)
def domains(call: Call) -> None:
    """List the domains whose pages are kept, with all their sub-domains."""
    from threadkeep.home.observed import visit_rules

    rules = visit_rules(call.home)
    if call.as_json:
        call.answer("domains", enabled=rules.enabled, domains=rules.domains, exclude=rules.exclude)
        return
    for name in rules.domains:
        write(name)
    if rules.exclude:
        note(f"kept out again: {', '.join(rules.exclude)}")
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
