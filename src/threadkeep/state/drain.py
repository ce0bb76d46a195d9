"""Filling our index behind a cursor: outside of anybody's message, a batch at a time.

The cursor (`tk_meta` 'indexed') is the last message the index has seen; messages behind it that
changed since are in `tk_dirty`. A search reads what is not indexed yet by itself, so nothing
depends on when this runs.
"""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from threadkeep.base.fts import FullTextError
from threadkeep.base.tx import Row, Tx
from threadkeep.errors import ThreadkeepError
from threadkeep.state.activity import write_down
from threadkeep.state.context import StateContext
from threadkeep.state.exact import readable_text
from threadkeep.state.index_text import NAMES_FROM, Document, Parts, document_of
from threadkeep.state.layout import QUERIES
from threadkeep.state.rows import adopt_message, messages_of

log = logging.getLogger(__name__)

_BATCH: Final = 1_100
_BATCH_CHARACTERS: Final = 4_000_000  # a batch of pictures must not fill the memory
# A batch keeps writers waiting for about 20 ms; with four times as many it was 80 ms, and with four
# writers one wait in a thousand is such a one.
_EVERY: Final = 1024
_PATIENCE: Final = 0.05
_NO_LIMIT: Final = float("inf")


class IndexProgress(NamedTuple):
    """How far the index is: the last message it has seen, and how many wait to be read."""

    cursor: int
    last: int
    dirty: int

    @property
    def waiting(self) -> int:
        """At most so many messages are not in the index."""
        return max(0, self.last - self.cursor) + self.dirty


def how_far(tx: Tx) -> IndexProgress:
    """Tell how far our index is."""
    cursor, last, dirty = tx.all("index_state")[0]
    return IndexProgress(int(cursor or 0), int(last or 0), int(dirty))


def drain(
    ctx: StateContext,
    *,
    seconds: float = _NO_LIMIT,
    patience: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> bool:
    """Take waiting messages into our index until none waits or time is up; tell whether all are in.

    `patience` is how long to wait for the writer lock; each batch is a transaction of its own.
    """
    deadline = time.monotonic() + seconds
    while True:
        with ctx.db.write(durable=False, budget=patience) as tx:
            behind = drain_batch(ctx, tx)
        if progress is not None:
            progress(behind.cursor, max(behind.cursor, behind.last))
        if not behind.waiting:
            return True
        if time.monotonic() >= deadline:
            return False


def drain_batch(ctx: StateContext, tx: Tx) -> IndexProgress:
    """Take one batch of messages into our index: the changed ones first, then the next ones."""
    behind = how_far(tx)
    changed = _index(ctx, tx, "changed_messages", {"limit": _BATCH})
    for message_id in changed:
        tx.run("clean", {"id": message_id})
    tx.run("clean_gone")
    fresh = {"cursor": behind.cursor, "limit": _BATCH - len(changed)}
    seen = _index(ctx, tx, "messages_after", fresh)
    if seen:
        tx.run("set_meta", {"key": "indexed", "value": str(seen[-1])})
    write_down(tx)
    return how_far(tx)


def _index(ctx: StateContext, tx: Tx, query: str, params: dict[str, int]) -> list[int]:
    """Index the messages of a query in order; give those done before the batch was large enough."""
    documents: list[tuple[int, Document]] = []
    unknown: list[int] = []
    done: list[int] = []
    characters = 0
    for row in tx.execute(QUERIES[query], params):
        done.append(row[0])
        document = document_of(parts_of(ctx, tx, row))
        if document is not None:
            documents.append((row[0], document))
        if not row[6]:
            unknown.append(row[0])
        characters += len(row[2] or b"") + len(row[3] or b"")
        if characters > _BATCH_CHARACTERS:
            break
    _put(tx, documents)
    for message_id in unknown:
        _hash(tx, message_id)
    return done


def _put(tx: Tx, documents: Sequence[tuple[int, Document]]) -> None:
    if not documents:
        return
    last, last_name = tx.all("last_docs", {"names": NAMES_FROM})[0]
    whole = [(id_, document.text) for id_, document in documents if document.whole]
    names = [(id_, document.text) for id_, document in documents if not document.whole]
    # Whole messages have the smaller numbers: FTS5 writes a segment when a number is not the next.
    numbered = [*enumerate(whole, last + 1), *enumerate(names, last_name + 1)]
    tx.run_bulk("put_doc", ((number, id_) for number, (id_, _) in numbered))
    tx.run_bulk("index_doc", ((number, text) for number, (_, text) in numbered))


def parts_of(ctx: StateContext, tx: Tx, row: Row) -> Parts:
    """Make what is searched of a row; an offloaded value is read from where it went."""
    message_id, _, content, calls, name, offloaded = row[:6]
    role = text_of(row[1]) or ""
    if offloaded:
        whole = messages_of(ctx, tx, tx.all("get_message", {"id": message_id}))[0]
        readable = whole["content"]
        if readable is not None and not isinstance(readable, str):
            readable = readable_text(readable)
        return Parts(role, readable, whole["tool_calls"], text_of(name), offloaded=True)
    return Parts(role, text_of(content), text_of(calls), text_of(name))


def text_of(value: object) -> str | None:
    """Read a column that other programs may have filled with anything."""
    if value is None or isinstance(value, str):
        return value
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _hash(tx: Tx, message_id: int) -> None:
    """Fingerprint a message that another program wrote."""
    try:
        adopt_message(tx, message_id)
    except FullTextError as error:  # text that is no UTF-8: it has no value to fingerprint
        log.debug("message %d cannot be read: %s", message_id, error)


def after_append(ctx: StateContext, ids: Sequence[int]) -> None:
    """Now and then, after messages were stored, take a batch into our index; never fails."""
    if not ids or (ids[0] - 1) // _EVERY == ids[-1] // _EVERY or not ctx.side:
        return
    try:
        with ctx.db.write(durable=False, budget=_PATIENCE) as tx:
            drain_batch(ctx, tx)
    except ThreadkeepError as error:  # a search, or the next batch, will do it
        log.debug("the index of %s waits: %s", ctx.db.path, error)
