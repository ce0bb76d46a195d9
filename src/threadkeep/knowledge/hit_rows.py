"""The rows behind a hit: the thing itself, its session, its evidence, its neighbours."""

import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec

from threadkeep.base.text import decoded, pattern
from threadkeep.base.tx import Row, Tx
from threadkeep.knowledge.records import CapturedSession, EntryRow, to_entry, to_session
from threadkeep.knowledge.search_scope import STORED

_ENTRY_WIDTH: Final = len(EntryRow.__struct_fields__)
# What is told of a kind beside its text.
_FACTS: Final[dict[str, tuple[str, ...]]] = {
    "command": (
        *("exit_code", "duration_ms", "hostname", "shell", "git_commit", "git_dirty", "tool"),
    ),
    "visit": ("domain", "dwell_ms", "scroll_depth", "search_query", "referrer"),
    "lesson": ("tool", "rule_id", "path_prefix", "fix_hint", "occurrences", "first_seen_at"),
    "run": ("event", "status", "conclusion", "actor", "commit"),
    "memory": (
        *("repository", "logical_path", "document", "state", "revision", "ordinal"),
        *("heading_path", "published"),
    ),
}
_FACT_QUERIES: Final = {"visit": "facts_of_page"}


class SessionName(NamedTuple):
    """A session by the agent that held it and its id."""

    agent: str
    session_id: str


class FoundSession(NamedTuple):
    """The session of something found, by its row."""

    name: SessionName
    is_probe: bool


class SessionMessage(NamedTuple):
    """A message, its session, and the slice of it that the message lies in."""

    row: EntryRow
    session: CapturedSession
    segment: int | None = None


def summary_of(content: str) -> str:
    """Return the summary of a node's content; of content that has none, its beginning."""
    summary = fields_of(content).get("summary")
    return summary if isinstance(summary, str) and summary else content


def fields_of(content: str) -> dict[str, Any]:
    """Return the fields of a node's content; none where it is no object."""
    try:
        value = msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return {}
    return value if isinstance(value, dict) else {}


# ---------------------------------------------------------------------- what a node is called

_WIDTH: Final = 110
_SAYS_NOTHING: Final = 2  # words: "Done", "All green"
_DONE: Final = ("success", "partial")
_RESULT: Final = pattern(r"\bResult: (.+)", re.DOTALL)
_COMMITTED: Final = pattern(r"; committed |: committed ")
# A sentence ends where a capital letter follows: `feeds/tide.py` is none.
_SENTENCE: Final = pattern(r"(?<=[.!?…])\s+(?=[A-Z`\"“])")
_CLAUSE: Final = pattern(r"[:;](?=\s)")
_POLITE: Final = pattern(r"(?:please|can you|could you|now|then|also|and)[, ]+", re.IGNORECASE)
_VERB: Final = pattern(r"([A-Za-z]+)(?= )")
_IRREGULAR: Final = {
    "make": "made",
    "write": "wrote",
    "find": "found",
    "give": "gave",
    "build": "built",
    "bring": "brought",
    "choose": "chose",
    "keep": "kept",
    "run": "ran",
    "set": "set",
    "put": "put",
    "let": "let",
    "get": "got",
    "take": "took",
    "split": "split",
    "cut": "cut",
    "speed": "sped",
    "rewrite": "rewrote",
    "rebuild": "rebuilt",
    "undo": "undid",
    "stop": "stopped",
    "drop": "dropped",
    "strip": "stripped",
    "debug": "debugged",
    "log": "logged",
    "swap": "swapped",
    "wrap": "wrapped",
    "port": "ported",
    "trim": "trimmed",
}
_REGULAR: Final = frozenset(
    (
        *("fix", "add", "remove", "update", "move", "rename", "show", "explain", "implement"),
        *(
            "refactor",
            "repair",
            "replace",
            "test",
            "check",
            "create",
            "change",
            "clean",
            "document",
        ),
        *("upgrade", "bump", "delete", "enable", "disable", "improve", "reduce", "increase"),
        *("handle", "support", "allow", "prevent", "convert", "extract", "merge", "migrate"),
        *("configure", "install", "use", "switch", "list", "review", "simplify", "optimize"),
        *("investigate", "resolve", "restore", "revert", "tidy", "correct", "introduce"),
        *("ensure", "validate", "cache", "load", "parse", "print", "return", "raise", "catch"),
        *("avoid", "turn", "start", "open", "close", "sort", "filter", "group", "store", "save"),
    )
)


def title_of(content: Any, outcome: str | None, project: str | None) -> str:
    """Name a node by what was achieved, if anything was, else by what was asked.

    `Fixed the flaky test in harbor`; empty where nothing is said.
    """
    if not isinstance(content, dict):
        return ""
    intent, summary = (_said(content.get(name)) for name in ("intent", "summary"))
    asked = _without_manners(_first(intent))
    if len(asked.split()) < _SAYS_NOTHING:  # a word such as `remember` is what a node is, no title
        return ""
    done = outcome in _DONE or bool(_COMMITTED.search(summary))
    if not done:
        return _ending(asked, project)
    past = in_past(asked)
    if past is not None:
        return _ending(past, project)
    result = _RESULT.search(summary)
    told = _CLAUSE.split(_first(result[1]))[0] if result else ""
    return _ending(told if len(told.split()) > _SAYS_NOTHING else asked, project)


def _without_manners(text: str) -> str:
    polite = _POLITE.match(text)
    return text[polite.end() :] if polite else text


def in_past(request: str) -> str | None:
    """Write a request as what was done: `Fix the test` as `Fixed the test`; None if it is none."""
    verb = _VERB.match(request)
    if verb is None:
        return None
    word = verb[1].lower()
    past = _IRREGULAR.get(word) or (_regular(word) if word in _REGULAR else None)
    return None if past is None else past.capitalize() + request[verb.end() :]


def _regular(word: str) -> str:
    if word.endswith("e"):
        return f"{word}d"
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return f"{word[:-1]}ied"
    return f"{word}ed"


def _said(value: object) -> str:
    return " ".join(value.split()) if isinstance(value, str) else ""


def _first(text: str) -> str:
    return _SENTENCE.split(text.strip(), maxsplit=1)[0].rstrip(". ")


def _ending(text: str, project: str | None) -> str:
    """Name the project where that fits and is not said."""
    whole = text[:1].upper() + text[1:] if text[:1].islower() and " " in text[:40] else text
    if project and whole and len(whole) < 60 and project.lower() not in whole.lower():  # noqa: PLR2004
        place = " ".join(project.split())  # the name of a folder may hold anything
        whole = f"{whole.rstrip('?!')} in {place}" if not whole.endswith("?") else whole
    return whole if len(whole) <= _WIDTH else f"{whole[: _WIDTH - 1].rstrip()}…"


# ---------------------------------------------------------------------- messages


def load_messages(tx: Tx, ids: Iterable[int]) -> dict[int, SessionMessage]:
    """Read messages with their sessions, by id."""
    rows = tx.all("shown_entries", {"ids": msgspec.json.encode(list(ids)).decode()})
    return {
        row[0]: SessionMessage(to_entry(row), to_session(row[_ENTRY_WIDTH:-1]), row[-1])
        for row in rows
    }


def found_sessions(tx: Tx, rows: Iterable[int]) -> dict[int, FoundSession]:
    """Name sessions by their rows, and tell which are those of probes."""
    found = tx.all("names_of_sessions", {"ids": msgspec.json.encode(list(rows)).decode()})
    return {row[0]: FoundSession(SessionName(*row[1:3]), bool(row[3])) for row in found}


def entries_beside(tx: Tx, row: EntryRow, limit: int) -> tuple[list[int], list[int]]:
    """Return the entries before and after one in its session, in their order."""
    place = {"session": row.session, "log": row.log_id, "line": row.line, "part": row.part}
    before = [found[0] for found in tx.all("entries_before", {**place, "limit": limit})]
    after = [found[0] for found in tx.all("entries_after", {**place, "limit": limit})]
    return before[::-1], after


def first_of_segment(tx: Tx, segment: int) -> int | None:
    """Return the entry that a slice of an archived session begins with."""
    found = tx.value("first_entry_of_segment", {"id": segment})
    return None if found is None else int(found)


# ---------------------------------------------------------------------- things


def thing_row(tx: Tx, kind: str, number: int, *, indexed: bool = True) -> Row | None:
    """Return what is shown of a thing: row, time, title, text, source, agent, folder, and so on.

    Of a file without our index (`indexed`) less is known about nodes.
    """
    query = "shown_node_plainly" if kind == "node" and not indexed else _stored("shown", kind)
    return tx.one(query, {"id": number})


def texts_of_run(tx: Tx, run: int) -> list[str]:
    """Return what a run of CI says: its jobs, their annotations, and ends of logs."""
    rows = tx.all("texts_of_run", {"id": run})
    return [" ".join(filter(None, map(decoded, row))) for row in rows]


def facts_of(tx: Tx, kind: str, number: int) -> dict[str, Any]:
    """Return what else is known of a thing."""
    if kind not in _FACTS:
        return {}
    row = tx.one(_FACT_QUERIES.get(kind, f"facts_of_{kind}"), {"id": number})
    values = (decoded(value) if isinstance(value, bytes) else value for value in row or ())
    return dict(zip(_FACTS[kind], values, strict=False))


def commands_beside(tx: Tx, number: int, limit: int) -> tuple[list[int], list[int]]:
    """Return the commands before and after one in its session, in their order."""
    page = {"id": number, "limit": limit}
    before = [row[0] for row in tx.all("commands_before", page)]
    return before[::-1], [row[0] for row in tx.all("commands_after", page)]


def session_of(tx: Tx, kind: str, number: int) -> SessionName | None:
    """Return the session that a node or a lesson comes from: that of its latest evidence."""
    tables = tx.tables()
    if "tk_sessions" not in tables:
        return None
    if kind == "lesson":
        from threadkeep.knowledge.lessons import LessonKey, key_digest  # noqa: PLC0415  (few are)

        key = tx.one("key_of_lesson", {"id": number}) if "tk_counted" in tables else None
        row = key and tx.one("session_of_lesson", {"lesson": key_digest(LessonKey(*key))})
    else:
        row = tx.one("session_of_node", {"id": number})
    return SessionName(*row) if row else None


def _stored(verb: str, kind: str) -> str:
    return f"{verb}_{STORED.get(kind, kind)}"


# ---------------------------------------------------------------------- nodes


def node_number(tx: Tx, uuid: str) -> int | None:
    """Find a node by its uuid."""
    found = tx.value("node_number", {"uuid": uuid})
    return None if found is None else int(found)


def evidence_rows(tx: Tx, node: int, limit: int) -> list[Row]:
    """Return what a node rests on: the name of the source, its number, and the agent."""
    return tx.all("source_of_node", {"id": node, "limit": limit})


def entities_of(tx: Tx, node: int) -> dict[str, list[str]]:
    """Return what a node mentions, by type."""
    entities: dict[str, list[str]] = {}
    for kind, name in tx.all("entities_of_node_named", {"id": node}):
        entities.setdefault(kind, []).append(decoded(name))
    return entities
