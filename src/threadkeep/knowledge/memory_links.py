"""Where the index of a folder of memories leads: each target once, and what becomes of it.

The index (MEMORY.md) names the other files. What it names and is not there yet is looked for again
whenever a file comes.
"""

import posixpath
import re
from typing import Final, NamedTuple

from threadkeep.base.tx import Tx
from threadkeep.knowledge.markdown import Link, links

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


class LinkTarget(NamedTuple):
    """What a link names: a file beside the index, or something outside of its folder."""

    path: str
    is_inside: bool


def target_of(href: str) -> LinkTarget | None:
    """Read where a link leads; None if it only names a place in the index itself."""
    plain = href.partition("#")[0].strip()
    if not plain:
        return None
    if _SCHEME.match(plain):
        return LinkTarget(plain, is_inside=False)
    way = posixpath.normpath(plain)
    name = way.rpartition("/")[2]
    outside = way.startswith(("/", "../")) or way in {".", ".."}
    return LinkTarget(plain if name in {".", "..", ""} else name, is_inside=not outside)


def targets_in(text: str) -> dict[str, tuple[LinkTarget, Link]]:
    """Give the targets of a text by their path; a file beside the index wins over its namesake."""
    found: dict[str, tuple[LinkTarget, Link]] = {}
    for link in links(text):
        target = target_of(link.target)
        if target is None:
            continue
        known = found.get(target.path)
        if known is None or (target.is_inside and not known[0].is_inside):
            found[target.path] = (target, link)
    return found


def put_links(tx: Tx, document: int, revision: int, repository: str, text: str, now: int) -> None:
    """Store where the index of a repository leads, in place of where it led before."""
    tx.run("drop_memory_links", {"document": document})
    for target, link in targets_in(text).values():
        found = _resolved(tx, document, repository, target.path) if target.is_inside else _OUTSIDE
        values = {"document": document, "revision": revision, "path": target.path}
        words = {"words": link.words, "target": found.document, "resolution": found.how}
        tx.run("add_memory_link", {**values, **words, "now": now})


def retry_links(tx: Tx, repository: str, path: str, now: int) -> None:
    """Lead the links to a file that has come to it."""
    for number, source in tx.all("links_awaiting", {"repository": repository, "path": path}):
        found = _resolved(tx, source, repository, path)
        values = {"id": number, "target": found.document, "resolution": found.how, "now": now}
        tx.run("link_is_resolved", values)


class _FoundDocument(NamedTuple):
    document: int | None
    how: str


_OUTSIDE: Final = _FoundDocument(None, "external")


def _resolved(tx: Tx, source: int, repository: str, path: str) -> _FoundDocument:
    rows = tx.all("memories_named", {"repository": repository, "path": path})
    if len(rows) != 1:
        return _FoundDocument(None, "ambiguous" if rows else "unresolved")
    target = int(rows[0][0])
    if target == source:
        return _FoundDocument(None, "circular")
    back = tx.value("leads_back", {"target": target, "source": source}) is not None
    return _FoundDocument(target, "circular" if back else "resolved")
