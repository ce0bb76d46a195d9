"""`threadkeep export`: a captured session in the format of another agent, or to be read."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from threadkeep.cli.command import Call, store_command
from threadkeep.cli.history.sessions import find, looking, session_argument
from threadkeep.cli.options import OneOf
from threadkeep.cli.output import counted, document, is_terminal, note, one_line, size_text, write
from threadkeep.cli.words import one_name
from threadkeep.errors import Conflict, NotFound, ThreadkeepError

if TYPE_CHECKING:
    from threadkeep.knowledge.records import CapturedSession
    from threadkeep.knowledge.transcript import SessionArchive
    from threadkeep.transfer.hand_off import HandOff


# Named here once more, so that a help page needs no store: a test compares the two.
TARGETS: Final = (
    *("claude-code", "codex", "opencode", "pi", "qwen-code", "kimi-code", "continue"),
    *("gemini-cli", "copilot-cli", "cline", "gptme", "goose", "grok-build"),
    *("mistral-vibe", "llm"),
)
FORMATS: Final = (
    *TARGETS,
    *("ai-sdk", "openai", "hermes", "markdown", "jsonl", "html"),
)
_PRIVATE: Final = 0o600


@store_command(
    "export",
    "threadkeep export last --format markdown > session.md",
    "threadkeep export 5f0c2a7e --format ai-sdk --out messages.json",
    "threadkeep export codex:019caf10 --format html --out session.html",
)
@session_argument
@click.option(
    "--format",
    "--to",
    "form",
    type=OneOf(FORMATS),
    default="markdown",
    show_default=True,
    help="An agent's own format, a provider's, or a readable one.",
)
@click.option(
    "-o",
    "--output",
    "--out",
    "out",
    metavar="FILE",
    help="Write to this new file instead of stdout.",
)
@click.option(
    "--notes", is_flag=True, help="Keep what the agent's program told the model, in Markdown."
)
def export(
    call: Call, *, session: str, agent: str | None, form: str, out: str | None, notes: bool
) -> None:
    """Export a captured session in another format: messages, tool calls and results.

    SESSION is an id or the beginning of one, `agent:id`, or `last`. Secrets were masked at capture.
    Content that a format cannot express is written as text.
    """
    name, text = written(call, session, agent, form, notes=notes)
    if out is not None:
        put_file(Path(out), text.encode())
        note(f"wrote {name} as {form} into {out}, {size_text(len(text.encode()))}")
    if call.as_json:
        shown = {"out": out} if out else {"content": text}
        document(session=name, format=form, bytes=len(text.encode()), **shown)
    elif out is None and is_terminal():
        write(text, end="")  # which keeps from a terminal what could harm it
    elif out is None:
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()


def written(
    call: Call, session: str, agent: str | None, form: str, *, notes: bool = False
) -> tuple[str, str]:
    """Return the whole name of a session, and what is written of it."""
    with looking(call) as history:
        found = find(history, session, agent)
        name = f"{found.agent}:{found.session_id}"
        if form != "html":
            from threadkeep.home.hand_off import exported

            return name, exported(history, found, form, notes=notes)
    try:
        from threadkeep.web.renderer import offline_html
    except ImportError as error:
        msg = f"an HTML page needs {error.name}, which is not installed"
        raise ThreadkeepError(msg, hint="pip install 'threadkeep[web]'") from error
    return name, offline_html(call.home, name, call.db)


def put_file(path: Path, data: bytes) -> None:
    """Write a file that was not there before, for its owner alone."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE)
    except FileExistsError:
        raise Conflict(f"{path} already exists", hint="name another file with --out") from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


# ------------------------------------------------------------------------------
# `threadkeep resume`: continue with a captured session in another agent.


@store_command(
    "resume",
    "threadkeep resume last --in codex",
    "threadkeep resume 5f0c2a7e --in claude-code --cwd ~/code/harbor --dry-run",
)
@session_argument
@click.option(
    "--in", "target", type=OneOf(TARGETS), required=True, help="The agent to continue in."
)
@click.option("--cwd", metavar="DIR", help="The folder to continue in; default: the session's own.")
@click.option("--dry-run", is_flag=True, help="Show what would be written; write nothing.")
def resume(
    call: Call, *, session: str, agent: str | None, target: str, cwd: str | None, dry_run: bool
) -> None:
    """Convert a captured session for another agent, and print the command that continues it.

    SESSION is an id or the beginning of one, `agent:id`, or `last`. It becomes a new session whose
    title says where it comes from; existing sessions are not changed.
    """
    if cwd is not None and not Path(cwd).is_dir():
        raise NotFound(f"there is no folder {cwd}", hint="name an existing one with --cwd")
    with looking(call) as history:
        found = find(history, session, agent)
        note(f"session {found.agent}:{found.session_id}: {one_name(found)}")
        if cwd is None and not _is_here(found):
            note(f"{one_line(found.cwd) or 'its folder'} does not exist here: using this folder")
        made = continued(call, history, found, target, cwd, dry_run=dry_run)
    _tell(call, made, dry_run=dry_run)


def continued(
    call: Call,
    history: "SessionArchive",
    session: "CapturedSession",
    agent: str,
    cwd: str | None = None,
    *,
    dry_run: bool = False,
) -> "HandOff":
    """Write a session for another agent; where its folder is gone, for this one."""
    from threadkeep.home.hand_off import handed_off

    if cwd is None and not _is_here(session):
        cwd = str(Path.cwd())
    return handed_off(call.home, history, session, agent, cwd, dry_run=dry_run)


def _is_here(session: "CapturedSession") -> bool:
    return bool(session.cwd) and Path(session.cwd).is_dir()


def _tell(call: Call, made: "HandOff", *, dry_run: bool) -> None:
    if call.as_json:
        names = ("agent", "session_id", "path", "command", "title", "messages")
        document(resume={name: getattr(made, name) for name in names}, dry_run=dry_run)
        return
    did = "would write" if dry_run else "wrote"
    note(f"{did} {counted(made.messages, 'message')} into {made.path}")
    write(made.command)
