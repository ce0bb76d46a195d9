"""Memories: files of notes that are taken whole, and missed when they are gone."""

import os
from pathlib import Path
from typing import Final

from threadkeep.base.tx import Tx
from threadkeep.capture.context import CaptureContext
from threadkeep.capture.exclusion import Exclusion
from threadkeep.capture.report import HarnessReport
from threadkeep.capture.sight import SourceLogs, is_below
from threadkeep.knowledge.forgetting import is_forgotten_memory
from threadkeep.knowledge.health import note_failure, note_success
from threadkeep.knowledge.memory_intake import (
    KEPT,
    Absent,
    Retention,
    SeenMemory,
    absent_memories,
    put_memory,
)
from threadkeep.knowledge.memory_names import SOURCE_KIND, document_uuid, hash_of
from threadkeep.sources.claude_memory import ClaudeMemory
from threadkeep.sources.claude_paths import readable
from threadkeep.sources.files import LogFile
from threadkeep.sources.records import Log, Source

# A file that was written a moment ago may be half of itself: it is taken at the next look.
_SETTLED_NS: Final = 250_000_000
_NOT_UTF8: Final = "\N{REPLACEMENT CHARACTER}"


def retention_of(source: Source) -> Retention:
    """Tell how long a source's memories are kept."""
    return source.keep if isinstance(source, ClaudeMemory) else KEPT


def read_memory(around: CaptureContext, log: Log) -> SeenMemory | None:
    """Read a file and mask its secrets; None while somebody writes it."""
    with LogFile(log.path, log.root) as file:
        data = file.whole()
        if os.stat(log.path).st_mtime_ns != file.stamp.mtime_ns:
            return None
        stamp = file.stamp
    plain = data.decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\r", "\n")
    plain = plain.replace("\0", " ")
    masked = around.mask(plain.encode(), b"", b"").data.decode("utf-8", "replace")
    return SeenMemory(
        repository=log.project_dir,
        logical_path=log.session_id,
        source_path=_place(log.path),
        text=masked,
        mtime_ms=stamp.mtime_ns // 1_000_000,
        size=stamp.size,
        source_hash=hash_of(plain),
    )


def _place(path: str) -> str:
    """Give where a file really lies, as a text: names need not be UTF-8."""
    return readable(os.path.realpath(path))


def _may_be_there(place: str) -> bool:
    """Tell whether a file is still there; one whose name is no UTF-8 cannot be asked for."""
    return _NOT_UTF8 in place or Path(place).is_file()


def is_settled(log: Log, now: int) -> bool:
    """Tell whether nobody has written a file just now."""
    return now * 1_000_000 - log.stamp.mtime_ns >= _SETTLED_NS


def store_memory(
    tx: Tx, seen: SeenMemory, now: int, report: HarnessReport, keep: Retention
) -> None:
    """Store a file; one that was forgotten, or was in these very words, stays out."""
    if is_forgotten_memory(tx, document_uuid(seen.repository, seen.logical_path), [seen.text]):
        report.excluded += 1
        return
    put = put_memory(tx, seen, now=now, is_there=_may_be_there, keep=keep)
    if put.is_new:
        report.memories += 1
        report.source_bytes += seen.size
    note_success(tx, SOURCE_KIND, last_event=now, count=int(put.is_new), now=now)


def note_trouble(tx: Tx, path: str, said: str, now: int) -> None:
    """Count a file that could not be read as a failure of the capture of memories."""
    note_failure(tx, SOURCE_KIND, readable(f"{path}: {said}"), now)


def is_excluded(exclusion: Exclusion, log: Log) -> bool:
    """Tell whether a memory belongs to a project that the user keeps out.

    Claude names the folder of a project after its path, in a way that cannot be undone: patterns of
    folders are named in the same way.
    """
    if exclusion.of_log(log):
        return True
    slug = Path(log.path).parent.parent.name
    folders = (one.rstrip("/") for one in exclusion.patterns if one.startswith("/"))
    return any(slug == name or slug.startswith(f"{name}-") for name in map(_slug, folders))


def _slug(folder: str) -> str:
    return "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in folder)


def absent_from(
    around: CaptureContext, source: Source, sight: SourceLogs
) -> list[tuple[Absent, Retention]]:
    """Give the documents whose file a look should have found and did not."""
    found = {_place(log.path) for log in sight.logs}
    roots = {place for root in sight.roots for place in (root, os.path.realpath(root))}

    def is_missing(path: str) -> bool:
        return path not in found and is_below(path, roots) and not sight.hides(path)

    keep = retention_of(source)
    with around.db.read() as tx:
        missing = absent_memories(tx, is_missing, now=around.clock(), keep=keep)
    return [(one, keep) for one in missing]
