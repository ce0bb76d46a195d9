"""`threadkeep export`: a captured session in the format of another program, or to be read."""

import os
import sys
from pathlib import Path
from typing import Final

import click

from threadkeep.cli.command import Call, store_command
from threadkeep.cli.history.opening import find, looking, session_argument
from threadkeep.cli.output import document, is_terminal, note, size_text, write
from threadkeep.errors import Conflict, ThreadkeepError

# Named here once more, so that a help page needs no store: a test compares the two.
FORMATS: Final = (
    *("claude-code", "codex", "opencode", "ai-sdk", "openai", "hermes"),
    *("markdown", "jsonl", "html"),
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
    "form",
    type=click.Choice(FORMATS),
    default="markdown",
    show_default=True,
    help="A program's own format, a provider's, or one to read.",
)
@click.option(
    "-o",
    "--output",
    "--out",
    "out",
    metavar="FILE",
    help="Write into this new file, not to stdout.",
)
def export(call: Call, *, session: str, harness: str | None, form: str, out: str | None) -> None:
    """Write a captured session in another program's format: who said what, calls and results.

    SESSION is an id or the beginning of one, `program:id`, or `last`. Secrets were masked when it
    was captured. What a format has no place for stands in it as text.
    """
    name, written = _written(call, session, harness, form)
    if out is not None:
        _put(Path(out), written.encode())
        note(f"wrote {name} as {form} into {out}, {size_text(len(written.encode()))}")
    if call.as_json:
        shown = {"out": out} if out else {"content": written}
        document(session=name, format=form, bytes=len(written.encode()), **shown)
    elif out is None and is_terminal():
        write(written, end="")  # which keeps from a terminal what could harm it
    elif out is None:
        sys.stdout.buffer.write(written.encode())
        sys.stdout.buffer.flush()


def _written(call: Call, session: str, harness: str | None, form: str) -> tuple[str, str]:
    """Give the whole name of a session, and what is written of it."""
    with looking(call) as history:
        found = find(history, session, harness)
        name = f"{found.harness}:{found.session_id}"
        if form != "html":
            from threadkeep.home.hand_off import exported

            return name, exported(history, found, form)
    try:
        from threadkeep.web.offline import offline_html
    except ImportError as error:
        msg = f"an HTML page needs {error.name}, which is not installed"
        raise ThreadkeepError(msg, hint="pip install 'threadkeep[web]'") from error
    return name, offline_html(call.home, name, call.db)


def _put(path: Path, data: bytes) -> None:
    """Write a file that was not there before, for its owner alone."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE)
    except FileExistsError:
        raise Conflict(f"{path} exists already", hint="name another file with --out") from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
