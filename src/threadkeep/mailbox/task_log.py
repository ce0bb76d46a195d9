"""What the runs of a task did, in words: one line each in `tasks/<series>.md` of the folder."""

from typing import Final

from threadkeep.base import nofollow
from threadkeep.errors import Invalid, NotFound
from threadkeep.mailbox.context import Context
from threadkeep.mailbox.names import is_safe_name

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


def append(ctx: Context, series: str, text: str, at: str) -> None:
    """Add a line to the log of a series, on the disk when this returns; the same one only once."""
    name = _name(series)
    words = " ".join(text.split())
    shown = words if len(words) <= _TEXT else f"{words[: _TEXT - 1]}…"
    nofollow.make_dir(ctx.folder.path, FOLDER)
    line = f"- {at} {shown}\n".encode("utf-8", "replace")
    nofollow.append(ctx.folder.path, (FOLDER,), name, line, unless_in_last=_TAIL)


def newest(ctx: Context, series: str, count: int) -> list[str]:
    """Give the last lines of the log of a series; none if there is no log, or none to be read."""
    try:
        data = nofollow.read_end(ctx.folder.path, (FOLDER,), _name(series), _TAIL)
    except (Invalid, NotFound):
        return []
    lines = data.decode("utf-8", "replace").splitlines()
    return [line for line in lines if line.strip()][-count:]


def remove(ctx: Context, series: str) -> None:
    """Remove the log of a series; none there is fine."""
    if is_safe_name(f"{series}.md"):
        nofollow.remove_tree(ctx.folder.path, FOLDER, f"{series}.md")


def _name(series: str) -> str:
    if not is_safe_name(f"{series}.md"):
        raise Invalid("the name of this task cannot be that of a file", hint="give it another id")
    return f"{series}.md"
