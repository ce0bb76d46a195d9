"""What the runs of a task did, in words: one line each in `tasks/<series>.md` of the folder."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from threadkeep.base import nofollow
from threadkeep.base.clock import iso
from threadkeep.errors import Invalid, NotFound, ReadOnly
from threadkeep.mailbox import inbound
from threadkeep.mailbox.adapters import Outgoing
from threadkeep.mailbox.context import MailContext
from threadkeep.mailbox.names import is_safe_name
from threadkeep.mailbox.records import Place
from threadkeep.mailbox.times import read_moment

log = logging.getLogger(__name__)
KIND: Final = "task_log"
FOLDER: Final = "tasks"
THREAD: Final = "system:tasks:"  # where mail goes in the session of one series
_TEXT: Final = 500  # characters of one line
_TAIL: Final = 64 * 1024


def series_of_thread(thread_id: str | None) -> str | None:
    """Give the series whose session has this thread, None for a chat's."""
    if thread_id is None or not thread_id.startswith(THREAD):
        return None
    return thread_id.removeprefix(THREAD) or None


def path_of(series: str) -> str:
    """Give where the log of a series is, from the folder of the session on."""
    return f"{FOLDER}/{series}.md"


def append(ctx: MailContext, series: str, text: str, at: str) -> None:
    """Add a line to the log of a series, on the disk when this returns; the same one only once."""
    name = _name(series)
    data = f"- {at} {line(text)}\n".encode("utf-8", "replace")
    with _in_reach(ctx):
        nofollow.make_dir(ctx.folder.path, FOLDER)
        nofollow.append(ctx.folder.path, (FOLDER,), name, data, unless_in_last=_TAIL)


def line(text: str) -> str:
    """Give words in one line of at most 500 characters, as a `task_log` has them."""
    words = " ".join(text.split())
    return words if len(words) <= _TEXT else f"{words[: _TEXT - 1]}…"


def keep(ctx: MailContext, mail: Outgoing) -> None:
    """Add what a run said of itself to the log of its series; other records lie in their rows."""
    series = _series_of(ctx, mail) if mail.kind == KIND else None
    if series is None or not mail.text.strip():
        return
    said_ms = read_moment(mail.timestamp)
    try:
        append(ctx, series, mail.text, ctx.now_iso() if said_ms is None else iso(said_ms))
    except Invalid as error:  # the agent put something in its way; nobody waits for a log
        log.warning("the log of %s was not kept: %s", series, error)


def _series_of(ctx: MailContext, mail: Outgoing) -> str | None:
    with ctx.folder.inbound.read() as tx:
        place = Place(*(tx.one("routing") or ()))
        run = None if mail.in_reply_to is None else inbound.find(tx, mail.in_reply_to)
    if run is not None and run.kind == "task":
        return run.series_id or run.id
    return series_of_thread(place.thread_id)


def newest(ctx: MailContext, series: str, count: int) -> list[str]:
    """Give the last lines of the log of a series; none if there is no log, or none to be read."""
    try:
        with _in_reach(ctx):
            data = nofollow.read_end(ctx.folder.path, (FOLDER,), _name(series), _TAIL)
    except Invalid:
        return []
    lines = data.decode("utf-8", "replace").splitlines()
    return [one for one in lines if one.strip()][-count:]


def remove(ctx: MailContext, series: str) -> None:
    """Remove the log of a series; none there is fine, and one out of reach stays."""
    if is_safe_name(f"{series}.md"):
        try:
            with _in_reach(ctx):
                nofollow.remove_tree(ctx.folder.path, FOLDER, f"{series}.md")
        except Invalid as error:
            log.warning("the log of %s was not removed: %s", series, error)


@contextmanager
def _in_reach(ctx: MailContext) -> Iterator[None]:
    """Refuse what the agent put in the way, or locked; it is told so without paths of the host."""
    try:
        yield
    except (Invalid, NotFound, ReadOnly) as error:
        log.info("in %s: %s", ctx.folder.path, error)
        hint = f"`{FOLDER}` must be a folder and the log a plain file, both open to the host"
        raise Invalid("the log of this task is out of reach", hint=hint) from error


def _name(series: str) -> str:
    if not is_safe_name(f"{series}.md"):
        raise Invalid("the name of this task cannot be that of a file", hint="give it another id")
    return f"{series}.md"
