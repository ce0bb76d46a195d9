"""What of a message goes into our own index, `tk_search`.

The contract's index has the content of most messages. Ours has only what it cannot serve, in one
of two forms:

* the whole message, if it has tool calls, a script without spaces, or a content that is not in
  the contract's index: too long, or with a picture in it;
* the name of the tool alone, for every other result of a tool.
"""

import heapq
import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from threadkeep.base.match import Phrase
from threadkeep.base.tx import BROKEN_TABLE, NoText, Row, Sql, Tx, engine_words
from threadkeep.base.word_index import WordIndex
from threadkeep.base.words import (
    INDEX_LIMIT,
    contains_unspaced,
    index_text,
    index_words,
    shorten_blobs,
)
from threadkeep.errors import ThreadkeepError
from threadkeep.state.context import V6, StateContext
from threadkeep.state.rows import adopt_message, messages_of
from threadkeep.state.schema import MESSAGE_WORDS, SEARCH_WORDS, SIDE, build_index
from threadkeep.state.side_values import readable_text

# Names of tools have documents from this number on, whole messages below it.
NAMES_FROM: Final = 1 << 40
LAST_DOC: Final = (1 << 62) - 1

# The same as in index.sql.
_LONGEST: Final = 16_384
_BEGINNING: Final = 256
_PICTURE: Final = ";base64,"
# Of long output the start tells what it is and the end how it went.
_LONGEST_OUTPUT: Final = 8_192
_OUTPUT_HEAD: Final = 6_144
_OUTPUT_TAIL: Final = 2_048
_SKIPPED_KEYS: Final = frozenset({"id", "type", "call_id", "tool_call_id", "index"})
_ARGUMENTS: Final = frozenset({"arguments", "input", "args", "parameters"})


class Parts(NamedTuple):
    """The columns of a message in which people look for something."""

    role: str
    content: str | None
    tool_calls: str | None
    tool_name: str | None
    offloaded: bool = False


class Document(NamedTuple):
    """What the index gets for one message: words, and whether they are all of it or a name."""

    text: str
    whole: bool


def document_of(parts: Parts) -> Document | None:
    """Return the document of a message, None if the contract's index serves all of it."""
    if _needs_all(parts):
        return Document(index_text(_capped(parts), 3 * INDEX_LIMIT), whole=True)
    if parts.tool_name:
        return Document(index_text(parts.tool_name), whole=False)
    return None


def index_text_of(parts: Parts) -> str:
    """Return the words under which our index knows a message, '' if it does not have it."""
    document = document_of(parts)
    return "" if document is None else document.text


def _needs_all(parts: Parts) -> bool:
    return bool(
        parts.tool_calls
        or parts.offloaded
        or is_left_out(parts.content)
        or (parts.content and contains_unspaced(parts.content))
        or (parts.tool_name and contains_unspaced(parts.tool_name))
    )


def is_left_out(content: str | None) -> bool:
    """Tell whether the contract's index, in our form, leaves this content out."""
    return content is not None and (len(content) > _LONGEST or _PICTURE in content)


def contract_text(content: str | None) -> str:
    """Return what the contract's index has of a content, as its triggers do in a file."""
    return (content or "")[: _BEGINNING if is_left_out(content) else None]


def _capped(parts: Parts) -> str:
    content = shorten_blobs(parts.content or "")
    if parts.role == "tool" and len(content) > _LONGEST_OUTPUT:
        content = f"{content[:_OUTPUT_HEAD]}\n{content[-_OUTPUT_TAIL:]}"
    calls = shorten_blobs(calls_text(parts.tool_calls))
    return "\n".join((parts.tool_name or "", calls[:INDEX_LIMIT], content[:INDEX_LIMIT]))


def whole_text(parts: Parts) -> str:
    """Return everything of a message that a person might look for, uncut."""
    texts = (parts.content, parts.tool_name, calls_text(parts.tool_calls))
    return "\n".join(text for text in texts if text)


def calls_text(tool_calls: str | None) -> str:
    """Give the names and the arguments in the JSON of tool calls; text that is no JSON as it is."""
    if not tool_calls:
        return ""
    texts: list[str] = []
    try:
        calls = _decoded(tool_calls)
        # A caller who passed JSON text had it encoded a second time.
        _collect(_decoded(calls) if isinstance(calls, str) else calls, texts)
    except (ValueError, RecursionError):
        return tool_calls
    return " ".join(texts)


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):  # half characters and NaN: slower, but taken
        return json.loads(text)


def _collect(value: Any, texts: list[str], *, inside: bool = False) -> None:
    """Walk over calls; `inside` their arguments every key is somebody's data, `id` and all."""
    if isinstance(value, str):
        if inside:
            texts.append(value)
        else:
            _collect_text(value, texts)
    elif isinstance(value, dict):
        for key, item in value.items():
            if inside or key not in _SKIPPED_KEYS:
                data = inside or (key in _ARGUMENTS and not isinstance(item, str))
                _collect(item, texts, inside=data)
    elif isinstance(value, list):
        for item in value:
            _collect(item, texts, inside=inside)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        texts.append(str(value))


def _collect_text(text: str, texts: list[str]) -> None:
    """Arguments are JSON inside the JSON, as a rule."""
    try:
        decoded = _decoded(text) if text[:1] in ("{", "[") else text
    except (ValueError, RecursionError):
        decoded = text
    _collect(decoded, texts, inside=True)


# ------------------------------------------------------------------------------
# The order of sessions by their last message: stored behind a cursor, exact at every look.
#
# `tk_activity` has every session. New messages, which would cost every append two pages, are behind
# the cursor; sessions that were made, moved or lost messages are listed in `tk_touched`. A look
# reads both again; writing that down is left to those who write anyway.

_STEP = 64


def newest_first(ctx: StateContext, tx: Tx) -> Iterator[tuple[float, str]]:
    """Return when each session was last active, and its id, the latest first."""
    fresh = _fresh(ctx, tx) if ctx.side else dict(tx.all("all_activity"))
    ordered = sorted(((at, key) for key, at in fresh.items() if at is not None), reverse=True)
    stored = _stored(tx, fresh) if ctx.side else iter(())
    return heapq.merge(iter(ordered), stored, reverse=True)


def _fresh(ctx: StateContext, tx: Tx) -> dict[str, float | None]:
    """Heartbeats are not in the stored order: no trigger of ours could know them everywhere."""
    if "last_activity_at" not in ctx.form.tables["sessions"]:
        return _not_stored(tx)
    return {**_not_stored(tx), **dict(tx.all("heartbeats"))}


def _not_stored(tx: Tx) -> dict[str, float | None]:
    """Give the last activity of each session that is not stored as it is now; None: it is gone."""
    cursor = int(tx.value("get_meta", {"key": "active"}) or 0)
    rows = tx.all("sessions_after", {"after": cursor})
    return {row[0]: tx.value("activity_of", {"id": row[0]}) for row in rows if type(row[0]) is str}


def _stored(tx: Tx, fresh: dict[str, float | None]) -> Iterator[tuple[float, str]]:
    """Walk along the stored order, without the sessions that are fresher than it."""
    at, key, size = None, "", _STEP
    while True:
        rows = tx.all("stored_activity", {"at": at, "key": key, "limit": size})
        for session_id, last_active in rows:
            if session_id not in fresh:
                yield last_active, session_id
        if len(rows) < size:
            return
        key, at = rows[-1]
        size *= 2


def write_down(tx: Tx) -> None:
    """Store the last activity of every session that changed, and what others counted in it."""
    last = tx.value("newest_message_id") or 0
    for session_id, at in _not_stored(tx).items():
        if at is None:
            tx.run("drop_activity", {"id": session_id})
        else:
            tx.run("put_activity", {"id": session_id, "at": at})
            note_spent(tx, session_id)
    tx.run("forget_touched")
    tx.run("set_meta", {"key": "active", "value": str(last)})


def note_spent(tx: Tx, session_id: str) -> None:
    """Note what another program counted in a session, so that it outlives the session."""
    tx.run("forget_spent", {"id": session_id})
    tx.run("note_spent", {"id": session_id})


# ------------------------------------------------------------------------------
# Filling our index behind a cursor: outside of anybody's message, a batch at a time.
#
# The cursor (`tk_meta` 'indexed') is the last message the index has seen; messages behind it that
# changed since are in `tk_dirty`. A search reads what is not indexed yet by itself, so nothing
# depends on when this runs.

log = logging.getLogger(__name__)

_CHANGED: Final = "changed_messages"
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
    changed = _index(ctx, tx, _CHANGED, {"limit": _BATCH})
    for message_id in changed:
        tx.run("clean", {"id": message_id})
    tx.run("clean_gone")
    fresh = {"after": behind.cursor, "limit": _BATCH - len(changed)}
    seen = _index(ctx, tx, "messages_after", fresh)
    if seen:
        tx.run("set_meta", {"key": "indexed", "value": str(seen[-1])})
    write_down(tx)
    return how_far(tx)


def _index(ctx: StateContext, tx: Tx, query: str, params: dict[str, int]) -> list[int]:
    """Index the messages of a query in order; give those done before the batch was large enough."""
    documents: list[tuple[int, Document]] = []
    contents: list[tuple[int, str]] = []
    unknown: list[int] = []
    done: list[int] = []
    characters = 0
    in_rows = MESSAGE_WORDS.needs_us(tx)
    for row in tx.each(query, params):
        done.append(row[0])
        document = document_of(parts_of(ctx, tx, row))
        if document is not None:
            documents.append((row[0], document))
        if in_rows:
            contents.append((row[0], contract_text(text_of(row[2]))))
        if not row[6]:
            unknown.append(row[0])
        characters += len(row[2] or b"") + len(row[3] or b"")
        if characters > _BATCH_CHARACTERS:
            break
    _put(tx, documents)
    if in_rows:
        if query == _CHANGED:
            MESSAGE_WORDS.remove(tx, done)
        MESSAGE_WORDS.put(tx, contents)
    for message_id in unknown:
        _hash(tx, message_id)
    return done


def _put(tx: Tx, documents: Sequence[tuple[int, Document]]) -> None:
    if not documents:
        return
    # A number is never used again: the postings of a document that is gone stay in the index.
    named = tx.one("last_docs", {"names": NAMES_FROM}) or (0, NAMES_FROM)
    last = max(SEARCH_WORDS.last(tx, (0, NAMES_FROM - 1)) or 0, named[0])
    last_name = max(SEARCH_WORDS.last(tx, (NAMES_FROM, LAST_DOC)) or 0, named[1])
    whole = [(id_, document.text) for id_, document in documents if document.whole]
    names = [(id_, document.text) for id_, document in documents if not document.whole]
    # Whole messages have the smaller numbers: FTS5 writes a segment when a number is not the next.
    numbered = [*enumerate(whole, last + 1), *enumerate(names, last_name + 1)]
    tx.run_bulk("put_doc", ({"doc": number, "message_id": id_} for number, (id_, _) in numbered))
    SEARCH_WORDS.put(tx, ((number, text) for number, (_, text) in numbered))


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


def raw_bytes(value: str | bytes | None) -> bytes:
    """Return a text as its bytes; a server gives it as text, for it holds none that is no UTF-8."""
    return value.encode("utf-8", "replace") if isinstance(value, str) else value or b""


def _hash(tx: Tx, message_id: int) -> None:
    """Fingerprint a message that another program wrote."""
    try:
        adopt_message(tx, message_id)
    except NoText as error:  # text that is no UTF-8: it has no value to fingerprint
        log.debug("message %d cannot be read: %s", message_id, error)


def after_append(ctx: StateContext, ids: Sequence[int]) -> None:
    """Now and then, after messages were stored, take a batch into our index; never fails."""
    if not ids or (ids[0] - 1) // _EVERY == ids[-1] // _EVERY or not ctx.side:
        return
    try:
        with ctx.db.write(durable=False, budget=_PATIENCE) as tx:
            drain_batch(ctx, tx)
    except ThreadkeepError as error:  # a search, or the next batch, will do it
        log.debug("the index of %s waits: %s", ctx.db.name, error)


# ------------------------------------------------------------------------------
# The two full-text indexes of a state file: taken out of the way, rebuilt, checked.
#
# The contract's index, `messages_fts`, is filled by triggers inside the transaction of a message;
# ours, `tk_search`, later (see drain.py). Neither holds anything that the messages do not.

TRIGGERS: Final = frozenset({"messages_fts_insert", "messages_fts_delete", "messages_fts_update"})
_REPAIR: Final = "run reindex()"


# ---------------------------------------------------------------------- damage


def detach_index(ctx: StateContext, tx: Tx) -> bool:
    """Take the contract's triggers out, so that messages can be stored; False if there are none.

    A file that is Hermes's own is told in Hermes's way, so that Hermes rebuilds its index.
    """
    triggers = [str(row[0]) for row in tx.all("triggers_of_index")]
    for trigger in triggers:
        tx.run(Sql(f'DROP TRIGGER "{trigger}"'))
    if triggers and not ctx.side and "state_meta" in ctx.form.tables:
        tx.run("distrust_index")
    return bool(triggers)


def warn_of_damage(ctx: StateContext, why: object) -> None:
    """Say once per store that the index fails, whoever finds out first: a write or a search."""
    ctx.notices.warn(
        "index",
        "the full-text index of %s is damaged (%s); messages are stored without it and a search"
        " reads them instead, which is slower: run reindex()",
        ctx.db.name,
        why,
    )


# ---------------------------------------------------------------------- building again


def reindex(ctx: StateContext, progress: Callable[[int, int], None] | None = None) -> None:
    """Rebuild both indexes from the messages, whatever state they are in.

    The contract's is one transaction, about 5 s for 200,000 messages: its triggers must not meet a
    half-filled index. Ours follows in batches. `progress` gets how many messages are done, of all.
    """
    with ctx.db.write() as tx:
        if tx.engine == "sqlite":
            build_index(tx)
        else:
            MESSAGE_WORDS.clear(tx)
    reindex_ours(ctx, progress)
    ctx.notices.settle("index")
    ctx.notices.settle("scan")


def reindex_ours(ctx: StateContext, progress: Callable[[int, int], None] | None = None) -> None:
    """Rebuild our index; until it is filled, a search reads what is missing."""
    with ctx.db.write() as tx:
        SEARCH_WORDS.remake(tx, SIDE)
        tx.run("forget_docs")
        tx.run("clean_all")
        tx.run("set_meta", {"key": "indexed", "value": "0"})
    drain(ctx, progress=progress)


# ---------------------------------------------------------------------- checking


def check_index(ctx: StateContext) -> list[str]:
    """Look for what is wrong with the indexes; one sentence for each, with what to do.

    FTS5 compares its index with the messages only on a connection that writes, so a store that is
    open read-only gets the lesser part of the check.
    """
    if ctx.db.read_only:
        with ctx.db.read() as tx:
            return _missing(ctx, tx)
    with ctx.db.write(durable=False) as tx:
        problems = _missing(ctx, tx)
        return problems or [
            # Hermes fills the index with other words in a file that it brought further.
            *_checked(tx, MESSAGE_WORDS, compare=ctx.form.answers is V6),
            *(_checked(tx, SEARCH_WORDS, compare=False) or _lost(ctx, tx)),
        ]


def _missing(ctx: StateContext, tx: Tx) -> list[str]:
    if tx.engine != "sqlite":
        return []
    tables = ["messages_fts", "tk_search"] if ctx.side else []
    problems = [
        f"the full-text index {table} is missing: {_REPAIR}"
        for table in tables
        if tx.one("schema_entry", {"name": table}) is None
    ]
    present = {str(row[0]) for row in tx.all("triggers_of_index")}
    if ctx.side and not present >= TRIGGERS:
        names = ", ".join(sorted(TRIGGERS - present))
        problems.append(f"the triggers of the full-text index are missing ({names}): {_REPAIR}")
    return problems


def _checked(tx: Tx, index: WordIndex, *, compare: bool) -> list[str]:
    problem = index.problem(tx, compare=compare)
    return [] if problem is None else [f"the full-text index {index.table} {problem}: {_REPAIR}"]


def _lost(ctx: StateContext, tx: Tx) -> list[str]:
    """What our index says about itself: documents it must have, messages it says it has seen."""
    try:
        lost = int(tx.value("lost_docs")) or _unfound(ctx, tx)
        cursor, last = int(tx.value("get_meta", {"key": "indexed"})), tx.value("last_message_id")
    except (*BROKEN_TABLE, TypeError, ValueError) as error:
        return [f"the full-text index tk_search cannot be read ({engine_words(error)}): {_REPAIR}"]
    problems = []
    if lost:
        problems.append(f"the full-text index tk_search lacks {lost} messages: {_REPAIR}")
    if cursor > (last or 0):
        problems.append(
            f"the full-text index tk_search says it has seen message {cursor}, but the last one"
            f" is {last or 0}: {_REPAIR}"
        )
    return problems


def _unfound(ctx: StateContext, tx: Tx) -> int:
    """Look some messages up by their first word, and say how many if not one is found.

    An index whose pages were zeroed is empty to FTS5, not damaged.
    """
    asked = 0
    for *row, doc in tx.all("sample_of_docs"):
        words = index_words(index_text_of(parts_of(ctx, tx, tuple(row))))
        if words:
            asked += 1
            if SEARCH_WORDS.ids(tx, Phrase((words[0],)), (doc, doc), limit=1):
                return 0
    return asked
