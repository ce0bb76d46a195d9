"""What a file's schema version means, what each one changed since 18, and what to do about it.

What differs between versions stands in `CHANGES` and nowhere else: fresh files, the steps between
versions and the queries that fit a file are all made from it.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

import msgspec

# The version of new stores, and the first one that can be read.
SCHEMA_VERSION: Final = 18
# The versions that are written; a file between them is brought to the next one.
WRITTEN: Final = (SCHEMA_VERSION, 23)
NEWEST: Final = WRITTEN[-1]

Kind = Literal["empty", "older", "between", "current", "unknown", "no version"]
_BY_HAND = "do not set user_version by hand: it says that a step was made, and makes none"
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class VersionChange(NamedTuple):
    """What one version changed in a file; its script is `NNNN_name.sql`, if it adds tables."""

    number: int
    name: str
    tables: tuple[str, ...] = ()  # added
    dropped: tuple[str, ...] = ()  # those that refer to others first
    renamed: Mapping[str, str] = _NOTHING  # new table -> the one whose rows it took over
    health: tuple[str, ...] = ()  # rows that source_health begins with
    beside: str = ""  # a script of ours, for what its Hippo does otherwise
    hides: bool = False  # Hippo shows no node that rests on nothing settled


CHANGES: Final = (
    VersionChange(
        *(19, "memory"),
        tables=(
            *("memory_documents", "memory_revisions", "memory_chunks", "memory_enrichment_queue"),
            "knowledge_node_memory_chunks",
        ),
        health=("claude-auto-memory",),
        hides=True,
    ),
    VersionChange(
        20, "memory_links", tables=("memory_document_categories", "memory_document_links")
    ),
    VersionChange(21, "memory_watcher", health=("auto-memory-watcher",)),
    VersionChange(
        *(22, "offsets", ("agentic_session_offsets",)),
        renamed={"agentic_session_offsets": "claude_session_offsets"},
    ),
    VersionChange(
        *(23, "no_frozen_family"),
        dropped=(
            *("knowledge_node_claude_sessions", "claude_enrichment_queue", "claude_sessions"),
            *("claude_session_parity", "claude_session_offsets"),
        ),
        beside="tk_own_tickets.sql",
    ),
)


def changes_until(version: int) -> Iterator[VersionChange]:
    """Give what changed since 18 in a file of a version."""
    return (change for change in CHANGES if change.number <= version)


def target_of(version: int | None, wanted: int = SCHEMA_VERSION) -> int:
    """Give the version that a file is brought to when it is written, if `wanted` is asked for.

    There is no way back: a file beyond `wanted` stays, or goes on to the next that is written.
    """
    least = max(version or 0, wanted)
    return next((written for written in WRITTEN if written >= least), NEWEST)


class SchemaFinding(msgspec.Struct, frozen=True):
    """A schema version, what it comes from, and the next step."""

    version: int
    kind: Kind
    cause: str
    fix: str
    readable: bool = False
    writable: bool = False


def explain_version(version: int) -> SchemaFinding:
    """Say what a version means for this program, and how to go on."""
    if version in WRITTEN:
        cause = "this is the version that we write"
        if version != SCHEMA_VERSION:
            cause = "this is a version that we write, and the one of today's Hippo"
        return SchemaFinding(version, "current", cause, "", readable=True, writable=True)
    if version == 0:
        return _empty()
    if version < 0:
        return _no_version(version)
    if version < SCHEMA_VERSION:
        return _older(version)
    return _between(version) if version < NEWEST else _unknown(version)


def _empty() -> SchemaFinding:
    cause = "the file has no version yet: it is new, or was left while it was made"
    fix = "open it for writing, which makes them; Hippo's daemon does the same when it starts"
    return SchemaFinding(0, "empty", cause, fix, writable=True)


def _no_version(version: int) -> SchemaFinding:
    cause = f"no program writes schema version {version}: the file's header is damaged"
    fix = "restore a backup with `threadkeep restore`; keep the file"
    return SchemaFinding(version, "no version", cause, fix)


def _older(version: int) -> SchemaFinding:
    cause = (
        f"the file was last written at schema version {version}, by a Hippo older than"
        f" version {SCHEMA_VERSION}; nothing has brought it up since"
    )
    fix = (
        "open it for writing or run `threadkeep knowledge migrate` on it: a backup is made first,"
        f" then the file goes forward step by step; {_BY_HAND}"
    )
    return SchemaFinding(version, "older", cause, fix, writable=True)


def _between(version: int) -> SchemaFinding:
    cause = (
        f"schema version {version} lies between those that we write"
        f" ({' and '.join(map(str, WRITTEN))}): nothing has brought the file up since"
    )
    fix = (
        f"open it for writing or run `threadkeep knowledge migrate --to {NEWEST}` on it: a backup"
        f" is made first. Until then it can be read; {_BY_HAND}"
    )
    return SchemaFinding(version, "between", cause, fix, readable=True, writable=True)


def _unknown(version: int) -> SchemaFinding:
    cause = (
        f"a newer Hippo has brought the file to schema version {version};"
        f" this program knows versions up to {NEWEST}, and reads of it what it knows"
    )
    fix = (
        "upgrade threadkeep; until then the file can be read. There is no way back but a backup"
        f" from before the upgrade; {_BY_HAND}"
    )
    return SchemaFinding(version, "unknown", cause, fix, readable=True)
