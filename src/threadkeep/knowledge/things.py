"""The index of everything that is no message, and where messages stand: filled from cursors.

Rows are indexed behind their writers, in bounded batches, so that a damaged index never blocks a
write. Triggers of plain SQL name the rows that changed since, whoever changed them.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from threadkeep.base.tx import Row, Tx
from threadkeep.knowledge.entries import text_hash, words_of
from threadkeep.knowledge.layout import names

BATCH: Final = 2_000
NOTED: Final = "noted"  # how far another program's slices were made into sessions
_TABLES: Final = {"tk_turns", "tk_things", "tk_thing_words", "tk_indexed", "tk_stale"}
_MOST_TEXT: Final = 128 * 1024
_LAST_ROW: Final = (1 << 63) - 1
_CAMEL: Final = re.compile(r"[A-Za-z]*[a-z][A-Z][A-Za-z]*")
_INNER: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_OUTCOMES: Final = {"success": "success", "failure": "failure", "timed_out": "failure"}


class Thing(NamedTuple):
    """A row to be found by words, with what it is filtered by; `texts` empty: it is not shown."""

    row: int
    at: int | None
    source: str
    texts: tuple[str, ...]
    harness: str | None = None
    cwd: str | None = None
    repo: str | None = None
    branch: str | None = None
    outcome: str | None = None


def is_indexable(tx: Tx) -> bool:
    """Tell whether a file has the tables of the index; one that was only read may not."""
    return names(tx, "table") >= _TABLES


def is_behind(tx: Tx) -> bool:
    """Tell whether there is anything to index."""
    placed, last = tx.one("last_entry_placed") or (0, 0)
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
    """Take all words of things out of the index, and have them indexed anew."""
    for step in ("clear_thing_words", "clear_things", "clear_stale", "clear_indexed"):
        tx.run(step)


def noted_so_far(tx: Tx) -> int:
    """Give the number of the last slice that was looked at to make sessions of it."""
    return int(tx.value("indexed_upto", {"kind": NOTED}) or 0)


# ---------------------------------------------------------------------- entries


def _place_entries(tx: Tx, limit: int) -> int:
    upto = int(tx.value("indexed_upto", {"kind": "entry"}) or 0)
    rows = tx.all("entries_to_place", {"after": upto, "limit": limit})
    turns: dict[int, int] = {}
    placed, words = [], 0
    for entry, session, is_said, is_copy, size in rows:
        if is_copy:  # it is found in the session that it was copied from
            continue
        turn = None
        if is_said:
            turn = turns[session] = _next_turn(tx, turns, session)
        count = first_varint(size or b"\0")
        words += count
        placed.append((entry, session, turn, count))
    tx.run_bulk("place_entry", placed)
    if rows:
        values = {"kind": "entry", "upto": rows[-1][0], "rows": len(placed), "words": words}
        tx.run("indexed_on", values)
    return len(rows)


def _next_turn(tx: Tx, turns: dict[int, int], session: int) -> int:
    if session in turns:
        return turns[session] + 1
    return int(tx.value("last_turn", {"session": session}) or 0) + 1


def first_varint(data: bytes) -> int:
    """Read the first number of SQLite's variable-length form: seven bits in each byte."""
    value = 0
    for byte in data[:9]:
        value = value << 7 | byte & 0x7F
        if byte < 0x80:  # noqa: PLR2004  (the last byte has no high bit)
            break
    return value


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
    tx.run_bulk("not_stale", stale)
    return len(stale)


def _read_again(tx: Tx, kind: str, numbers: Iterable[int]) -> Iterator[Thing]:
    for number in sorted(numbers):
        tx.run("drop_thing", (kind, number))
        for row in tx.all(f"things_{kind}", {"after": number - 1, "through": number, "limit": 1}):
            yield _READERS[kind](tx, row)


def _put(tx: Tx, kind: str, things: list[Thing], upto: int = 0) -> None:
    words, total = [], 0
    for thing in things:
        text = "\n".join(text for text in thing.texts if text)[:_MOST_TEXT]
        if not text.strip():
            continue
        tx.run("drop_thing", (kind, thing.row))
        size = len(text.split())
        values = {**thing._asdict(), "kind": kind, "words": size, "hash": text_hash(text)}
        del values["texts"]
        words.append((tx.insert("put_thing", values), words_of(f"{text}\n{inner_words(text)}")))
        total += size
    tx.run_bulk("index_thing", words)
    tx.run("indexed_on", {"kind": kind, "upto": upto, "rows": len(words), "words": total})


def inner_words(text: str) -> str:
    """Give the words inside `camelCase` names, each name once: the index takes one for a word."""
    names_ = dict.fromkeys(_CAMEL.findall(text))
    return " ".join(word for name in names_ for word in _INNER.findall(name))


# ---------------------------------------------------------------------- what each kind says


def _text(value: bytes | str | None) -> str:
    """Read a column; another program's text need not be valid UTF-8."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value or ""


def _some(value: bytes | str | None) -> str | None:
    return _text(value) or None


def _command(_: Tx, row: Row) -> Thing:
    number, at, command, cwd, repo, branch, code, kind, out, err, unseen = row
    texts = () if unseen else (_text(command), _text(out), _text(err))
    outcome = "unknown" if code is None else "failure" if code else "success"
    harness = "claude-code" if kind == "claude-tool" else None
    source = "shell" if kind == "shell" else "agent"
    return Thing(
        *(number, at, source, texts, harness),
        *(_some(cwd), _some(repo), _some(branch), outcome),
    )


def _page(_: Tx, row: Row) -> Thing:
    number, at, title, url, asked, text, unseen = row
    texts = () if unseen else tuple(map(_text, (title, url, asked, text)))
    return Thing(number, at, "browser", texts)


def _lesson(_: Tx, row: Row) -> Thing:
    number, at, repo, *texts = row
    return Thing(number, at, "ci", (_text(repo), *map(_text, texts)), repo=_some(repo))


def _segment(_: Tx, row: Row) -> Thing:
    number, at, harness, cwd, branch, title, summary, *lists, unseen = row
    told = (" ".join(strings_in(_text(one))) for one in lists)
    texts = () if unseen else (_text(title), _text(summary), *told)
    return Thing(number, at, "agent", texts, harness, _some(cwd), None, _some(branch))


def _node(tx: Tx, row: Row) -> Thing:
    number, created, content, embed_text, tags, outcome = row
    grounds = tx.all("grounds_of_node", {"id": number})
    real = [ground for ground in grounds if not ground[-1]]
    told = (_text(embed_text), " ".join(strings_in(_text(content))), _text(tags))
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
    texts = (" ".join(map(_text, about)), run_title(_text(raw)), *map(_text, details))
    outcome = _OUTCOMES.get(conclusion or "", "unknown")
    return Thing(number, at, "ci", texts, repo=_some(repo), branch=_some(branch), outcome=outcome)


def run_title(raw: str) -> str:
    """Give what a run is called, and the message of its commit, from its JSON."""
    record = _decoded(raw)
    if not isinstance(record, dict):
        return ""
    commit = record.get("head_commit")
    said = [record.get("name"), record.get("display_title")]
    said += [commit.get("message")] if isinstance(commit, dict) else []
    return " ".join(one for one in said if isinstance(one, str))


def strings_in(text: str) -> list[str]:
    """Give every string inside a JSON text, in order; a text that is no JSON is one string."""
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
