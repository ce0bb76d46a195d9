"""Checks of files: the engine, the disk, each store's version, soundness, permissions, backups."""

from collections.abc import Iterator
from typing import Final

from threadkeep.service.doctor.facts import DiskFacts, DoctorFacts, Finding, Level, StoreFacts, ok

_MB: Final = 1 << 20
_LITTLE_ROOM: Final = 500 * _MB
_NO_ROOM: Final = 100 * _MB
_LONG_LOG: Final = 64 * _MB
DAY_MS: Final = 86_400_000
_OLD_BACKUP_DAYS: Final = 7
_OLD_CHECK_DAYS: Final = 30
_DOC: Final = "docs/reliability.md"
_MACHINE: Final = "machine"


def check_machine(facts: DoctorFacts) -> Iterator[Finding]:
    """Judge the program, its SQLite, its configuration and the disk."""
    yield ok(_MACHINE, "program", f"threadkeep {facts.version}, home {facts.home}")
    yield _engine(facts)
    if facts.config_trouble:
        cause = "the configuration file cannot be used, so all its settings are ignored"
        fix = f"edit the file: {facts.config_trouble}"
        yield Finding(_MACHINE, "config", "fail", facts.config_trouble, cause, fix)
    if facts.disk is not None:
        yield from _disk(facts.disk)


def _engine(facts: DoctorFacts) -> Finding:
    said = f"SQLite {facts.engine.version}"
    if not facts.engine.wal_reset_race:
        return ok(_MACHINE, "engine", said)
    return Finding(
        *(_MACHINE, "engine", "info"),
        f"{said} has the WAL-reset race; the writer lock keeps our own programs away from it",
        "versions before 3.51.3 can damage a file that two programs checkpoint at the same moment",
        "use a Python whose SQLite is 3.51.3 or newer, if other programs write these files, too",
        _DOC,
    )


def _disk(disk: DiskFacts) -> Iterator[Finding]:
    if disk.free is not None:
        said = f"{disk.free // _MB:,} MB free for {disk.path}"
        cause = "a full disk stops capture and recording; stored data is safe"
        fix = f"df -h {disk.path}"
        if disk.free < _LITTLE_ROOM:
            level: Level = "fail" if disk.free < _NO_ROOM else "warn"
            yield Finding(_MACHINE, "disk", level, said, cause, fix, _DOC)
        else:
            yield ok(_MACHINE, "disk", said)
    if not disk.wal_allowed:
        said = f"{disk.path} is on {disk.kind}, where a write-ahead log is not safe"
        cause = "locks and shared memory do not work across hosts: slower journals are used there"
        fix = "export THREADKEEP_HOME=a folder on a local disk"
        yield Finding(_MACHINE, "file system", "info", said, cause, fix, _DOC)


# ---------------------------------------------------------------------- one store


def check_store(store: StoreFacts, facts: DoctorFacts) -> Iterator[Finding]:
    """Judge the file of one store."""
    if not store.exists:
        yield Finding(store.name, "file", "info", f"not created yet: {store.path}")
        return
    yield from _modes(store)
    if store.trouble:
        yield _unusable(store)
        return
    yield _version(store)
    yield _soundness(store)
    yield from _index(store)
    yield from _log(store, facts)
    yield from _writer(store)
    yield _backup(store, facts.now)
    yield _deep(store, facts.now)


def _unusable(store: StoreFacts) -> Finding:
    fixes = {
        "damaged": _restoring(store),
        "locked": f"fuser -v {store.path}",
        "newer": "pip install --upgrade threadkeep",
        "foreign": f"mv {store.path} {store.path}.other",
        "closed": f"chmod 600 {store.path}",
    }
    causes = {
        "damaged": "pages of the file were torn or overwritten",
        "locked": "another program has locked the file exclusively",
        "newer": "a newer program upgraded the file to a version this one must not write",
        "foreign": "another program's file is in this place",
        "closed": "the permissions of the file or its folder deny access",
    }
    cause, fix = causes[store.trouble], fixes[store.trouble]
    check = "version" if store.trouble in {"newer", "foreign"} else "file"
    return Finding(store.name, check, "fail", store.said, cause, fix, _DOC)


def _version(store: StoreFacts) -> Finding:
    said = f"schema version {store.version}, {store.path}"
    if not store.older:
        return ok(store.name, "version", said)
    cause = "an older program wrote the file last, and it was not upgraded since"
    mends = {"knowledge": "threadkeep knowledge migrate", "chat": "threadkeep chat verify"}
    fix = mends.get(store.name, f"threadkeep {store.name} check")
    return Finding(store.name, "version", "warn", said, cause, fix, f"docs/{store.name}.md")


def _soundness(store: StoreFacts) -> Finding:
    if store.problems:
        more = f" and {len(store.problems) - 1} more" if len(store.problems) > 1 else ""
        cause = "pages of the file were torn or overwritten: a disk, a crash, or a plain copy of it"
        said = " ".join(f"{store.problems[0]}{more}".split())  # SQLite says it in several lines
        return Finding(store.name, "integrity", "fail", said, cause, _restoring(store), _DOC)
    said = "all pages are intact" if store.whole else "the header and small tables are intact"
    return ok(store.name, "integrity", f"{said}, {store.bytes / _MB:,.1f} MB")


def _index(store: StoreFacts) -> Iterator[Finding]:
    if store.unindexed:
        said = f"{store.unindexed:,} rows are missing in the full-text index, or differ there"
        cause = "the index was written by another program, or damaged; what it is made of is intact"
        fix = "threadkeep doctor --repair"
        yield Finding(store.name, "index", "fail", said, cause, fix, _DOC)


def _modes(store: StoreFacts) -> Iterator[Finding]:
    for one in store.open_modes:
        said = f"{one.path} has mode {one.mode:04o}: others may read it"
        cause = "it was made or changed by another program, or with another umask"
        fix = f"chmod {one.wanted:o} {one.path}"
        yield Finding(store.name, "permissions", "warn", said, cause, fix, _DOC)


def _log(store: StoreFacts, facts: DoctorFacts) -> Iterator[Finding]:
    if store.wal_bytes > _LONG_LOG:
        who = store.reader or "a reader"
        said = f"the write-ahead log has grown to {store.wal_bytes // _MB:,} MB"
        cause = f"{who} keeps an old snapshot of the file open, so the log cannot be emptied"
        fix = f"fuser -v {store.path}"
        yield Finding(store.name, "log", "warn", said, cause, fix, _DOC)
    disk = facts.disk
    if disk is not None and not disk.wal_allowed and store.journal == "wal":
        said = f"it uses a write-ahead log on {disk.kind}"
        cause = "such a file was damaged within a minute on file systems of this kind"
        fix = f"mv {store.path} to a local disk, and name it in [stores] {store.name}"
        yield Finding(store.name, "file system", "fail", said, cause, fix, _DOC)


def _writer(store: StoreFacts) -> Iterator[Finding]:
    if store.writer:
        said = f"{store.writer} holds the write lock and does not release it"
        cause = "all other writers wait for it"
        fix = f"fuser -v {store.path}"
        yield Finding(store.name, "lock", "warn", said, cause, fix, _DOC)
    elif store.users:
        yield ok(store.name, "processes", "in use by " + ", ".join(store.users))


def _backup(store: StoreFacts, now: int) -> Finding:
    fix = f"threadkeep backup --store {store.name}"
    if store.last_backup is None:
        cause = "`threadkeep serve` makes one each day; none was made here"
        return Finding(store.name, "backup", "info", "no backup", cause, fix, _DOC)
    days = max(0, now - store.last_backup) // DAY_MS
    if days < _OLD_BACKUP_DAYS:
        made = f"{_days(days)} ago" if days else "today"
        return ok(store.name, "backup", f"last backup: {made}")
    cause = "none was made since; `threadkeep serve` makes one each day"
    said = f"last backup: {_days(days)} ago"
    return Finding(store.name, "backup", "warn", said, cause, fix, _DOC)


def _deep(store: StoreFacts, now: int) -> Finding:
    deep, fix = store.deep, "threadkeep doctor --deep"
    if deep is None:
        cause = "hashes and full-text indexes are only compared by a deep check"
        return Finding(store.name, "deep check", "info", "none yet", cause, fix, _DOC)
    days = max(0, now - deep.checked_at) // DAY_MS
    when = f"{_days(days)} ago" if days else "today"
    if deep.problems:
        more = f" and {len(deep.problems) - 1} more" if len(deep.problems) > 1 else ""
        return Finding(
            *(store.name, "deep check", "fail", f"{deep.problems[0]}{more} (found {when})"),
            "stored data differs from its own hash or from its index",
            _mending(store, deep.problems[0]),
            _DOC,
        )
    if days < _OLD_CHECK_DAYS:
        return ok(store.name, "deep check", f"sound {when}, in {deep.took_ms / 1000:.1f} s")
    cause = "later changes to the file were not checked"
    return Finding(store.name, "deep check", "info", f"sound {when}", cause, fix, _DOC)


def _mending(store: StoreFacts, problem: str) -> str:
    """Return the command that mends what a deep check found: an index is rebuilt."""
    if "index" not in problem:
        return _restoring(store)
    return "threadkeep state reindex" if store.name == "state" else "threadkeep doctor --repair"


def _restoring(store: StoreFacts) -> str:
    """Return the command that brings a damaged store back: its backup, else what can be read."""
    if store.last_backup is not None:
        return f"threadkeep restore last --store {store.name}"
    return f"sqlite3 {store.path} .recover | sqlite3 {store.path}.recovered"


def _days(days: int) -> str:
    return f"{days} day{'' if days == 1 else 's'}"
