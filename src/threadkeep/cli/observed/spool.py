"""`threadkeep send-event`: what another program observed, left in the spool; no store is opened.

The flags are those of Hippo's command, so that its shell hook and its scripts work unchanged.
"""

import os
import shlex
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID, uuid4

import click

from threadkeep.base.clock import now_ms
from threadkeep.cli.command import Call, command, group
from threadkeep.cli.output import document, json_text, warn
from threadkeep.cli.signals import left_to_others
from threadkeep.errors import Invalid, ThreadkeepError

if TYPE_CHECKING:
    from threadkeep.capture.observed.command_wrapper import ProcessResult
    from threadkeep.knowledge.records import Command, GitState, Output


_LONGEST_TTL: Final = 30 * 86_400  # seconds
_TOOL = "claude-tool"


@group(
    "send-event",
    'threadkeep send-event shell --cmd "make" --exit 0 --cwd /tmp --duration-ms 12',
    "threadkeep send-event watchlist --sha 4f2a9c1 --repo owner/name",
)
def send_event() -> None:
    """Report a command, or a commit to watch, from a script; takes Hippo's flags."""


@command(
    "shell",
    'threadkeep send-event shell --cmd "make test" --exit 2 --cwd /tmp --duration-ms 5300',
    "threadkeep send-event shell --cmd ls --exit 0 --cwd / --duration-ms 1 "
    "--source-kind claude-tool --tool-name Bash",
)
@click.option("--cmd", required=True, metavar="TEXT", help="The command.")
@click.option("--exit", "exit_code", required=True, type=int, metavar="N", help="The exit code.")
@click.option("--cwd", required=True, metavar="DIR", help="The folder it ran in.")
@click.option(
    "--duration-ms", required=True, type=click.IntRange(min=0), metavar="MS", help="How long."
)
@click.option("--git-repo", metavar="R", help="owner/name; default: from the folder.")
@click.option("--git-branch", metavar="B", help="The branch that was checked out.")
@click.option("--git-commit", metavar="SHA", help="The commit that was checked out.")
@click.option("--git-dirty", is_flag=True, help="There were uncommitted changes.")
@click.option("--output", metavar="TEXT", help="Its output.")
@click.option("--probe-tag", metavar="ID", help="A test event, shown nowhere.")
@click.option("--source-kind", metavar="KIND", help="shell, or claude-tool for a tool's command.")
@click.option("--tool-name", metavar="NAME", help="The tool that ran it, such as Bash.")
def shell(call: Call, **said: Any) -> None:
    """Report a command that has ended.

    It goes into the spool, with secrets masked; the next `threadkeep capture`, `commands` or
    `watch` stores it. Prints nothing on success.
    """
    made = _command(**said | {"cwd": _whole(said["cwd"])})
    kept = call.home.reporter().report(made)
    if call.as_json:
        document(kept=kept, envelope_id=made.envelope_id, session=made.session)


def _command(
    *,
    cmd: str,
    exit_code: int,
    cwd: str,
    duration_ms: int,
    output: str | None,
    probe_tag: str | None,
    source_kind: str | None,
    tool_name: str | None,
    **git: Any,
) -> "Command":
    from threadkeep.home import observed
    from threadkeep.knowledge.records import Command

    now = now_ms()
    return Command(
        envelope_id=_envelope_id(probe_tag),
        session=observed.session_id(os.environ),
        at=now,
        command=cmd,
        cwd=cwd,
        exit_code=exit_code,
        duration_ms=duration_ms,
        hostname=observed.host_name(),
        shell=observed.shell_name(os.environ),
        username=os.environ.get("USER") or "unknown",
        stdout=None if output is None else _printed(output),
        env=observed.kept_variables(os.environ),
        git=_git(cwd, now, **git),
        tool_name=_tool(source_kind, tool_name),
        probe_tag=probe_tag,
    )


def _whole(cwd: str) -> str:
    """Return the whole path of a folder: by that one it is kept out where the user says so."""
    try:
        return os.path.abspath(cwd) if cwd else cwd
    except OSError:  # the folder that we are in was removed
        return cwd


def _printed(output: str) -> "Output":
    from threadkeep.knowledge.records import Output

    return Output(output, original_bytes=len(output.encode("utf-8", "surrogateescape")))


def _envelope_id(probe_tag: str | None) -> str:
    """A probe is looked for by its tag, which is its id as well."""
    try:
        return str(UUID(probe_tag or ""))
    except ValueError:
        return str(uuid4())


def _tool(source_kind: str | None, tool_name: str | None) -> str | None:
    """Return the tool that ran it; that is also what makes it a tool's command."""
    if source_kind == _TOOL and not tool_name:
        raise Invalid("--source-kind claude-tool needs --tool-name", hint="add --tool-name Bash")
    return tool_name if source_kind in (None, _TOOL) else None


def _git(
    cwd: str,
    now: int,
    *,
    git_repo: str | None,
    git_branch: str | None,
    git_commit: str | None,
    git_dirty: bool,
) -> "GitState | None":
    """Take what was said; None leaves all of it to the collector."""
    from threadkeep.home.observed import found_in_folder
    from threadkeep.knowledge.records import GitState

    if not (git_repo or git_branch or git_commit or git_dirty):
        return None
    found = None if git_repo else found_in_folder(cwd, now)
    repo = git_repo or (found.repo if found else None)
    return GitState(repo=repo, branch=git_branch, commit=git_commit, is_dirty=git_dirty)


@command("watchlist", "threadkeep send-event watchlist --sha 4f2a9c1 --repo owner/name --ttl 600")
@click.option("--sha", required=True, metavar="SHA", help="The commit.")
@click.option("--repo", required=True, metavar="R", help="owner/name.")
@click.option(
    "--ttl",
    type=click.IntRange(1, _LONGEST_TTL),
    default=1200,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for its runs.",
)
def watchlist(call: Call, *, sha: str, repo: str, ttl: int) -> None:
    """Report a commit whose CI runs to watch; `threadkeep watch` follows them."""
    from threadkeep.home.observed import commit_to_watch

    made = commit_to_watch(sha, repo, ttl, now_ms())
    call.home.reporter().report(made)
    if call.as_json:
        document(kept=True, watch=made)


for _command_ in (shell, watchlist):
    send_event.add_command(_command_)


# ------------------------------------------------------------------------------
# `threadkeep run`: a command with what it prints, kept on request.

_OFF = "off"


@command(
    "run",
    "threadkeep run make test",
    "threadkeep run -- cargo build --release",
    "threadkeep run -c 'make 2>&1 | tail'",
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[--] COMMAND...")
@click.option("-c", "line", metavar="TEXT", help="Run this text with your shell.")
def run(call: Call, *, words: tuple[str, ...], line: str | None) -> int:
    """Run a command and keep its output: the beginning and the end, secrets masked.

    The command runs unchanged, and its exit code is passed on. With THREADKEEP_SHELL=off nothing is
    kept. With --json a report of one line goes to stderr.
    """
    from threadkeep.home.observed import run_here

    argv = _argv(words, line)
    cwd = _folder()
    with left_to_others():
        ran = run_here(call.home, argv)
    is_on = os.environ.get("THREADKEEP_SHELL") != _OFF
    kept = is_on and _keep(call, ran, cwd, shlex.join(words) if line is None else line)
    if call.as_json:
        told = {"kept": kept, "exit_code": ran.exit_code, "ms": ran.ended_ms - ran.started_ms}
        click.echo(json_text({"schema_version": 1, "run": told}), err=True)
    return ran.exit_code


run.context_settings = {"ignore_unknown_options": True, "allow_interspersed_args": False}


def _argv(words: tuple[str, ...], line: str | None) -> list[str]:
    if (line is None) == (not words):
        raise Invalid(
            "give one command to run", hint="`threadkeep run make test`, or -c 'make | tail'"
        )
    return list(words) if line is None else [os.environ.get("SHELL") or "/bin/sh", "-c", line]


def _folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109  (text, whatever its bytes)
    except OSError:  # it was removed under us
        return os.environ.get("PWD", "")


def _keep(call: Call, ran: "ProcessResult", cwd: str, text: str) -> bool:
    """Leave a report of it; whatever goes wrong here is no failure of the command."""
    from threadkeep.home import observed
    from threadkeep.knowledge.records import Command

    made = Command(
        envelope_id=str(uuid4()),
        session=observed.session_id(os.environ),
        at=ran.ended_ms,
        command=text,
        cwd=cwd,
        exit_code=ran.exit_code,
        duration_ms=max(0, ran.ended_ms - ran.started_ms),
        hostname=observed.host_name(),
        shell=observed.shell_name(os.environ),
        username=os.environ.get("USER") or "unknown",
        stdout=ran.stdout if ran.stdout.original_bytes else None,
        stderr=ran.stderr if ran.stderr.original_bytes else None,
        env=observed.kept_variables(os.environ),
        origin="run",
    )
    try:
        return call.home.reporter().report(made)
    except (ThreadkeepError, OSError) as error:
        warn(f"the command ran, but nothing was kept of it: {error}")
        return False
