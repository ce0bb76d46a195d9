"""`threadkeep run`: a command with what it prints, kept on request."""

import os
import shlex
from typing import TYPE_CHECKING
from uuid import uuid4

import click

from threadkeep.cli.command import Call, command
from threadkeep.cli.ending import left_to_others
from threadkeep.cli.output import json_text, warn
from threadkeep.errors import Invalid, ThreadkeepError

if TYPE_CHECKING:
    from threadkeep.capture.observed.command_wrapper import ProcessResult

_OFF = "off"


@command(
    "run",
    "threadkeep run make test",
    "threadkeep run -- cargo build --release",
    "threadkeep run -c 'make 2>&1 | tail'",
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[--] COMMAND...")
@click.option("-c", "line", metavar="TEXT", help="Let your shell run this text.")
def run(call: Call, *, words: tuple[str, ...], line: str | None) -> int:
    """Run a command and keep what it prints: the beginning and the end, secrets masked.

    It runs as it would by itself, and its exit code is given. With THREADKEEP_SHELL=off nothing
    is kept. With --json a line about it goes to stderr.
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
