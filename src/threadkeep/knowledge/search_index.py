"""The index of everything that is no message, and where messages stand: filled from cursors.

Rows are indexed behind their writers, in bounded batches, so that a damaged index never blocks a
write. Triggers of plain SQL name the rows that changed since, whoever changed them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from threadkeep.base.match import Match, read_match
from threadkeep.base.text import decoded, pattern
from threadkeep.base.tx import Row, Sql, Tx
from threadkeep.base.word_index import WordIndex
from threadkeep.knowledge.archive import text_hash, words_of
from threadkeep.knowledge.schema import ENTRY_WORDS, NODE_WORDS, THING_WORDS
from threadkeep.knowledge.search_scope import (
    OF_MESSAGES_ALONE,
    Scope,
    Side,
    Thing,
    is_within,
)
from threadkeep.knowledge.session_sql import Where

BATCH: Final = 2_000
_TABLES: Final = {"tk_turns", "tk_things", "tk_indexed", "tk_stale"}
_MOST_TEXT: Final = 128 * 1024
_LAST_ROW: Final = (1 << 63) - 1
_CAMEL: Final = pattern(r"[A-Za-z]*[a-z][A-Z][A-Za-z]*")
_INNER: Final = pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_OUTCOMES: Final = {"success": "success", "failure": "failure", "timed_out": "failure"}


def is_indexable(tx: Tx) -> bool:
    """Tell whether a file has the tables of the index; one that was only read may not."""
    tables = tx.tables()
    return tables >= _TABLES and THING_WORDS.is_among(tx, tables)


def is_behind(tx: Tx, *, but_entries: bool = False) -> bool:
    """Tell whether there is anything to index; in a file without an index there is not.

    Entries are found by their words anyway: the index has their neighbours. `but_entries` does not
    ask for them.
    """
    made = (is_behind, but_entries)
    return is_indexable(tx) and tx.kept(made, lambda: _is_behind(tx, but_entries=but_entries))


def _is_behind(tx: Tx, *, but_entries: bool) -> bool:
    placed, last = (0, 0) if but_entries else tx.one("last_entry_placed") or (0, 0)
    if placed < last or tx.value("any_stale") is not None:
        return True
    return any(_is_kind_behind(tx, kind) for kind in _READERS)


def index_things(tx: Tx, limit: int = BATCH) -> int:
    """Index what is new or has changed, at most so many rows; give how many were looked at."""
    done = _place_entries(tx, limit)
    done += _index_stale(tx, limit - done) if done < limit else 0
    for kind in _READERS:
        done += _index_new(tx, kind, limit - done) if done < limit else 0
    return done


def read_nodes(tx: Tx, ids: Iterable[int]) -> list[Thing]:
    """Read nodes as they would be indexed, in this order."""
    return [
        _node(tx, row)
        for number in ids
        for row in tx.all("things_node", {"after": number - 1, "through": number, "limit": 1})
    ]


def clear_things(tx: Tx) -> None:
    """Take all words of things out of the index, and have them reindexed."""
    THING_WORDS.clear(tx)
    for step in ("clear_things", "clear_stale", "clear_indexed"):
        tx.run(step)


# ---------------------------------------------------------------------- entries


def _place_entries(tx: Tx, limit: int) -> int:
    upto = int(tx.value("indexed_upto", {"kind": "entry"}) or 0)
    rows = tx.all("entries_to_place", {"after": upto, "limit": limit})
    turns: dict[int, int] = {}
    placed, words = [], 0
    lengths = ENTRY_WORDS.lengths(tx, (rows[0][0], rows[-1][0])) if rows else {}
    for entry, session, is_said, is_copy in rows:
        if is_copy:  # it is found in the session that it was copied from
            continue
        turn = None
        if is_said:
            turn = turns[session] = _next_turn(tx, turns, session)
        count = lengths.get(entry, 0)
        words += count
        placed.append({"entry": entry, "session": session, "turn": turn, "words": count})
    tx.run_bulk("place_entry", placed)
    if rows:
        values = {"kind": "entry", "upto": rows[-1][0], "rows": len(placed), "words": words}
        tx.run("indexed_on", values)
    return len(rows)


def _next_turn(tx: Tx, turns: dict[int, int], session: int) -> int:
    if session in turns:
        return turns[session] + 1
    return int(tx.value("last_turn", {"session": session}) or 0) + 1


# ---------------------------------------------------------------------- things


def _is_kind_behind(tx: Tx, kind: str) -> bool:
    upto = tx.value("indexed_upto", {"kind": kind})
    if kind == "ci":
        return upto is None
    span = {"after": upto or 0, "through": _LAST_ROW, "limit": 1}
    return tx.one(f"things_{kind}", span) is not None


def _index_new(tx: Tx, kind: str, limit: int) -> int:
    upto = tx.value("indexed_upto", {"kind": kind})
    if kind == "ci":  # runs say themselves that they came; those that were there before do not
        if upto is None:
            tx.run("all_runs_stale")
            tx.run("indexed_on", {"kind": kind, "upto": 0, "rows": 0, "words": 0})
        return _index_stale(tx, limit) if upto is None else 0
    rows = tx.all(f"things_{kind}", {"after": upto or 0, "through": _LAST_ROW, "limit": limit})
    if rows:
        _put(tx, kind, [_READERS[kind](tx, row) for row in rows], upto=rows[-1][0])
    return len(rows)


def _index_stale(tx: Tx, limit: int) -> int:
    stale = tx.all("stale_things", {"limit": limit})
    wanted: dict[str, set[int]] = {}
    for kind, row in stale:
        run = tx.value("run_of_job", {"job": row}) if kind == "job" else row
        if run is not None:
            wanted.setdefault("ci" if kind == "job" else kind, set()).add(run)
    for kind, numbers in wanted.items():
        _put(tx, kind, list(_read_again(tx, kind, numbers)))
    tx.run_bulk("not_stale", [{"kind": kind, "row": row} for kind, row in stale])
    return len(stale)


def _read_again(tx: Tx, kind: str, numbers: Iterable[int]) -> Iterator[Thing]:
    for number in sorted(numbers):
        tx.run("drop_thing", {"kind": kind, "row": number})
        for row in tx.all(f"things_{kind}", {"after": number - 1, "through": number, "limit": 1}):
            yield _READERS[kind](tx, row)


def _put(tx: Tx, kind: str, things: list[Thing], upto: int = 0) -> None:
    words, total = [], 0
    for thing in things:
        text = "\n".join(text for text in thing.texts if text)[:_MOST_TEXT]
        if not text.strip():
            continue
        tx.run("drop_thing", {"kind": kind, "row": thing.row})
        size = len(text.split())
        values = {**thing._asdict(), "kind": kind, "words": size, "hash": text_hash(text)}
        del values["texts"]
        words.append((tx.insert("put_thing", values), words_of(f"{text}\n{inner_words(text)}")))
        total += size
    THING_WORDS.put(tx, words)
    tx.run("indexed_on", {"kind": kind, "upto": upto, "rows": len(words), "words": total})


def inner_words(text: str) -> str:
    """Return the words inside `camelCase` names, each name once: the index takes one for a word."""
    names_ = dict.fromkeys(_CAMEL.findall(text))
    return " ".join(word for name in names_ for word in _INNER.findall(name))


# ---------------------------------------------------------------------- what each kind says


def _some(value: bytes | str | None) -> str | None:
    return decoded(value) or None


def _command(_: Tx, row: Row) -> Thing:
    number, at, command, cwd, repo, branch, code, kind, out, err, unseen = row
    texts = () if unseen else (decoded(command), decoded(out), decoded(err))
    outcome = "unknown" if code is None else "failure" if code else "success"
    harness = "claude-code" if kind == "claude-tool" else None
    source = "shell" if kind == "shell" else "agent"
    return Thing(
        *(number, at, source, texts, harness),
        *(_some(cwd), _some(repo), _some(branch), outcome),
    )


def _page(_: Tx, row: Row) -> Thing:
    number, at, title, url, asked, text, unseen = row
    texts = () if unseen else tuple(map(decoded, (title, url, asked, text)))
    return Thing(number, at, "browser", texts)


def _lesson(_: Tx, row: Row) -> Thing:
    number, at, repo, *texts = row
    return Thing(number, at, "ci", (decoded(repo), *map(decoded, texts)), repo=_some(repo))


def _segment(_: Tx, row: Row) -> Thing:
    number, at, harness, cwd, branch, title, summary, *lists, unseen = row
    told = (" ".join(strings_in(decoded(one))) for one in lists)
    texts = () if unseen else (decoded(title), decoded(summary), *told)
    return Thing(number, at, "agent", texts, harness, _some(cwd), None, _some(branch))


def _node(tx: Tx, row: Row) -> Thing:
    number, created, content, embed_text, tags, outcome = row
    grounds = tx.all("grounds_of_node", {"id": number})
    real = [ground for ground in grounds if not ground[-1]]
    told = (decoded(embed_text), " ".join(strings_in(decoded(content))), decoded(tags))
    source, at, harness, cwd, repo, branch, _probe = (
        real[0] if real else ("agent", created, *[None] * 5)
    )
    return Thing(
        *(number, at or created, source, told, harness),
        *(_some(cwd), _some(repo), _some(branch), _some(outcome)),
    )


def _run(tx: Tx, row: Row) -> Thing:
    number, at, repo, branch, sha, event, status, conclusion, actor, raw = row
    about = (repo, branch, sha, event, conclusion or status, actor)
    details = [text for found in tx.all("texts_of_run", {"id": number}) for text in found]
    texts = (" ".join(map(decoded, about)), run_title(decoded(raw)), *map(decoded, details))
    outcome = _OUTCOMES.get(conclusion or "", "unknown")
    return Thing(number, at, "ci", texts, repo=_some(repo), branch=_some(branch), outcome=outcome)


def run_title(raw: str) -> str:
    """Return what a run is called, and the message of its commit, from its JSON."""
    record = _decoded(raw)
    if not isinstance(record, dict):
        return ""
    commit = record.get("head_commit")
    said = [record.get("name"), record.get("display_title")]
    said += [commit.get("message")] if isinstance(commit, dict) else []
    return " ".join(one for one in said if isinstance(one, str))


def strings_in(text: str) -> list[str]:
    """Return every string inside a JSON text, in order; a text that is no JSON is one string."""
    value = _decoded(text)
    return [text] if value is None and text else list(_strings(value))


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from _strings(one)


_READERS: Final[dict[str, Callable[[Tx, Row], Thing]]] = {
    "node": _node,
    "command": _command,
    "page": _page,
    "ci": _run,
    "lesson": _lesson,
    "segment": _segment,
}


# ------------------------------------------------------------------------------
# Candidates: which messages and things have certain words, inside what is asked about.

_WORDS: Final[dict[Side, WordIndex]] = {"entry": ENTRY_WORDS, "thing": THING_WORDS}
# Counting goes no further: what is more frequent is told from the part that was seen.
COUNTED: Final = 8_000
_NO_LIMIT: Final = -1
_TURN_BITS: Final = 24
_WIDER: Final = 16  # inside a scope so many times more are looked at first
_UNINDEXED: Final = 200  # nodes behind the end of the index
# A message with neighbours stands at its session and turn in one number; anything else below zero.
_PLACE: Final = "CASE WHEN p.turn IS NULL THEN -f.id ELSE p.session << 24 | p.turn END"

# A row that has certain words: its id in tk_entries or tk_things; its place in its conversation,
# whose neighbours differ by one (below zero it has none); how many words it has, 0 if unknown.
# A plain tuple, as SQLite gives it: one query reads thousands.
Posting = tuple[int, int, int]


class CandidateFacts(NamedTuple):
    """What ranking needs of a candidate beside its words."""

    at: int | None
    kind: str
    hash: int
    row: int = 0  # of a thing in its own table
    session: int = 0  # of a message


def place_of(session: int, turn: int) -> int:
    """Return the place of something said: one number, whose neighbours stand beside it."""
    return session << _TURN_BITS | turn


def frequency(tx: Tx, side: Side, match: Match, rows: int) -> int:
    """Count the rows that have words; of frequent ones it is an estimate."""
    # Questions have frequent words in common, and these take longest to count.
    counted = tx.kept((frequency, side, match), lambda: _WORDS[side].frequency(tx, match, COUNTED))
    count, last = counted
    return int(count if count < COUNTED else max(COUNTED, COUNTED * rows / max(last, 1)))


def sizes(tx: Tx, among: Sequence[Side]) -> dict[Side, int]:
    """Return about how many rows each index has."""
    return {side: int(tx.value(f"last_id_{side}") or 0) for side in among}


def averages(tx: Tx, scope: Scope) -> dict[Side, float]:
    """Return how many words a row has on average."""
    found = tx.all("averages_of_words") if scope.placed else []
    known = {row[0]: row[1] / max(row[2], 1) for row in found}
    return {"entry": known.get(1) or 1.0, "thing": known.get(0) or 1.0}


def having(tx: Tx, side: Side, match: Match, ids: Iterable[int]) -> set[int]:
    """Return those of some rows that have words."""
    return _WORDS[side].having(tx, match, ids)


def postings(
    tx: Tx,
    side: Side,
    match: Match,
    scope: Scope,
    limit: int | None = None,
    *,
    newest: bool = False,
) -> list[Posting]:
    """Return the rows that have words, those that came last first; `newest` goes by their time."""
    wanted = scope.of(side)
    order = f"coalesce({side[0]}.at, 0) DESC, f.id DESC" if newest else "f.id DESC"
    words = _WORDS[side]
    if side == "thing":
        columns, joined = "t.id, -t.id, t.words", " JOIN tk_things AS t ON t.id = f.id"
    else:
        columns = f"f.id, {_PLACE}, coalesce(p.words, 0)" if scope.placed else "f.id, -f.id, 0"
        joined = " JOIN tk_entries AS e ON e.id = f.id" if wanted.conditions or newest else ""
        joined += " LEFT JOIN tk_turns AS p ON p.entry = f.id" if scope.placed else ""
    sql = f"SELECT {columns} FROM {words.matching} AS f{joined} WHERE true{_and(wanted)}"  # noqa: S608
    most = _NO_LIMIT if limit is None else limit
    given, rows = "", list[Posting]()
    # The last ones that have the words often are enough, and much less than all of them.
    for upto in [_NO_LIMIT] if newest or limit is None else _tries(limit, narrow=wanted.conditions):
        asked = words.asked(tx, match, upto)
        if asked == given:
            break
        given, values = asked, {**wanted.params, "match": asked, "limit": most}
        rows = _rows(tx, f"{sql} ORDER BY {order} LIMIT :limit", values)
        if len(rows) == limit:
            break
    return rows


def _tries(limit: int, *, narrow: object) -> list[int]:
    return [limit * _WIDER, _NO_LIMIT] if narrow else [limit]


def newest(tx: Tx, side: Side, scope: Scope, limit: int) -> list[Posting]:
    """Return the newest rows that a scope allows, whatever their words."""
    wanted = scope.of(side)
    start = {
        "entry": "SELECT e.id, -e.id, 0 FROM tk_entries AS e WHERE e.kind IN ('prompt', 'text')",
        "thing": "SELECT t.id, -t.id, t.words FROM tk_things AS t WHERE true",
    }[side]
    order = "ORDER BY e.id DESC" if side == "entry" else "ORDER BY t.id DESC"
    return _rows(
        tx, f"{start}{_and(wanted)} {order} LIMIT :limit", {**wanted.params, "limit": limit}
    )


def standing_at(tx: Tx, places: Iterable[int]) -> dict[int, int]:
    """Find the messages that stand at places: id by place."""
    turns = (1 << _TURN_BITS) - 1
    pairs = [(place >> _TURN_BITS, place & turns) for place in places]
    rows = tx.all("entries_at_turns", {"places": msgspec.json.encode(pairs).decode()})
    return {place_of(session, turn): entry for session, turn, entry in rows}


# CROSS JOIN keeps the list on the outside: the other way round all nodes were read, 60 ms instead
# of one.


def entry_facts(tx: Tx, ids: Iterable[int], scope: Scope) -> dict[int, CandidateFacts]:
    """Return what ranking needs of messages that are there and allowed."""
    sql = (
        f"SELECT e.id, e.at, e.kind, e.hash, 0, e.session FROM ({{ids:ids}}) AS i"  # noqa: S608
        f" CROSS JOIN tk_entries AS e WHERE e.id = i.value{_and(scope.entries)}"
    )
    rows = _rows(tx, sql, {**scope.entries.params, "ids": _json(ids)})
    return {row[0]: CandidateFacts(*row[1:]) for row in rows}


def thing_facts(tx: Tx, ids: Iterable[int]) -> dict[int, CandidateFacts]:
    """Return what ranking needs of things that are there."""
    return {
        row[0]: CandidateFacts(*row[1:5]) for row in tx.all("found_things", {"ids": _json(ids)})
    }


def entries_of_sessions(tx: Tx, sessions: Iterable[int], limit: int) -> list[int]:
    """Return what was said in some sessions, at most so many messages."""
    values = {"sessions": _json(sessions), "limit": limit}
    return [row[0] for row in tx.all("entries_of_sessions", values)]


def things_of(tx: Tx, kind: str, rows: Iterable[int], scope: Scope) -> dict[int, int]:
    """Find the things of certain rows of one kind that a scope allows: id by row."""
    sql = (
        f"SELECT t.id, t.row FROM ({{ids:rows}}) AS i"  # noqa: S608  (our own text)
        " CROSS JOIN tk_things AS t"
        f" WHERE t.kind = :its_kind AND t.row = i.value{_and(scope.things)}"
    )
    values = {**scope.things.params, "its_kind": kind, "rows": _json(rows)}
    return {row: number for number, row in _rows(tx, sql, values)}


def unindexed_nodes(tx: Tx, text: str, scope: Scope) -> list[Thing]:
    """Return the nodes behind the end of our index that have the words; none where it is up.

    A file that can only be read keeps the index that it has, or has none; other programs write
    nodes into it all the same, and these are found through the contract's own index.
    """
    query = scope.query
    if query.entity or query.file or any(getattr(query, one) for one in OF_MESSAGES_ALONE):
        return []
    if query.kind and "node" not in query.kind:
        return []
    tables = tx.tables()
    if "knowledge_nodes" not in tables or not NODE_WORDS.is_among(tx, tables):
        return []
    indexed = scope.placed and "tk_indexed" in tables
    after = int(tx.value("indexed_upto", {"kind": "node"}) or 0) if indexed else 0
    if int(tx.value("last_node") or 0) <= after:
        return []
    match = read_match(text, split=False)
    if match is None and text.strip():
        return []
    category = scope.nodes.category
    values = {"after": after, "category": category, "limit": _UNINDEXED}
    if match is None:
        rows = tx.all("nodes_behind", values)
    else:
        rows = tx.all("nodes_behind_with_words", {**values, "match": NODE_WORDS.scored(tx, match)})
    found = read_nodes(tx, [row[0] for row in rows])
    return [one for one in found if is_within(scope, one)]


def _and(wanted: Where) -> str:
    return f" AND {wanted.sql()}" if wanted.conditions else ""


def _rows(tx: Tx, sql: str, values: dict[str, Any]) -> list[Any]:
    return tx.all(Sql(sql), values)


def _json(values: Iterable[Any]) -> str:
    return msgspec.json.encode(list(values)).decode()
