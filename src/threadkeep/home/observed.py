"""What surfaces need of commands and visits, named in one place, so that none imports a service.

Loading this loads the collector: a surface does so when a command needs it.
"""

import os
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID, uuid4

from threadkeep.base.clock import now_ms
from threadkeep.capture.observed.browsers import (
    BrowserInstallPlan,
    InstallContext,
    install as install_of_browsers,
    packaged_extension,
    plan_install,
    plan_uninstall,
    uninstall as uninstall_of_browsers,
)
from threadkeep.capture.observed.command_wrapper import ProcessResult, run_command
from threadkeep.capture.observed.intake import BatchReport
from threadkeep.capture.observed.observed import Observations
from threadkeep.capture.observed.protocol import RegisterWatchSha, watch_of
from threadkeep.capture.observed.shell_history import HistoryFile, Kind, find_histories
from threadkeep.capture.observed.shell_hooks import ShellInstallPlan, install, render, uninstall
from threadkeep.capture.observed.visits import (
    ByteSink,
    ByteSource,
    VisitRules,
    check_caller,
    rules_of,
    serve,
)
from threadkeep.errors import Invalid, NotFound, ThreadkeepError
from threadkeep.home.capture import open_observations
from threadkeep.home.home import reports_waiting, spool_folder
from threadkeep.knowledge.commands import ALLOWED_VARIABLES
from threadkeep.knowledge.records import GitState, Watch
from threadkeep.sources.git_facts import GitCache, facts_at, find_repository, read_history

if TYPE_CHECKING:
    from threadkeep.home.home import Home


# Whoever only wants to look does not wait long for somebody who writes.
_PATIENCE: Final = 2.0


@contextmanager
def collected(
    home: "Home", path: str | Path | None = None
) -> Iterator[tuple[Observations, ThreadkeepError | None]]:
    """Open the observations to look at them, with what waits collected first.

    Where that is not possible now they are opened as they are, and the reason is given. NotFound
    if there is neither a store nor anything to collect.
    """
    trouble = _collect(home) if path is None and reports_waiting(home) else None
    if trouble is not None and not home.has("knowledge"):
        raise trouble
    with home.observations(path, read_only=True) as observations:
        yield observations, trouble


def collect_now(home: "Home", path: str | Path | None = None) -> BatchReport:
    """Store what waits, without opening a store where nothing does."""
    if not reports_waiting(home, path):
        return BatchReport()
    with home.observations(path) as observations:
        return observations.collect()


def _collect(home: "Home") -> ThreadkeepError | None:
    try:
        with open_observations(home, home.knowledge(budget=_PATIENCE)) as observations:
            observations.collect()
    except ThreadkeepError as error:
        return error
    return None


# ---------------------------------------------------------------------- what a report says


def session_id(environ: Mapping[str, str]) -> str:
    """Return the session of the shell around us; a new one where there is none."""
    for name in ("HIPPO_SESSION_ID", "THREADKEEP_SESSION_ID"):
        try:
            return str(UUID(environ.get(name, "")))
        except ValueError:
            continue
    return str(uuid4())


def shell_name(environ: Mapping[str, str]) -> str:
    """Name the user's shell."""
    return os.path.basename(environ.get("SHELL", "")) or "unknown"  # noqa: PTH119  (any text)


def host_name() -> str:
    """Name this machine."""
    return socket.gethostname()


def kept_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that may be kept with a command."""
    return {name: text for name, text in environ.items() if name in ALLOWED_VARIABLES}


def found_in_folder(cwd: str, at_ms: int) -> GitState | None:
    """Tell repository, branch and commit of a folder, from its files alone."""
    return facts_at(cwd, at_ms, GitCache())


class Head(NamedTuple):
    """What is checked out in a folder, and where it came from; None if nobody can tell."""

    sha: str | None = None
    repo: str | None = None  # owner/name


def head_of(folder: str) -> Head:
    """Tell the commit that a folder has checked out, and the repository of its `origin`."""
    repository = find_repository(folder)
    if repository is None:
        return Head()
    history = read_history(repository)
    return Head(history.moments[-1].commit, history.repo if "/" in history.repo else None)


def commit_to_watch(sha: str, repo: str, ttl_secs: int, now: int) -> Watch:
    """Make a report of a commit to wait for; what is no commit or no repository is refused."""
    return watch_of(RegisterWatchSha(sha, repo, ttl_secs), now)


# ------------------------------------------------------------------------------
# Running a command by the rules of a home, with what it prints.


def run_here(home: "Home", argv: Sequence[str]) -> ProcessResult:
    """Run a program to its end; as much of its output is kept as the configuration says."""
    settings = home.config.shell
    return run_command(
        argv, head_lines=settings.output_head_lines, tail_lines=settings.output_tail_lines
    )


# ------------------------------------------------------------------------------
# How a home's shell hooks are set up, and which histories of shells its user has.


def hook_text(home: "Home", shell: str) -> str:
    """Return the hook of a shell, which reports to the spool of this home."""
    return render(shell, spool_folder(home))


def install_hook(home: "Home", shell: str, *, dry_run: bool = False) -> ShellInstallPlan:
    """Write the hook of a shell and load it in the user's start-up files."""
    return install(shell, home.environ, home.paths().data, dry_run=dry_run)


def uninstall_hook(home: "Home", shell: str, *, dry_run: bool = False) -> ShellInstallPlan:
    """Take the hook of a shell out of the user's start-up files."""
    return uninstall(shell, home.environ, home.paths().data, dry_run=dry_run)


def user_histories(home: "Home", kind: Kind | None = None) -> list[HistoryFile]:
    """List the histories of this home's user, of all shells or of one."""
    below = Path(home.environ.get("HOME") or Path.home())
    found = find_histories(below, home.environ)
    return [file for file in found if kind in (None, file.kind)]


def named_histories(paths: tuple[str, ...], kind: Kind | None = None) -> list[HistoryFile]:
    """Return the histories at these paths; their names tell the kind where it is not given."""
    return [_named(Path(path), kind) for path in paths]


def _named(path: Path, kind: Kind | None) -> HistoryFile:
    if not path.is_file():
        raise NotFound(f"there is no file {path}", hint="give the path of a shell's history")
    found = kind or kind_of(path)
    if found is None:
        msg = f"the name of {path} does not show which shell wrote it"
        raise Invalid(msg, hint="name it: --shell zsh, bash, fish or atuin")
    return HistoryFile(found, path)


def kind_of(path: Path) -> Kind | None:
    """Tell from a file's name which program keeps its history there."""
    name = path.name.lower()
    if path.suffix == ".db":
        return "atuin"
    if "zsh" in name or name in {".zhistory", ".histfile"}:
        return "zsh"
    if "bash" in name:
        return "bash"
    return "fish" if "fish" in name else None


# ------------------------------------------------------------------------------
# How browsers are told about a home, and how one that calls is answered.


def surroundings(home: "Home") -> InstallContext:
    """Describe this machine and this home for an installation."""
    return InstallContext(home.environ, sys.platform, sys.executable, home.paths().data)


def plan_for(home: "Home", browser: str, *, hippo: bool = False) -> BrowserInstallPlan:
    """Say what to write so that a browser finds this home; nothing is written yet."""
    return plan_install(browser, surroundings(home), packaged_extension(), hippo=hippo)


def carry_out(plan: BrowserInstallPlan, *, replace: bool = False) -> tuple[Path, ...]:
    """Write what a plan says; give the files that are new or changed."""
    return install_of_browsers(plan, replace=replace)


def plan_removal(home: "Home", browser: str) -> tuple[Path, ...]:
    """Name what belongs to this browser alone; nothing is removed yet."""
    return plan_uninstall(browser, surroundings(home))


def remove_from(home: "Home", browser: str) -> tuple[Path, ...]:
    """Remove what belongs to this browser alone; give the paths."""
    return uninstall_of_browsers(browser, surroundings(home))


def visit_rules(home: "Home") -> VisitRules:
    """Say which pages are kept."""
    return rules_of(home.config.browser)


def serve_browser(
    home: "Home", arguments: Sequence[str], stdin: ByteSource, stdout: ByteSink
) -> None:
    """Answer a browser until it closes its side; what it reports goes into the spool."""
    check_caller(arguments)
    reporter = home.reporter()
    serve(stdin, stdout, reporter.visits, reporter.report, now_ms)
