"""The archive: the lines of captured logs, compressed in blocks, each stored once.

A block is closed when it holds 256 KB. Where it begins and ends depends on the lines alone, not on
how they arrived: the last block of a log is taken up again and filled. So a log read in a hundred
pieces is stored like one read at once, and two logs with the same beginning share their blocks.
Only the end of a log that is being written lies in small blocks for a while.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from threadkeep.base.compression import (
    compress,
    compressed_size,
    decompress,
    has_checksum,
    is_compressed,
)
from threadkeep.base.json import encode
from threadkeep.base.text import from_sql, pattern
from threadkeep.base.tx import Tx
from threadkeep.base.words import index_text
from threadkeep.errors import Damaged
from threadkeep.knowledge.copies import COPY, is_here, new_numbers, parts_of
from threadkeep.knowledge.records import Entry
from threadkeep.knowledge.schema import ENTRY_WORDS

if TYPE_CHECKING:
    from threadkeep.knowledge.recent_entries import RecentEntries

BLOCK_BYTES: Final = 256 * 1024
_DIGEST_BYTES: Final = 16
_MOST_SMALL: Final = 32


def digest(data: bytes) -> bytes:
    """Name a piece of text by its content."""
    from hashlib import sha256  # noqa: PLC0415  (a list needs none, and it takes 2 ms)

    # SHA-256 because processors help with it: 1.0 ms a megabyte, BLAKE2b takes 1.9.
    return sha256(data).digest()[:_DIGEST_BYTES]


class _Block(NamedTuple):
    first: int
    lines: int
    id: int
    size: int  # of its text


class LineWriter:
    """Appends lines to one log inside a transaction; `finish` writes what is still open.

    A `live` one, for a log that grows line by line, leaves the open block as it is and puts the
    new lines beside it: to fill it up again for each line of 2 KB wrote 150 KB. What lies there in
    small blocks is put together when there are many, and by whoever writes next and is not live.
    """

    def __init__(self, tx: Tx, log_id: int, *, live: bool = False) -> None:
        """Take up what was left open at the end of the log, unless it is to grow beside it."""
        self._tx = tx
        self._log_id = log_id
        self._lines: list[bytes] = []
        self._bytes = 0
        self._first = 0
        self._stored: list[_Block] = []  # the blocks that hold the open lines so far
        self._changed = False
        last = [_Block(*row) for row in tx.all("last_blocks", {"log": log_id, "most": _MOST_SMALL})]
        if last:
            self._first = last[0].first + last[0].lines
        still_open = list(takewhile(lambda block: block.size < BLOCK_BYTES, last))
        if not live or _is_ripe(still_open):
            self._take_up(still_open[::-1])

    def _take_up(self, blocks: list[_Block]) -> None:
        for block in blocks:
            self._lines += read_block(self._tx, block.id)
            self._bytes += block.size
        if blocks:
            self._first = blocks[0].first
        self._stored = blocks

    @property
    def next_line(self) -> int:
        """The number that the next line gets."""
        return self._first + len(self._lines)

    def append(self, line: bytes) -> None:
        """Add one line, without its line feed."""
        self._lines.append(line)
        self._bytes += len(line) + 1
        self._changed = True
        if self._bytes >= BLOCK_BYTES:
            self._write()
            self._first += len(self._lines)
            self._lines, self._bytes, self._stored = [], 0, []

    def finish(self) -> None:
        """Store the lines that do not fill a block yet."""
        if self._changed and self._lines:
            self._write()

    def _write(self) -> None:
        text = b"".join([line + b"\n" for line in self._lines])
        block_id = store_block(self._tx, text)
        values = {"log": self._log_id, "first": self._first}
        if len(self._stored) > 1:
            self._tx.run("delete_log_blocks_behind", values)
        count = len(self._lines)
        self._tx.run("put_log_block", {**values, "block": block_id, "lines": count})
        for one in self._stored:
            if one.id != block_id:
                self._tx.run("drop_unused_block", {"block": one.id})
        self._stored = [_Block(self._first, count, block_id, len(text))]
        self._changed = False


def _is_ripe(blocks: list[_Block]) -> bool:
    """Tell whether what lies in small blocks is to be put together."""
    return len(blocks) >= _MOST_SMALL or sum(one.size for one in blocks) >= BLOCK_BYTES


def store_block(tx: Tx, text: bytes) -> int:
    """Store a block of lines, or find the one that is the same."""
    name = digest(text)
    found = tx.value("block_by_digest", {"digest": name})
    if found is not None:
        return int(found)
    values = {"digest": name, "size": len(text), "data": compress(text)}
    return tx.insert("insert_block", values)


def read_block(tx: Tx, block_id: int, *, proved: bool = True) -> list[bytes]:
    """Return the lines of a block; raises Damaged if they are not what was stored.

    Who shows a few lines needs no proof (`proved`): the checksum in the block tells of damage.
    """
    row = tx.one("read_block", {"block": block_id})
    if row is None:
        raise Damaged(f"block {block_id} of the archive is missing", hint="restore a backup")
    name, size, data = row
    try:
        text = decompress(data, size)
    except Damaged as error:
        msg = f"block {block_id} of the archive is damaged: {error.message}"
        raise Damaged(msg, hint=error.hint) from error
    if (proved or not has_checksum(data)) and digest(text) != name:
        raise Damaged(f"block {block_id} of the archive has changed", hint="restore a backup")
    return text.split(b"\n")[:-1]


def read_lines(tx: Tx, log_id: int, first: int = 0, count: int | None = None) -> Iterator[bytes]:
    """Yield the archived lines of a log, from a line on; at most `count` of them."""
    return islice(_lines_from(tx, log_id, first), count)


def _lines_from(tx: Tx, log_id: int, first: int) -> Iterator[bytes]:
    for begins, block_id in tx.all("blocks_from", {"log": log_id, "first": first}):
        yield from read_block(tx, block_id)[max(0, first - begins) :]


def read_blocks(tx: Tx, log_id: int) -> Iterator[tuple[int, list[bytes]]]:
    """Yield the blocks of a log: the number of the first line of each, and its lines."""
    for first, block_id in tx.all("blocks_from", {"log": log_id, "first": 0}):
        yield first, read_block(tx, block_id)


def rewrite_lines(tx: Tx, log_id: int, change: Callable[[int, bytes], bytes]) -> None:
    """Rewrite the lines of a log, block by block; blocks that nobody shares go."""
    blocks = [block for _, block in tx.all("blocks_from", {"log": log_id, "first": 0})]
    tx.run("delete_log_blocks", {"log": log_id})
    writer = LineWriter(tx, log_id)
    for block in blocks:
        for line in read_block(tx, block):
            writer.append(change(writer.next_line, line))
    writer.finish()
    for block in set(blocks):
        tx.run("drop_unused_block", {"block": block})


def drop_lines(tx: Tx, log_id: int) -> None:
    """Remove every line of a log, and the blocks that no other log shares."""
    blocks = [row[1] for row in tx.all("blocks_from", {"log": log_id, "first": 0})]
    tx.run("delete_log_blocks", {"log": log_id})
    for block_id in set(blocks):
        tx.run("drop_unused_block", {"block": block_id})


# ------------------------------------------------------------------------------
# Entries: rows that say where in the archive something stands, and the words it is found by.

_COLOURS: Final = pattern(r"\x1b\[[0-9;:?]*[ -/]*[@-~]")


class EntryLocation(NamedTuple):
    """An entry and its place in the archive."""

    entry: Entry
    line: int
    part: int


class EntryChanges(NamedTuple):
    """The entries that are new or have changed, and how many of them took another's place."""

    fresh: list[Entry]
    copies: list[Entry]  # the same, of those that another session has, too
    replaced: int


def text_hash(text: str) -> int:
    """Name a text by 64 bits: enough to see that an entry has changed, or is told twice."""
    data = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(digest(data)[:8], "big", signed=True)


Words = list[tuple[int, str]]  # the number of an entry, and the text it is found by


def write_entries(
    tx: Tx,
    log_id: int,
    session: int,
    placed: Iterable[EntryLocation],
    words: Words,
    recent: "RecentEntries | None" = None,
) -> EntryChanges:
    """Store entries of one session, in the order in which they were told.

    One that is told again as it was stays where it is; one that has changed takes its new place.
    What is to be indexed is added to `words`, for `index_words` before the commit. A copy is not:
    it is found where it was said first. `recent` takes what is stored.
    """
    told = list(placed)
    known = _known(tx, session, {one.entry.key for one in told})
    latest = _latest(known, told)
    numbers = new_numbers(tx, len(latest))
    origins = _Origins(tx, session)
    written = EntryChanges([], [], 0)
    rows, replaced = [], []
    for number, (key, ((entry, *place), hashed)) in zip(numbers, latest.items(), strict=True):
        if key in known:
            replaced.append({"id": known[key][0]})
        copied = bool(entry.origin) and origins.have(entry, number)
        kind = COPY if copied else entry.kind
        rows.append(_row(number, session, entry, (log_id, *place), (kind, hashed)))
        if entry.text and not copied:
            words.append((number, words_of(entry.text)))
        if recent is not None and not copied:
            recent.add(number, entry, hashed)
        (written.copies if copied else written.fresh).append(entry)
    if replaced:
        tx.run_bulk("delete_entry", replaced)
    tx.run_bulk("insert_entry", rows)
    origins.note()
    return written._replace(replaced=len(replaced))


class _Origins:
    """The sessions that entries of one session were copied from."""

    def __init__(self, tx: Tx, session: int) -> None:
        self._tx = tx
        self._session = session
        self._here: dict[str, bool] = {}
        self._lone: list[dict[str, object]] = []

    def have(self, entry: Entry, number: int) -> bool:
        """Tell whether the store has an entry where it was copied from; if not, note that."""
        origin = parts_of(entry.origin)
        if origin is None:
            return False
        if entry.origin not in self._here:
            self._here[entry.origin] = is_here(self._tx, origin, self._session)
        if not self._here[entry.origin]:
            harness, session_id = origin
            place = {"entry": number, "session": self._session}
            self._lone.append({**place, "harness": harness, "session_id": session_id})
        return self._here[entry.origin]

    def note(self) -> None:
        """Remember what may become a copy, and, unless it is known, what the session continues."""
        if self._lone:
            self._tx.run_bulk("put_lone_copy", self._lone)
        for origin in self._here:
            harness, _, session_id = origin.partition(":")
            values = {"session": self._session, "harness": harness, "session_id": session_id}
            self._tx.run("put_first_origin", values)


def words_of(text: str) -> str:
    """Give what a text is found by: without the colour codes that stick to words in a terminal."""
    return index_text(_COLOURS.sub(" ", text) if "\x1b" in text else text)


def _latest(
    known: dict[str, tuple[int, int]], told: list[EntryLocation]
) -> dict[str, tuple[EntryLocation, int]]:
    """Return what is to be written: of several tellings the first of the last text."""
    stands = {key: hashed for key, (_, hashed) in known.items()}
    latest: dict[str, tuple[EntryLocation, int]] = {}
    for one in told:
        hashed = text_hash(one.entry.text)
        if stands.get(one.entry.key) != hashed:
            stands[one.entry.key] = hashed
            latest[one.entry.key] = one, hashed
    return latest


def index_words(tx: Tx, words: Words) -> None:
    """Index the texts of entries, all those of a transaction at once.

    Between two other statements FTS5 writes out what it has gathered: one by one the same texts
    take twice the time, and leave an index in hundreds of pieces.
    """
    ENTRY_WORDS.put(tx, words)


def _known(tx: Tx, session: int, keys: Iterable[str]) -> dict[str, tuple[int, int]]:
    if tx.value("session_has_entries", {"session": session}) is None:
        return {}
    known = {}
    for key in keys:
        row = tx.one("entry_by_key", {"session": session, "key": key})
        if row is not None:
            known[key] = row
    return known


def _row(
    id_: int, session: int, entry: Entry, place: tuple[int, ...], what: tuple[str, int]
) -> dict[str, object]:
    log_id, line, part = place
    kind, hashed = what
    return {
        "id": id_,
        "session": session,
        "key": entry.key,
        "log_id": log_id,
        "line": line,
        "part": part,
        "role": entry.role,
        "kind": kind,
        "at": entry.at,
        "tool": entry.tool or None,
        "error": int(entry.error),
        "hash": hashed,
    }


# ------------------------------------------------------------------------------
# What capture remembers of each log: how it looked, how far it was read, its parser's state.

# Whose folders are known projects. Commands are read row by row: of a thousand that takes 3 ms.
_SESSIONS: Final = 1000
_COMMANDS: Final = 100
_LARGE_STATE: Final = 3072
_CURSORS: Final = {"codex": "codex", "cursor": "cursor-agent"}  # how Hippo calls their logs


class LogRow(msgspec.Struct):
    """One log that was found, and how far it has been read."""

    reader: str
    harness: str
    path: str
    item: str = ""
    id: int = 0  # 0: not stored yet
    session_id: str = ""
    size: int = 0
    mtime_ns: int = 0
    device: int = 0
    inode: int = 0
    fingerprint: str = ""
    read_to: int = 0
    head: bytes | None = None
    head_size: int = 0
    tail: bytes | None = None
    lines: int = 0
    bad_lines: int = 0
    source_bytes: int = 0
    parser: bytes | None = None
    excluded: bool = False
    captured_at: int | None = None
    gone_at: int | None = None
    error: str | None = None
    # What `load_marks` fills in; what is None is not changed when the row is saved.
    ctime_ns: int | None = None
    crc: int | None = None
    checked_at: int | None = None


class LogState(msgspec.Struct, gc=False):
    """How a log looked when it was last read, all that deciding whether to read it again needs."""

    id: int
    stamp: tuple[int, ...]  # size, mtime, device, inode, ctime
    head: bytes | None
    head_size: int
    read_to: int
    tail: bytes | None
    gone: bool
    failed: bool
    excluded_by: str | None  # the name of the rules that kept it, or sessions in it, out
    crc: int | None  # of all that was read; None: nobody has summed it up yet
    checked_at: int | None  # when all that was read was last compared with that
    captured_at: int | None

    def is_untouched(self, stamp: tuple[int, ...]) -> bool:
        """Tell whether nobody did anything to a log; of older versions no ctime is known."""
        return self.stamp == stamp or (not self.stamp[4] and self.is_current(stamp))

    def is_current(self, stamp: tuple[int, ...]) -> bool:
        """Tell whether a log has the size and time it had: all that programs write shows there."""
        return self.stamp[:4] == stamp[:4]

    @property
    def is_checked(self) -> bool:
        """Tell whether nothing was read since all of it was compared."""
        return self.crc is not None and (self.checked_at or 0) >= (self.captured_at or 0)


def keeps_sums(tx: Tx) -> bool:
    """Tell whether a file that is only looked at was ever open for writing in this version."""
    return "crc" in tx.columns("tk_logs")


def all_looks(tx: Tx, reader: str, *, sums: bool = True) -> dict[str, LogState]:
    """Return how every log of one source looked, by its path; `sums` is what `keeps_sums` says."""
    query = "log_looks" if sums else "old_log_looks"
    return {from_sql(row[0]): _looks(*row[1:]) for row in tx.all(query, {"reader": reader})}


def _looks(id_: int, *row: Any) -> LogState:
    head, head_size, read_to, tail, gone, failed, *marks = row[5:]
    read = (head, head_size, read_to, tail)
    return LogState(id_, row[:5], *read, bool(gone), bool(failed), *marks)


def load_marks(tx: Tx, row: LogRow) -> LogRow:
    """Fill in what is remembered of the bytes that were read of a log."""
    marks = tx.one("log_marks", {"id": row.id})
    if marks is not None:
        row.ctime_ns, row.crc, row.checked_at = marks
    return row


def known_projects(tx: Tx) -> list[Path]:
    """Return the folders in which agents and shells worked lately, or that hold a log."""
    limits = {"sessions": _SESSIONS, "commands": _COMMANDS}
    rows = tx.all("known_projects", limits)
    folders = {from_sql(row[0]) for row in rows if row[0]}
    folders.update(os.path.dirname(from_sql(row[0])) for row in tx.all("logs_in_projects"))  # noqa: PTH120
    return sorted(Path(folder) for folder in folders if folder.startswith("/"))


def load_log(tx: Tx, reader: str, path: str, item: str = "") -> LogRow | None:
    """Return the row of a log, None if it was never seen."""
    row = tx.one("log_by_place", {"reader": reader, "path": path, "item": item})
    return None if row is None else _log(row)


def load_log_by_id(tx: Tx, log_id: int) -> LogRow | None:
    """Return the row of a log by its number."""
    row = tx.one("log_by_id", {"id": log_id})
    return None if row is None else _log(row)


def logs_of_session(tx: Tx, harness: str, session_id: str) -> list[LogRow]:
    """Return the logs in which a session stands, in the order in which they were found."""
    rows = tx.all("logs_of_session", {"harness": harness, "session_id": session_id})
    return [_log(row) for row in rows]


def all_logs(tx: Tx, harness: str | None = None) -> list[LogRow]:
    """Return every log, or those of one agent."""
    return [_log(row) for row in tx.all("all_logs", {"harness": harness})]


def fingerprints(tx: Tx, reader: str, path: str) -> dict[str, str]:
    """Return the fingerprint under which each session of a database was read last."""
    return dict(tx.all("log_fingerprints", {"reader": reader, "path": path}))


def save_log(tx: Tx, log: LogRow) -> None:
    """Store a log; a new one gets its number."""
    values = {name: getattr(log, name) for name in LogRow.__struct_fields__}
    values["parser"] = _packed(log.parser)
    if log.id:
        tx.run("update_log", values)
        tx.run("place_log", values)
    else:
        log.id = tx.insert("insert_log", values)


def mark_gone(tx: Tx, log_id: int, now: int) -> None:
    """Note that a log is not on the disk any more."""
    tx.run("log_is_gone", {"id": log_id, "now": now})


def has_entries(tx: Tx, log_id: int) -> bool:
    """Tell whether anything is stored that was said in a log."""
    return tx.value("log_has_entries", {"log": log_id}) is not None


def sessions_of_log(tx: Tx, log: LogRow) -> dict[str, int]:
    """Return the numbers of the sessions that a log is of, by their ids."""
    values = {"log": log.id, "harness": log.harness, "session_id": log.session_id}
    return dict(tx.all("sessions_of_log", values))


def told_by_line(tx: Tx, log_id: int) -> dict[int, list[int]]:
    """Return the sessions that the entries of each line of a log belong to, one for each entry."""
    told: defaultdict[int, list[int]] = defaultdict(list)
    for line, session in tx.all("entry_sessions_of_log", {"log": log_id}):
        told[line].append(session)
    return told


def records_of(tx: Tx, log_id: int, keys: list[str] | None = None) -> dict[str, tuple[bytes, int]]:
    """Return the records of a document by their keys, all or some: digest and line of each."""
    query = "known_records" if keys is None else "records_by_key"
    rows = tx.all(query, {"log": log_id, "keys": encode(keys)})
    return {key: (name, line) for key, name, line in rows}


def put_record(tx: Tx, log_id: int, key: str, name: bytes, line: int) -> None:
    """Store where a record of a document stands, and the digest of its text."""
    tx.run("put_record", {"log": log_id, "key": key, "digest": name, "line": line})


def folders_of_log(tx: Tx, log: LogRow) -> tuple[str, str, str | None, bool]:
    """Return what segments know of their log: project, folder, the parent, whether a subagent."""
    kept = tx.one("project_of_log", {"harness": log.harness, "path": log.path})
    project, cwd, parent, is_subagent = kept or ("", "", None, 0)
    return project, cwd, parent, bool(is_subagent)


def count_unknown(tx: Tx, log: LogRow, kind: str, count: int, now: int) -> None:
    """Count records of a log that nobody understood."""
    values = {"harness": log.harness, "kind": kind, "count": count, "log": log.id, "now": now}
    tx.run("count_unknown", values)


def tell_hippo(tx: Tx, log: LogRow, path: str, now: int) -> None:
    """Tell the contract's own readers that they need not read a file again."""
    values = {"session_id": log.session_id, "now": now}
    if log.harness == "claude-code":
        looks = {"size": log.size, "inode": log.inode, "device": log.device}
        tx.run("put_offset", {**values, **looks, "path": path})
    elif log.harness in _CURSORS:
        cursor = {"key": _cursor(log), "mtime": max(0, log.mtime_ns) // 1_000_000}
        tx.run("put_cursor", {**cursor, "last_id": log.session_id, "now": now})


def _cursor(log: LogRow) -> str:
    return f"{_CURSORS.get(log.harness, log.harness)}-{log.inode}"


def drop_log(tx: Tx, log: LogRow, session_id: str) -> None:
    """Take a log out with its lines and entries, and what Hippo knows of it for a session."""
    drop_lines(tx, log.id)
    tx.run("drop_offsets", {"session_id": session_id, "path": log.path})
    tx.run("drop_parity", {"path": log.path})
    tx.run("drop_cursors", {"session_id": session_id, "key": _cursor(log)})
    for step in ("entries", "records", "masks", "unknown"):
        tx.run(f"delete_log_{step}", {"log": log.id})
    tx.run("delete_log", {"log": log.id})


def drop_entries(tx: Tx, log_id: int) -> None:
    """Take out the entries of a log; its lines stay."""
    tx.run("delete_log_entries", {"log": log_id})


def _log(row: tuple[Any, ...]) -> LogRow:
    log = LogRow(*row)
    log.path = from_sql(log.path)  # a name that is no UTF-8 is stored as bytes
    log.excluded = bool(log.excluded)
    log.parser = _unpacked(log.parser)
    return log


def _packed(state: bytes | None) -> bytes | None:
    """Compress a state that does not fit into a page: it is written with every line."""
    return state if state is None or len(state) < _LARGE_STATE else compress(state)


def _unpacked(state: bytes | None) -> bytes | None:
    if state is None or not is_compressed(state):
        return state
    try:
        return decompress(state, compressed_size(state))
    except Damaged:
        return state  # its parser cannot read it either, and whoever asks it says so


def drop_notes(tx: Tx, reader: str, harness: str, session_id: str) -> None:
    """Take out what only notes told of a session, with the log that they were kept as."""
    named = {"harness": harness, "session_id": session_id}
    for log, session in tx.all("notes_of_session", {**named, "reader": reader}):
        drop_lines(tx, log)
        for step in ("delete_log_entries", "delete_log_records", "delete_log_unknown"):
            tx.run(step, {"log": log})
        tx.run("delete_log", {"log": log})
        tx.run("drop_usage_of_notes", named)
        if session is not None:
            tx.run("recount_session", {"session": session})
            tx.run("unname_noted", {"session": session})


TAIL_BYTES: Final = 256
