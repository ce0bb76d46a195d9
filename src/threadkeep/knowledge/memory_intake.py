"""Memories become rows: documents, their revisions, their sections, and what is to be learned.

A document keeps two revisions in view: `current` is the newest that was seen, `active` the one
whose node is published. Until the newest is published the one before it stays in use.
"""

import json
import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from difflib import SequenceMatcher, unified_diff
from itertools import chain
from typing import Final, NamedTuple

from threadkeep.base.text import pattern
from threadkeep.base.tx import Tx
from threadkeep.knowledge.forget import erase_nodes
from threadkeep.knowledge.memory_documents import (
    INDEX_NAME,
    PROBE_REPOSITORY,
    SOURCE_KIND,
    category_of,
    document_uuid,
    hash_of,
)

# ------------------------------------------------------------------------------
# Markdown as notes are written in it: its sections by their headings, and its links.
#
# What stands inside a fenced block of code is text: no heading and no link.

_HEADING: Final = pattern(r"(#{1,6})[ \t]+(\S.*?)[ \t\r]*")
_FENCE: Final = pattern(r" {0,3}(`{3,}|~{3,})(.*)")
_LINK: Final = pattern(r"\[([^\]]*)\]\(([^)]+)\)")


class Section(NamedTuple):
    """A part of a text: the headings above it, where it stands, what it says."""

    heading_path: str  # `Glaze > Rules`; empty before the first heading
    start: int  # characters from the beginning
    end: int
    text: str  # without the white space around it


class Link(NamedTuple):
    """An inline link: its words, and where it leads."""

    words: str
    target: str


class _MarkdownLine(NamedTuple):
    start: int
    text: str


def sections(text: str) -> list[Section]:
    """Cut a text at its headings; nothing of it but white space is in no section."""
    cuts: list[tuple[int, str]] = [(0, "")]
    above: list[str] = []
    for line in _outside_fences(text):
        found = _HEADING.fullmatch(line.text)
        if found:
            # As many names as the level says at most: the paths that the contract's writers give.
            above = [*above[: len(found[1]) - 1], found[2]]
            cuts.append((line.start, " > ".join(above)))
    ends = [start for start, _ in cuts[1:]] + [len(text)]
    cut = (
        Section(path, start, end, text[start:end].strip())
        for (start, path), end in zip(cuts, ends, strict=True)
    )
    return [section for section in cut if section.text]


def links(text: str) -> list[Link]:
    """Return the inline links of a text in their order, titles left out."""
    found = (match for line in _outside_fences(text) for match in _LINK.finditer(line.text))
    pairs = ((match[1].strip(), _target(match[2])) for match in found)
    return [Link(words, target) for words, target in pairs if target]


def _target(inside: str) -> str:
    """Return where a link leads, without the brackets around it or the title behind it."""
    plain = inside.strip()
    if plain.startswith("<") and ">" in plain:
        return plain[1 : plain.index(">")].strip()
    return re.split(r"\s+[\"'(]", plain, maxsplit=1)[0].strip()


def _outside_fences(text: str) -> Iterator[_MarkdownLine]:
    """Yield the lines that are not inside fenced code; a fence without an end goes to the end."""
    fence = ""
    at = 0
    for line in text.split("\n"):
        found = _FENCE.fullmatch(line.rstrip("\r"))
        if fence:
            if found and found[1].startswith(fence) and not found[2].strip():
                fence = ""
        elif found and not (found[1][0] == "`" and "`" in found[2]):
            fence = found[1]
        else:
            yield _MarkdownLine(at, line)
        at += len(line) + 1


# ------------------------------------------------------------------------------
# What changed from one revision of a memory to the next, in lines.

_LONGEST: Final = 16_384
# Comparing long texts of lines that come again and again would take minutes.
_MOST_PAIRS: Final = 200_000
_MOST_LINES: Final = 20_000
_CUT: Final = "\n…\n"


class RevisionChange(NamedTuple):
    """A change in a sentence, and as a unified diff of bounded length."""

    summary: str
    diff: str


def change_between(old: str, new: str) -> RevisionChange:
    """Tell what was added and removed between two texts."""
    before, after = old.splitlines(), new.splitlines()
    is_long = len(before) + len(after) > _MOST_LINES or _pairs(before, after) > _MOST_PAIRS
    compare = _replaced if is_long else _compared
    added, removed, lines = compare(before, after)
    diff = ""
    for line in lines:
        diff += f"{line}\n"
        if len(diff) > _LONGEST:
            diff = diff[: _LONGEST - len(_CUT)] + _CUT
            break
    return RevisionChange(f"{_lines(added)} added, {removed} removed", diff)


def _pairs(before: list[str], after: list[str]) -> int:
    """Count the pairs of equal lines: what a comparison line by line takes grows with them."""
    counted = Counter(after)
    return sum(counted[line] for line in before)


def _compared(before: list[str], after: list[str]) -> tuple[int, int, Iterable[str]]:
    added = removed = 0
    for tag, low, high, start, end in SequenceMatcher(None, before, after).get_opcodes():
        if tag != "equal":
            removed += high - low
            added += end - start
    return added, removed, unified_diff(before, after, "before", "after", lineterm="")


def _replaced(before: list[str], after: list[str]) -> tuple[int, int, Iterable[str]]:
    """Take all between the first and the last line that differ for replaced."""
    most = min(len(before), len(after))
    head = next((n for n in range(most) if before[n] != after[n]), most)
    most -= head
    tail = next((n for n in range(most) if before[-1 - n] != after[-1 - n]), most)
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    if not old and not new:
        return 0, 0, ()
    place = f"@@ -{head + 1},{len(old)} +{head + 1},{len(new)} @@"
    lines = chain(
        ("--- before", "+++ after", place),
        (f"-{line}" for line in old),
        (f"+{line}" for line in new),
    )
    return len(new), len(old), lines


def _lines(count: int) -> str:
    return f"{count} line" if count == 1 else f"{count} lines"


# ------------------------------------------------------------------------------
# Where the index of a folder of memories leads: each target once, and what becomes of it.
#
# The index (MEMORY.md) names the other files. What it names and is not there yet is looked for
# again
# whenever a file comes.

_SCHEME: Final = pattern(r"[A-Za-z][A-Za-z0-9+.-]*:")


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


_CHUNKER: Final = {
    "chunker": "markdown-headings",
    "chunker_version": 1,
    # What stands before the first heading is a section of its own, and code has no headings.
    "chunker_config": json.dumps(
        {"boundary": "heading", "fences": "text", "preamble": True, "retain_heading": True}
    ),
}
_DAY_MS: Final = 86_400_000


class SeenMemory(NamedTuple):
    """A file of memory as it was found, its secrets masked."""

    repository: str
    logical_path: str
    source_path: str
    text: str
    mtime_ms: int
    size: int
    source_hash: str = ""  # of the text before it was masked: compared, never stored


class KnownDocument(NamedTuple):
    """A row of `memory_documents`, as far as taking in needs it."""

    id: int
    uuid: str
    repository: str
    logical_path: str
    source_path: str
    current: int | None
    active: int | None
    state: str


class Retention(NamedTuple):
    """How many revisions are kept, for how long, and when a missing file counts as deleted."""

    most: int = 20
    days: int = 90
    absence_ms: int = 60_000


KEPT: Final = Retention()


class Absent(NamedTuple):
    """A document, and the file of it that is gone."""

    document: int
    path: str


class Put(NamedTuple):
    """What became of a file: its document, the revision that is current, whether that is new."""

    document: int
    revision: int
    is_new: bool


def put_memory(
    tx: Tx,
    seen: SeenMemory,
    *,
    now: int,
    is_there: Callable[[str], bool],
    keep: Retention = KEPT,
) -> Put:
    """Store a file if it says something new; `is_there` tells whether another file still exists."""
    hashed = hash_of(seen.text)
    document = _document(tx, seen) or _renamed(tx, seen, hashed, now, is_there)
    if document is None:
        document = _added(tx, seen, now)
    else:
        tx.run("memory_is_seen", {**_place(seen), "id": document.id, "now": now})
    _name_category(tx, document.id, seen.logical_path, now)
    known = _same_revision(tx, document, seen, hashed)
    if known is None:
        known = _revise(tx, document, seen, hashed, now)
        is_new = True
        _prune(tx, document.id, keep, now)
    else:
        is_new = False
    retry_links(tx, seen.repository, seen.logical_path, now)
    return Put(document.id, known, is_new)


def absent_memories(
    tx: Tx, is_missing: Callable[[str], bool], *, now: int, keep: Retention = KEPT
) -> list[Absent]:
    """Return the documents whose file is gone and that are to be told so."""
    rows = tx.all("memories_looked_for", {"kind": SOURCE_KIND, "probe": PROBE_REPOSITORY})
    return [
        Absent(number, path)
        for number, path, state, since in rows
        if (state == "active" or now - since >= keep.absence_ms) and is_missing(path)
    ]


def miss_memory(tx: Tx, absent: Absent, *, now: int, keep: Retention = KEPT) -> None:
    """Note that the file of a document is gone: unavailable at first, then deleted.

    A document that is unavailable keeps its node, which is no longer shown. One that has another
    file by now, because that was only renamed, is left alone.
    """
    row = tx.one("memory_document_by_id", {"id": absent.document})
    document = None if row is None else KnownDocument(*row)
    if document is None or document.source_path != absent.path:
        return
    if document.state == "active" and keep.absence_ms > 0:
        tx.run("memory_is_missed", {"id": document.id, "now": now})
    elif document.state in {"active", "unavailable"}:
        _bury(tx, document, now)
        _prune(tx, document.id, keep, now)


# ---------------------------------------------------------------------- documents


def _place(seen: SeenMemory) -> dict[str, str]:
    return {
        "kind": SOURCE_KIND,
        "repository": seen.repository,
        "logical_path": seen.logical_path,
        "source_path": seen.source_path,
    }


def _document(tx: Tx, seen: SeenMemory) -> KnownDocument | None:
    row = tx.one("memory_document", _place(seen))
    return None if row is None else KnownDocument(*row)


def _added(tx: Tx, seen: SeenMemory, now: int) -> KnownDocument:
    uuid = document_uuid(seen.repository, seen.logical_path)
    number = tx.insert("add_memory", {**_place(seen), "uuid": uuid, "now": now})
    return KnownDocument(
        *(number, uuid, seen.repository, seen.logical_path, seen.source_path),
        *(None, None, "active"),
    )


def _renamed(
    tx: Tx, seen: SeenMemory, hashed: str, now: int, is_there: Callable[[str], bool]
) -> KnownDocument | None:
    """Find the one document that says the same and whose file is gone, and give it the new name."""
    found = [
        KnownDocument(*row)
        for row in tx.all("memories_with_text", {**_place(seen), "hash": hashed})
    ]
    if len(found) != 1 or not seen.text.strip() or is_there(found[0].source_path):
        return None
    old = found[0]
    tx.run("memory_is_renamed", {**_place(seen), "id": old.id, "now": now})
    said = f"Renamed from {old.logical_path!r} to {seen.logical_path!r}"
    _note(tx, old.id, "rename", hashed, said, now)
    return old._replace(logical_path=seen.logical_path, source_path=seen.source_path)


def _name_category(tx: Tx, document: int, logical_path: str, now: int) -> None:
    category = category_of(logical_path)
    values = {"document": document, "category": category, "now": now}
    tx.run("drop_categories_by_name", values)
    if category is not None:
        told = {"source": "filename", "confidence": 1.0, "model": None, "version": None}
        tx.run("put_category", values | told)


# ---------------------------------------------------------------------- revisions


def _same_revision(tx: Tx, document: KnownDocument, seen: SeenMemory, hashed: str) -> int | None:
    """Return the current revision if it says the same.

    Another program may have masked it otherwise: then the hash of the file as it is tells.
    """
    row = None if document.current is None else tx.one("memory_revision", {"id": document.current})
    if row is None:
        return None
    number, _, content_hash, source_hash, _ = row
    same = content_hash == hashed or (source_hash and source_hash == seen.source_hash)
    return int(number) if same else None


def _revise(tx: Tx, document: KnownDocument, seen: SeenMemory, hashed: str, now: int) -> int:
    """Store what a document says now, in the contract's order; what it said before is summed up."""
    number = int(tx.value("next_memory_revision", {"document": document.id}))
    revision = tx.insert(
        "add_memory_revision",
        {
            **_CHUNKER,
            "document": document.id,
            "number": number,
            "hash": hashed,
            "text": seen.text,
            "mtime_ms": seen.mtime_ms,
            "size": seen.size,
            "change": "create" if number == 1 else "update",
            "summary": None,
            "now": now,
        },
    )
    count = _cut(tx, revision, seen.text, now)
    waits = count > 0 and seen.repository != PROBE_REPOSITORY
    if waits:
        tx.run("add_memory_ticket", {"revision": revision, "now": now})
    status = "pending" if waits else "ready"
    values = {"id": document.id, "revision": revision, "status": status, "now": now}
    tx.run("memory_has_revision", values)
    if not count:  # nothing is left to be told
        erase_nodes(tx, _nodes(tx, document.id))
        tx.run("memory_is_published", values)
    _supersede(tx, document, seen.text, revision, now)
    if seen.logical_path == INDEX_NAME:
        put_links(tx, document.id, revision, seen.repository, seen.text, now)
    return revision


def _cut(tx: Tx, revision: int, text: str, now: int) -> int:
    rows = [
        {
            "revision": revision,
            "ordinal": ordinal,
            "heading_path": part.heading_path,
            "start": part.start,
            "end": part.end,
            "content": part.text,
            "hash": hash_of(part.text),
            "words": len(part.text.split()),
            "now": now,
        }
        for ordinal, part in enumerate(sections(text))
    ]
    tx.run_bulk("add_memory_chunk", rows)
    return len(rows)


def _supersede(tx: Tx, document: KnownDocument, text: str, revision: int, now: int) -> None:
    tx.run("end_memory_tickets", {"document": document.id, "revision": revision, "now": now})
    row = None if document.current is None else tx.one("memory_revision", {"id": document.current})
    if row is not None and row[4] is not None:
        change = change_between(row[4], text)
        told = {"id": row[0], "summary": change.summary, "diff": change.diff}
        tx.run("memory_is_superseded", told)


def _note(tx: Tx, document: int, change: str, hashed: str, summary: str, now: int) -> int:
    """Add a revision without a body, which only tells what happened to the file."""
    number = int(tx.value("next_memory_revision", {"document": document}))
    about = {"document": document, "number": number, "change": change, "summary": summary}
    body = {"hash": hashed, "text": None, "mtime_ms": now, "size": 0, "now": now}
    return tx.insert("add_memory_revision", {**_CHUNKER, **about, **body})


def _prune(tx: Tx, document: int, keep: Retention, now: int) -> None:
    before = now - keep.days * _DAY_MS
    tx.run("prune_memory_revisions", {"document": document, "before": before, "most": keep.most})


# ---------------------------------------------------------------------- what is gone


def _bury(tx: Tx, document: KnownDocument, now: int) -> None:
    number = document.id
    erase_nodes(tx, _nodes(tx, number))
    said = f"{document.logical_path!r} is no longer in {document.repository!r}"
    revision = _note(tx, number, "delete", "", said, now)
    tx.run("memory_is_gone", {"id": number, "revision": revision, "now": now})
    tx.run("end_memory_tickets", {"document": number, "revision": revision, "now": now})


def _nodes(tx: Tx, document: int) -> Iterable[int]:
    return [row[0] for row in tx.all("nodes_of_memory", {"document": document})]
