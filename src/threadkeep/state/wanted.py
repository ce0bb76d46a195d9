"""Which sessions a list or a count is about, as the parameters of their queries."""

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from threadkeep.state.context import Json, StateContext


class SessionFilter(NamedTuple):
    """Which sessions are meant; what is left out is not asked about."""

    sources: Sequence[str] = ()
    excluded: Sequence[str] = ()
    cwd_prefix: str | None = None
    session_key: str | None = None
    least: int = 0
    # True for archived ones alone, False for the others alone.
    archived: bool | None = False
    hidden: bool = True
    children: bool = True

    def params(self, ctx: StateContext) -> Json:
        """Give the parameters of the piece `listed`."""
        return {
            **marked(ctx),
            **below(self.cwd_prefix),
            "sources": _array(self.sources),
            "excluded": _array(self.excluded),
            "session_key": self.session_key or None,
            "least": self.least,
            "archived": self.archived,
            "hidden": self.hidden,
            "children": self.children,
        }


def marked(ctx: StateContext) -> Json:
    """Give the parameter that says whether marks tell what a child is to its parent."""
    return {"marked": ctx.form.answers.marked_lineage}


def asked_sources(source: str | None, sources: Iterable[str] | None) -> list[str]:
    """Put one source and several into one list; an empty one means all."""
    return [source] if source else list(sources or ())


def archived_or_not(*, include: bool, only: bool) -> bool | None:
    """Say which side of the archive is meant, None for both."""
    if only:
        return True
    return None if include else False


def below(folder: str | None) -> Json:
    """Give the parameters that compare a folder with another and with all below it."""
    if not folder:
        return {"cwd": None, "below": None, "below_windows": None}
    place = folder.rstrip("/\\") or folder
    escaped = escape_like(place)
    return {"cwd": place, "below": f"{escaped}/%", "below_windows": f"{escaped}\\\\%"}


def escape_like(text: str) -> str:
    """Let a text stand for itself in a LIKE with a backslash as the escape."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _array(values: Sequence[str]) -> str | None:
    return json.dumps(list(values)) if values else None
