"""Hits as they are shown: what stands behind a number, with its place and a snippet."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, cast

import msgspec

from threadkeep.base.tx import Tx
from threadkeep.knowledge.reading import CapturedSession, EntryRow, to_entry, to_session
from threadkeep.knowledge.things import run_title, strings_in
from threadkeep.recall.records import Hit, Kind
from threadkeep.recall.snippets import Marks, cut

WIDTH: Final = 240
NO_MARKS: Final = Marks(frozenset(), (), ())
_TITLE: Final = 120
# Of a node's content, beside its summary: what was written as sentences.
_SENTENCES: Final = ("intent", "key_decisions", "design_decisions", "problems_encountered")
_ENTRY_WIDTH: Final = len(EntryRow.__struct_fields__)
# What is opened by a name of its own and found as something else.
_SHOWN_AS: Final = {"segment": "message", "memory": "node"}
# The names under which the contract's own programs know the agents.
_SHORT: Final = {"claude-code": "claude"}


class SessionMessage(NamedTuple):
    """A message and its session."""

    row: EntryRow
    session: CapturedSession


class HitText(NamedTuple):
    """A thing, whole: its hit without a snippet, and its text."""

    hit: Hit
    text: str


def short_name(harness: str) -> str:
    """Give the name of an agent as it stands in a source: `claude` for Claude Code."""
    return _SHORT.get(harness, harness)


def load_messages(tx: Tx, ids: Iterable[int]) -> dict[int, SessionMessage]:
    """Read messages with their sessions, by id."""
    rows = tx.all("shown_entries", {"ids": msgspec.json.encode(list(ids)).decode()})
    return {row[0]: SessionMessage(to_entry(row), to_session(row[_ENTRY_WIDTH:])) for row in rows}


def message_hit(tx: Tx, message: SessionMessage, text: str, marks: Marks = NO_MARKS) -> Hit:
    """Make the hit of a message."""
    row, session = message
    named = {"session_id": session.session_id, "harness": session.harness}
    segment = tx.value("segment_at", {**named, "at": row.at})
    name = short_name(session.harness)
    return Hit(
        ref=f"message:{row.id}",
        kind="message",
        score=0.0,
        at=row.at,
        title=one_line(session.name),
        snippet=cut(text, marks, WIDTH),
        source=name if segment is None else f"{name}-{segment}",
        harness=session.harness,
        project=session.project or None,
        cwd=session.cwd or None,
        branch=session.git_branch or None,
        session_id=session.session_id,
        key=row.key,
        role=row.role,
        outcome="failure" if row.error else None,
    )


def load_thing(tx: Tx, kind: str, number: int, *, indexed: bool = True) -> HitText | None:
    """Read a thing by its kind and its number in its own table; None if it is not to be seen.

    Of a file without our index (`indexed`) less is known about nodes.
    """
    query = "shown_node_plainly" if kind == "node" and not indexed else f"shown_{kind}"
    row = tx.one(query, {"id": number})
    if row is None:
        return None
    title, text = _described(tx, kind, row)
    return HitText(_thing_hit(tx, kind, row, title), text)


def thing_hit(thing: HitText, marks: Marks = NO_MARKS) -> Hit:
    """Give the hit of a thing with its snippet."""
    return msgspec.structs.replace(thing.hit, snippet=cut(thing.text, marks, WIDTH))


def _described(tx: Tx, kind: str, row: Sequence[Any]) -> tuple[str, str]:
    title, text = decoded(row[2]), decoded(row[3])
    if kind == "node":
        return summary_of(title), note_of(title) or text
    if kind == "ci":
        parts = tx.all("texts_of_run", {"id": row[0]})
        lines = (" ".join(filter(None, map(decoded, part))) for part in parts)
        name = run_title(title) or f"run {row[0]}"
        return name, "\n".join([f"{decoded(row[12])} {row[9]}: {name}", *lines])
    return title, text


def summary_of(content: str) -> str:
    """Give the summary of a node's content; of content that has none, its beginning."""
    summary = _fields(content).get("summary")
    return summary if isinstance(summary, str) and summary else content


def note_of(content: str) -> str:
    """Give what a node says in sentences; the words it is only found by stay out."""
    fields = _fields(content)
    summary = fields.get("summary")
    if not isinstance(summary, str) or not summary:
        return "\n".join(strings_in(content))
    lines = [summary]
    for name in (name for name in _SENTENCES if fields.get(name)):
        told = strings_in(msgspec.json.encode(fields.get(name)).decode())
        lines += [line for line in told if line.rstrip(".…") not in summary]
    return "\n".join(lines)


def _fields(content: str) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return {}
    return value if isinstance(value, dict) else {}


def _thing_hit(tx: Tx, kind: str, row: Sequence[Any], title: str) -> Hit:
    number, at, _title, _text, source, harness, cwd, branch, session, outcome, own, url, repo = row
    if kind == "segment":
        source = f"{short_name(harness)}-{number}"
    if kind == "node":
        source = next(iter(evidence_of(tx, number, 1)), source)
    folder = decoded(cwd) or None
    place = (decoded(repo) or folder or "").replace("\\", "/").rstrip("/")
    return Hit(
        ref=f"{kind}:{number}",
        kind=cast("Kind", _SHOWN_AS.get(kind, kind)),
        score=0.0,
        at=at,
        title=one_line(title),
        snippet="",
        source=source,
        harness=harness,
        project=place.rpartition("/")[2] or None,
        cwd=folder,
        branch=decoded(branch) or None,
        session_id=session,
        outcome=decoded(outcome) or None,
        uuid=own if kind in {"node", "memory"} else None,
        url=decoded(url) or None,
    )


def evidence_of(tx: Tx, node: int, limit: int = 100) -> list[str]:
    """Name what a node rests on, in the contract's form: shell-1, claude-5, browser-2."""
    rows = tx.all("source_of_node", {"id": node, "limit": limit})
    return [f"{short_name(harness) if harness else name}-{n}" for name, n, harness in rows]


def decoded(value: Any) -> str:
    """Read a column that was asked for as bytes."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return "" if value is None else str(value)


def one_line(text: str) -> str:
    """Give the beginning of a text, in one line."""
    flat = " ".join(text[: 4 * _TITLE].split())
    return flat if len(flat) <= _TITLE else f"{flat[: _TITLE - 1]}…"
