"""Full text over parts: kept apart from writing, complete at the next query.

Triggers note which parts changed; the index takes them in when somebody searches. So a damaged
index never stands in the way of a message, and a search sees everything committed before it.
Ranking looks at the newest matches only: ranking every match of a common word takes 140 ms in
a million messages, the newest two thousand a few.
"""

import logging
from collections.abc import Iterator
from typing import Any

import msgspec

from threadkeep.base.match import Match, literal_terms, read_match
from threadkeep.base.page import Limit
from threadkeep.base.snippet import snippet
from threadkeep.base.sql import load_text
from threadkeep.base.text import from_sql
from threadkeep.base.tx import Row, Tx
from threadkeep.base.verbs import Moment
from threadkeep.base.word_index import WordIndex
from threadkeep.base.words import index_text
from threadkeep.chat.context import ChatContext, optional_text, optional_whole
from threadkeep.chat.records import Json, SessionRef, ref_id
from threadkeep.chat.rows import need_session
from threadkeep.chat.views import read_part
from threadkeep.errors import Invalid, ThreadkeepError

log = logging.getLogger(__name__)

PART_WORDS = WordIndex("tk_search")
_BATCH = 500
_CANDIDATES = 2000
_PATIENCE = 2.0  # a search must not wait long for somebody's write
_SKIPPED_KEYS = frozenset({"type", "state", "toolCallId", "providerMetadata", "url", "id"})


class ChatHit(msgspec.Struct, frozen=True):
    """A part that contains what was asked for."""

    session_id: str
    message_id: str
    part_id: str
    role: str
    type: str
    snippet: str
    at: int
    title: str | None
    score: float


def part_text(part: Json) -> str:
    """Collect what a person might look for in a part: text, tool names, inputs, results."""
    name = part.get("toolName") or str(part.get("type", "")).removeprefix("tool-")
    words = [str(name)] if "toolCallId" in part else []
    return "\n".join([*words, *_texts(part)])


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if not value.startswith("data:"):  # an image inside a part is no text
            yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in _SKIPPED_KEYS:
                yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield str(value)


def index_changes(ctx: ChatContext) -> None:
    """Take every changed part into the index, a batch at a time."""
    while True:
        with ctx.db.read() as tx:
            if tx.one("any_dirty_part") is None:
                return
        with ctx.db.write(durable=False, budget=_PATIENCE) as tx:
            rows = tx.all("dirty_parts", {"limit": _BATCH})
            PART_WORDS.put(tx, [text for row in rows for text in _numbered(tx, row)])


def _numbered(tx: Tx, row: Row) -> Iterator[tuple[int, str]]:
    """Return what to index of a changed part, under a new number; nothing of one that is gone."""
    part_id, session_id, kind, data_json = row
    tx.run("forget_search_doc", {"part_id": part_id})
    text = None if session_id is None else _text_of_row(part_id, kind, data_json)
    if text is not None:
        doc = tx.value("add_search_doc", {"part_id": part_id, "session_id": session_id})
        yield doc, index_text(text)
    tx.run("clean_part", {"part_id": part_id})


def _text_of_row(part_id: str | bytes, kind: str | bytes, data_json: str | bytes) -> str | None:
    """Read the text of a part; one that cannot be read must not hide all the others."""
    try:
        return part_text(read_part(data_json, from_sql(kind)))
    except Exception as error:  # noqa: BLE001  (whatever it is: a search continues without the part)
        log.warning("part %r cannot be searched: %r", part_id, error)
        return None


def reindex(ctx: ChatContext) -> None:
    """Rebuild the full-text index from the parts."""
    with ctx.db.write() as tx:
        PART_WORDS.remake(tx, load_text("threadkeep.chat", "side.sql"))
        tx.run("forget_all_docs")
        tx.run("mark_all_dirty")
    index_changes(ctx)


def search(
    ctx: ChatContext,
    text: str,
    *,
    session: SessionRef | None = None,
    agent: str | None = None,
    role: str | None = None,
    archived: bool = False,
    hidden: bool = False,
    since: Moment | None = None,
    until: Moment | None = None,
    limit: Limit = 20,
) -> list[ChatHit]:
    """Find parts by their text, tool names, inputs and results; best first.

    Takes what a person types, and never fails because of how it is written.
    """
    if not isinstance(text, str):
        msg = f"a search is text, not {type(text).__name__}"
        raise Invalid(msg, hint="pass the words to look for")
    params: Json = {
        "session_id": None if session is None else ref_id(session, "session"),
        "agent": optional_text(agent, "agent"),
        "role": optional_text(role, "role"),
        "archived": bool(archived),
        "hidden": bool(hidden),
        "since": optional_whole(since, "since"),
        "until": optional_whole(until, "until"),
        "limit": limit,
    }
    if session is not None:
        with ctx.db.read() as tx:
            need_session(tx, params["session_id"])
    return [_hit(row, text) for row in _find(ctx, text, params)]


def _find(ctx: ChatContext, text: str, params: Json) -> list[Row]:
    match, terms = read_match(text), literal_terms(text)
    # Without the index only one word can be asked for: the longest tells most.
    word = max(terms, key=len, default="")
    if match is None:
        return _scan(ctx, word, params) if word else []
    try:
        if ctx.db.read_only:
            fresh = _scan(ctx, word, params, dirty_only=True)
            return _merged(fresh, _ask_index(ctx, match, params), params["limit"])
        index_changes(ctx)
        return _ask_index(ctx, match, params)
    except ThreadkeepError as error:
        log.warning("the search index does not answer, reading the messages instead: %s", error)
        return _scan(ctx, word, params)


def _merged(first: list[Row], then: list[Row], limit: int) -> list[Row]:
    seen = {row[0] for row in first}
    return [*first, *(row for row in then if row[0] not in seen)][:limit]


def _ask_index(ctx: ChatContext, match: Match, params: Json) -> list[Row]:
    with ctx.db.read() as tx:
        newest = PART_WORDS.ids(tx, match, limit=_CANDIDATES)
        if not newest:
            return []
        asked = {**params, "match": PART_WORDS.scored(tx, match)}
        rows = tx.all("search_parts", {**asked, "oldest": newest[-1]})
        if len(rows) < params["limit"] and len(newest) == _CANDIDATES:
            # The filters left too few of the newest: those asked for are older.
            rows = tx.all("search_parts", {**asked, "oldest": 0})
        return rows


def _scan(ctx: ChatContext, term: str, params: Json, *, dirty_only: bool = False) -> list[Row]:
    escaped = term.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    with ctx.db.read() as tx:
        asked = {**params, "term": f"%{escaped}%", "dirty_only": dirty_only}
        return tx.all("scan_parts", asked)


def _hit(row: Row, text: str) -> ChatHit:
    return ChatHit(
        part_id=from_sql(row[0]),
        message_id=from_sql(row[1]),
        session_id=from_sql(row[2]),
        type=from_sql(row[3]),
        snippet=snippet(_text_of_row(row[0], row[3], row[4]) or "", text),
        role=from_sql(row[5]),
        at=row[6],
        title=None if row[7] is None else from_sql(row[7]),
        score=-row[8],
    )
