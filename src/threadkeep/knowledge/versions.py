"""What a file's schema version means, and what to do about it."""

from typing import Final, Literal

import msgspec

SCHEMA_VERSION: Final = 18
# Versions up to this one renamed and dropped tables of the frozen family only: what we read stays.
NEWEST_READABLE: Final = 23

Kind = Literal["empty", "older", "current", "newer", "unknown", "no version"]
_BY_HAND = "do not set user_version by hand: it says that a step was made, and makes none"


class Finding(msgspec.Struct, frozen=True):
    """A schema version, what it comes from, and the next step."""

    version: int
    kind: Kind
    cause: str
    fix: str
    readable: bool = False
    writable: bool = False


def explain_version(version: int) -> Finding:
    """Say what a version means for this program, and how to go on."""
    if version == SCHEMA_VERSION:
        cause = "this is the version that we write"
        return Finding(version, "current", cause, "", readable=True, writable=True)
    if version == 0:
        return _empty()
    if version < 0:
        return _no_version(version)
    if version < SCHEMA_VERSION:
        return _older(version)
    return _newer(version) if version <= NEWEST_READABLE else _unknown(version)


def _empty() -> Finding:
    cause = "the file has no version yet: it is new, or was left while it was made"
    fix = "open it for writing, which makes them; Hippo's daemon does the same when it starts"
    return Finding(0, "empty", cause, fix, writable=True)


def _no_version(version: int) -> Finding:
    cause = f"no program writes schema version {version}: the file's header is damaged"
    fix = "restore a backup with `threadkeep restore`; keep the file"
    return Finding(version, "no version", cause, fix)


def _older(version: int) -> Finding:
    cause = (
        f"the file was last written at schema version {version}, by a Hippo older than"
        f" version {SCHEMA_VERSION}; nothing has brought it up since"
    )
    fix = (
        "open it for writing or run `threadkeep knowledge migrate` on it: a backup is made first,"
        f" then the file goes forward step by step; {_BY_HAND}"
    )
    return Finding(version, "older", cause, fix, writable=True)


def _newer(version: int) -> Finding:
    cause = (
        f"a newer Hippo has brought the file to schema version {version};"
        f" this program writes version {SCHEMA_VERSION}"
    )
    fix = (
        "upgrade threadkeep; until then the file can be read. There is no way back but a backup"
        f" from before the upgrade; {_BY_HAND}"
    )
    return Finding(version, "newer", cause, fix, readable=True)


def _unknown(version: int) -> Finding:
    cause = (
        f"schema version {version} is newer than any this program knows"
        f" (it writes {SCHEMA_VERSION} and reads up to {NEWEST_READABLE})"
    )
    fix = (
        "upgrade threadkeep, or restore a backup from before the upgrade with"
        f" `threadkeep restore`; {_BY_HAND}"
    )
    return Finding(version, "unknown", cause, fix)
