"""The archive: the lines of captured logs, compressed in blocks, each stored once.

A block is closed when it holds 256 KB. Where it begins and ends depends on the lines alone, not on
how they arrived: the last block of a log is taken up again and filled. So a log read in a hundred
pieces is stored like one read at once, and two logs with the same beginning share their blocks.
Only the end of a log that is being written lies in small blocks for a while.
"""

import hashlib
from collections.abc import Iterator
from itertools import islice, takewhile
from typing import Final, NamedTuple

from threadkeep.base.compression import compress, decompress
from threadkeep.base.tx import Tx
from threadkeep.errors import Damaged

BLOCK_BYTES: Final = 256 * 1024
_DIGEST_BYTES: Final = 16
_MOST_SMALL: Final = 32


def digest(data: bytes) -> bytes:
    """Name a piece of text by its content."""
    # SHA-256 because processors help with it: 1.0 ms a megabyte, BLAKE2b takes 1.9.
    return hashlib.sha256(data).digest()[:_DIGEST_BYTES]


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


def read_block(tx: Tx, block_id: int) -> list[bytes]:
    """Give the lines of a block; raises Damaged if they are not what was stored."""
    row = tx.one("read_block", {"block": block_id})
    if row is None:
        raise Damaged(f"block {block_id} of the archive is missing", hint="restore a backup")
    name, size, data = row
    try:
        text = decompress(data, size)
    except Damaged as error:
        msg = f"block {block_id} of the archive is damaged: {error.message}"
        raise Damaged(msg, hint=error.hint) from error
    if digest(text) != name:
        raise Damaged(f"block {block_id} of the archive has changed", hint="restore a backup")
    return text.split(b"\n")[:-1]


def read_lines(tx: Tx, log_id: int, first: int = 0, count: int | None = None) -> Iterator[bytes]:
    """Yield the archived lines of a log, from a line on; at most `count` of them."""
    return islice(_lines_from(tx, log_id, first), count)


def _lines_from(tx: Tx, log_id: int, first: int) -> Iterator[bytes]:
    for begins, block_id in tx.all("blocks_from", {"log": log_id, "first": first}):
        yield from read_block(tx, block_id)[max(0, first - begins) :]


def drop_lines(tx: Tx, log_id: int) -> None:
    """Remove every line of a log, and the blocks that no other log shares."""
    blocks = [row[1] for row in tx.all("blocks_from", {"log": log_id, "first": 0})]
    tx.run("delete_log_blocks", {"log": log_id})
    for block_id in set(blocks):
        tx.run("drop_unused_block", {"block": block_id})
