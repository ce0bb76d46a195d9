"""Nodes of knowledge become rows, with links to their evidence, entities and ties.

What a draft takes the place of goes in the same transaction, so that writing it again gives the
same rows:

- a segment has one node: earlier ones that rest on no other segment are replaced;
- commands, visits and runs leave the node that told of them, which goes when it has none left;
- a memory has one node: `publish_memory` takes out the one before it;
- words that are already there, byte for byte, are linked to and not stored twice (of segments only
  among their own nodes: two segments may well say the same; of memories never).

The rows of the node's own queue are marked as enriched and their tickets as done; evidence of other
kinds is linked and keeps its tickets. A caller has nothing left to finish.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, get_args

import msgspec

from threadkeep.base.json import decode, encode
from threadkeep.base.match import Phrase
from threadkeep.base.tx import Tx
from threadkeep.errors import Invalid, NotFound
from threadkeep.knowledge.commands import session_of
from threadkeep.knowledge.entities import (
    Tie,
    link_entities,
    mentions_of,
    note_in_events,
    put_entities,
    put_ties,
    recount,
    ties_among,
    ties_of,
)
from threadkeep.knowledge.forget import erase, erase_nodes, vectors_are
from threadkeep.knowledge.kinds import KINDS, Queue
from threadkeep.knowledge.memory_documents import SOURCE_KIND, known_categories, node_uuid
from threadkeep.knowledge.node_words import index_node
from threadkeep.knowledge.queues import finish_targets, present
from threadkeep.knowledge.records import (
    BY_RULES,
    ENRICHMENT_VERSION,
    Evidence,
    Mentions,
    NodeDraft,
    Outcome,
)
from threadkeep.knowledge.schema import NODE_WORDS

# Queue -> the kind of its rows; and the order in which a node with evidence of several kinds
# belongs to one of them.
_ABOUT: Final = {
    kind.tickets.queue: kind.name
    for kind in KINDS
    if kind.tickets and kind.tickets.queue != "claude"
}
_HOMES: Final[tuple[Queue, ...]] = ("workflow", "agentic", "browser", "shell", "memory")
_LINKED: Final = (*_ABOUT.values(), "lesson")
_REQUIRED: Final = ("summary", "intent", "embed_text")
# So much of a summary finds the nodes that may say the same.
_PHRASE_WORDS: Final = 32


class ToUpgrade(NamedTuple):
    """A node that a model may write better, and the rows that it is about."""

    node: int
    queue: Queue
    targets: tuple[int, ...]


# ---------------------------------------------------------------------- content


def content_of(draft: NodeDraft, source: Mapping[str, Any] | None = None) -> str:
    """Write the content of a node as the contract's other writers do, byte for byte.

    `source` says where a memory came from, which is a part of what its node tells.
    """
    fields: dict[str, Any] = msgspec.to_builtins(draft)
    del fields["embed_text"], fields["memory_categories"]
    if source is None:
        return json.dumps(fields)
    return json.dumps({**fields, "source": dict(source)}, sort_keys=True)


def _checked(draft: NodeDraft) -> NodeDraft:
    """Return the draft without what SQLite cannot keep, or raise for one that says too little."""
    missing = [name for name in _REQUIRED if not getattr(draft, name).strip()]
    if missing:
        msg = f"the draft of a node has no {' and no '.join(missing)}"
        raise Invalid(msg, hint="write all of summary, intent and embed_text")
    if draft.outcome not in get_args(Outcome):
        msg = f"the draft of a node has the outcome {draft.outcome!r}"
        raise Invalid(msg, hint=f"write one of {', '.join(get_args(Outcome))}")
    return msgspec.convert(_storable(msgspec.to_builtins(draft)), NodeDraft)


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\0", " ").encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {key: _storable(inner) for key, inner in value.items()}
    return [_storable(inner) for inner in value]


# ---------------------------------------------------------------------- writing


def write_node(
    tx: Tx,
    queue: Queue,
    draft: NodeDraft,
    evidence: Evidence,
    *,
    model: str,
    now: int,
    uuid: str,
    node_type: str | None = None,
    outcome_column: str | None = None,
    roots: Sequence[str] = (),
    hashes: Mapping[int, str | None] | None = None,
    source: Mapping[str, Any] | None = None,
) -> int:
    """Store what a draft says about evidence in place of what was said before; give its number.

    `hashes` are those of the segments that the draft was made from (tickets have them), so that one
    that grew meanwhile is known to hold more. `node_type` is `change_outcome` for runs of CI and
    `observation` for all else, unless it is given.
    """
    draft = _checked(draft)
    targets = _targets(tx, queue, evidence)
    kind = node_type or ("change_outcome" if queue == "workflow" else "observation")
    row = {
        "uuid": uuid,
        "summary": draft.summary,
        "content": content_of(draft, source),
        "embed_text": draft.embed_text,
        "node_type": kind,
        "outcome": outcome_column or draft.outcome,
        "tags": json.dumps(list(draft.tags)),
        "model": model,
        "version": ENRICHMENT_VERSION,
        "now": now,
    }
    before = _told_before(tx, queue, targets, kind)
    node = _put(tx, queue, row, before)
    _link(tx, node, evidence)
    own = _own_events(tx, queue, evidence)
    forgotten = _unname(tx, own)
    _mention(tx, node, draft, (*evidence.events, *own), now=now, roots=roots)
    _replace(tx, queue, before - {node}, targets)
    erase(tx, "entity", [n for n in forgotten if tx.value("entity_is_linked", {"id": n}) is None])
    if queue == "agentic":
        _note_learned(tx, targets, hashes)
    finish_targets(tx, queue, targets, now)
    return node


def _targets(tx: Tx, queue: Queue, evidence: Evidence) -> list[int]:
    """Return the rows that the node is about; what was forgotten meanwhile must not come back."""
    given = _of_kind(evidence, _ABOUT[queue])
    found = present(tx, queue, given)
    if len(found) < len(set(given)) or not found:
        gone = sorted(set(given) - set(found))
        msg = f"a node is about {_ABOUT[queue]}s that do not exist: {gone}"
        raise NotFound(msg, hint="they have been forgotten, or were never stored; skip the node")
    return found


def _put(tx: Tx, queue: Queue, row: Mapping[str, Any], before: Iterable[int]) -> int:
    """Store a node, or find the one that says the same in the same words."""
    if queue == "memory":
        same = None  # each has a node of its own, whatever others say
    elif queue == "agentic":
        same = next((n for n in sorted(before) if tx.value("is_that_node", {**row, "id": n})), None)
    else:
        same = next((n for n in _same_words(tx, row) if _home(tx, n)[0] == queue), None)
    if same is None:
        node = tx.insert("insert_node", {**row, "id": _new_number(tx)})
        index_node(tx, node)
        return node
    tx.run("rename_author", {**row, "id": same})
    return same


def _new_number(tx: Tx) -> int | None:
    """Return a number that no node had before, None for any.

    Numbers are given again. Vectors that only their extension can take out outlive their nodes, and
    must not be taken for those of another.
    """
    if not vectors_are(tx, "locked") or "knowledge_vectors_rowids" not in tx.tables():
        return None
    return int(tx.value("number_above_vectors"))


def _same_words(tx: Tx, row: Mapping[str, Any]) -> list[int]:
    """Name the nodes of this type with the same text, the oldest first."""
    words = tuple(row["summary"].split()[:_PHRASE_WORDS])
    if any(character.isalnum() for word in words for character in word):
        found = tx.all("same_node", {**row, "match": NODE_WORDS.asked(tx, Phrase(words))})
    else:
        found = tx.all("same_node_slowly", row)  # nothing that an index of words could find
    return [number for (number,) in found]


def _link(tx: Tx, node: int, evidence: Evidence) -> None:
    for kind in _LINKED:
        rows = [{"node": node, "row": number} for number in _of_kind(evidence, kind)]
        tx.run_bulk(f"link_{kind}", rows)


def _own_events(tx: Tx, queue: Queue, evidence: Evidence) -> tuple[int, ...]:
    """Return the commands that the node is about: of a slice of a session, its tool calls."""
    if queue == "shell":
        return evidence.events
    ids = encode(list(evidence.segments)) if queue == "agentic" else "[]"
    return tuple(row[0] for row in tx.all("calls_in_segments", {"ids": ids}))


def _mention(
    tx: Tx, node: int, draft: NodeDraft, events: Sequence[int], *, now: int, roots: Sequence[str]
) -> None:
    """Store what a node mentions, which events name it, and how it belongs together."""
    entities = put_entities(tx, mentions_of(draft), now=now, roots=roots)
    is_new = not _column(tx, "entity_of_node", node)
    link_entities(tx, node, entities.values())
    note_in_events(tx, events, entities, now)
    put_ties(tx, node, ties_of(entities), now, is_new=is_new)


def _unname(tx: Tx, events: Sequence[int]) -> set[int]:
    """Take from commands what they named before they were told of again; give the entities."""
    ids = {"ids": encode(list(events))}
    named = {row[0] for row in tx.all("named_by_events", ids)}
    if named:
        tx.run("unname_events", ids)
    return named


# ---------------------------------------------------------------------- replacing


def _told_before(tx: Tx, queue: Queue, targets: Iterable[int], node_type: str) -> set[int]:
    """Name the nodes of this kind that a new one takes something from."""
    values = {"ids": encode(list(targets)), "node_type": node_type}
    if queue == "shell" and tx.value("any_told_event", values) is None:
        return set()
    found = {row[0] for row in tx.all(f"told_of_{_ABOUT[queue]}", values)}
    if queue == "agentic":
        return {n for n in found if _column(tx, "segment_of_node", n) <= set(targets)}
    return found


def _replace(tx: Tx, queue: Queue, nodes: Iterable[int], targets: Sequence[int]) -> None:
    """Take rows from the nodes that told of them before; those that are left with none go."""
    about = _ABOUT[queue]
    doomed: list[int] = []
    for node in sorted(nodes):
        if queue != "agentic":
            tx.run_bulk(f"unlink_{about}", [{"node": node, "row": target} for target in targets])
        if queue == "agentic" or not _column(tx, f"{about}_of_node", node):
            doomed.append(node)
    ties: set[Tie] = {tie for node in doomed for tie in ties_among(tx, node)}
    erase_nodes(tx, doomed)
    recount(tx, sorted(ties))


def _note_learned(tx: Tx, segments: Iterable[int], hashes: Mapping[int, str | None] | None) -> None:
    for segment in segments:
        if hashes is None or segment not in hashes:
            tx.run("learned_all", {"id": segment})
        else:
            tx.run("set_learned_hash", {"id": segment, "hash": hashes[segment]})


def _of_kind(evidence: Evidence, kind: str) -> tuple[int, ...]:
    numbers: tuple[int, ...] = getattr(evidence, f"{kind}s")
    return numbers


def _column(tx: Tx, query: str, number: int) -> set[int]:
    return {row[0] for row in tx.all(query, {"id": number})}


# ---------------------------------------------------------------------- what could be better


def nodes_by_rules(tx: Tx, limit: int, *, tried_before: int = 0) -> list[ToUpgrade]:
    """Return nodes that rules alone have written, the newest first, with the rows they are about.

    One that was tried since `tried_before` (see `note_tried`) is not among them.
    """
    values = {"model": BY_RULES, "limit": limit, "tried_before": tried_before}
    rows = tx.all("nodes_by_author", values)
    homes = ((node, *_home(tx, node)) for (node,) in rows)
    return [ToUpgrade(node, queue, targets) for node, queue, targets in homes if queue is not None]


def note_tried(tx: Tx, nodes: Iterable[int], now: int) -> None:
    """Write down that a model is asked to write nodes better, whether or not it can."""
    for node in nodes:
        tx.run("node_is_tried", {"id": node, "now": now})


def forget_tries(tx: Tx, before: int, now: int) -> None:
    """Forget which nodes were tried before a moment, or while the clock was ahead of now."""
    tx.run("forget_tries", {"before": before, "now": now})


def _home(tx: Tx, node: int) -> tuple[Queue | None, tuple[int, ...]]:
    """Return the queue that a node came from, and the rows that it is about."""
    for queue in _HOMES:
        targets = _column(tx, f"{_ABOUT[queue]}_of_node", node)
        if targets:
            return queue, tuple(sorted(targets))
    return None, ()


# ------------------------------------------------------------------------------
# Notes that agents leave: a command as evidence, and a node that says whose word it is.

SOURCE: Final = "agent-note"  # what the contract calls `source_kind`
TAGS: Final = ("note", "from-agent")
_SHOWN: Final = 80


class Note(msgspec.Struct, frozen=True):
    """What an agent wants to be remembered; texts are masked already."""

    text: str
    author: str  # the program that the agent runs in
    envelope_id: str  # one note has one id
    session: str  # of the program that took it, a UUID
    at: int  # epoch milliseconds
    title: str = ""
    cwd: str = ""
    repo: str | None = None
    tags: tuple[str, ...] = ()
    hostname: str = ""
    username: str = ""


def draft_of(note: Note) -> NodeDraft:
    """Make the draft of a note; its first words say that an agent said it."""
    named = note.repo or note.cwd.rstrip("/").rpartition("/")[2]
    told = ": ".join(part for part in (note.title, note.text) if part)
    return NodeDraft(
        summary=f"Noted by an agent ({note.author}), not verified: {told}",
        intent="a note to remember",
        entities=Mentions(projects=(named,) if named else ()),
        tags=tuple(dict.fromkeys((*TAGS, *note.tags))),
        embed_text=" ".join(part for part in (note.title, note.text, named) if part),
    )


def write_note(tx: Tx, note: Note, *, uuid: str, roots: Sequence[str] = ()) -> int:
    """Store a note and give the number of its node."""
    event = tx.insert("insert_command", _event(tx, note))
    return write_node(
        tx,
        "shell",
        draft_of(note),
        Evidence(events=(event,)),
        model=f"agent:{note.author}",
        now=note.at,
        uuid=uuid,
        roots=roots,
    )


def _event(tx: Tx, note: Note) -> dict[str, object]:
    nothing = ("stdout", "stderr", "stdout_truncated", "stderr_truncated", "snapshot", "probe_tag")
    git = ("git_branch", "git_commit", "git_dirty")
    begins = " ".join((note.title or note.text).split())[:_SHOWN]
    return {
        **dict.fromkeys((*nothing, *git)),
        "session_id": _session(tx, note),
        "at": note.at,
        "command": f"remember: {begins}",
        "exit_code": 0,
        "duration": 0,
        "cwd": note.cwd,
        "hostname": note.hostname,
        "shell": note.author,
        "git_repo": note.repo,
        "envelope": note.envelope_id,
        "source_kind": SOURCE,
        "tool_name": "remember",
        "redactions": 0,
        "now": note.at,
    }


def _session(tx: Tx, note: Note) -> int:
    found = session_of(tx, note.session)
    if found is not None:
        return found
    who = {"shell": note.author, "hostname": note.hostname, "username": note.username}
    return tx.insert(
        "insert_shell_session",
        {**who, "terminal": note.session, "start": note.at, "now": note.at},
    )


# ------------------------------------------------------------------------------
# A memory is published: the node of its newest revision takes the place of the one before it.

_BY_MODEL: Final = 0.8  # how sure a category is that a model named


def publish_memory(
    tx: Tx, draft: NodeDraft, revision: int, *, model: str, now: int, roots: tuple[str, ...] = ()
) -> int | None:
    """Store what a draft says of a revision in place of what was published; give the node's number.

    A draft that comes late, for a revision that is no longer the newest, is noted and makes no
    node: that would bring back what the note said before.
    """
    row = tx.one("memory_to_publish", {"id": revision})
    if row is None:
        msg = f"a node refers to a revision that does not exist: {revision}"
        raise NotFound(msg, hint="its document has been forgotten; skip the node")
    _, document, hashed, captured, uuid, repository, logical_path, path, current, _ = row
    learned = {"model": model, "version": ENRICHMENT_VERSION, "now": now, "id": revision}
    tx.run("revision_is_learned", {**learned, "summary": draft.summary})
    if current != revision:
        finish_targets(tx, "memory", [revision], now)
        return None
    erase_nodes(tx, [found[0] for found in tx.all("nodes_of_memory", {"document": document})])
    source = {
        "kind": SOURCE_KIND,
        "repository": repository,
        "logical_path": logical_path,
        "source_path": path,
        "content_hash": hashed,
        "captured_at": captured,
    }
    node = write_node(
        *(tx, "memory", draft, Evidence(revisions=(revision,))),
        model=model,
        now=now,
        uuid=node_uuid(uuid, revision),
        roots=roots,
        source=source,
    )
    tx.run("memory_is_published", {"id": document, "revision": revision, "now": now})
    if model != BY_RULES:
        _categorize(tx, document, draft, model, now)
    return node


def _categorize(tx: Tx, document: int, draft: NodeDraft, model: str, now: int) -> None:
    """Put the categories that a model named in place of those that one named before."""
    tx.run("drop_categories_by_model", {"document": document})
    told = {"source": "model", "confidence": _BY_MODEL, "model": model, "version": 1}
    for category in known_categories(draft.memory_categories):
        tx.run("put_category", {**told, "document": document, "category": category, "now": now})


# ------------------------------------------------------------------------------
# Nodes that are there more than once.


def drop_twins(tx: Tx) -> int:
    """Take out nodes that are there more than once, but for the first; give how many.

    One that also tells of another segment only leaves those where it has a twin.
    """
    if not tx.tables() >= {"knowledge_nodes", "knowledge_node_agentic_sessions"}:
        return 0
    later: dict[int, set[int]] = defaultdict(set)
    for segment, nodes in tx.all("twin_nodes"):
        for node in sorted(decode(nodes))[1:]:
            later[node].add(segment)
    for node, segments in later.items():
        tx.run_bulk("unlink_segment", [{"node": node, "row": segment} for segment in segments])
    left = [node for node in later if not _column(tx, "segment_of_node", node)]
    erase_nodes(tx, left)
    return len(later)


def node_marks(tx: Tx) -> tuple[int, int]:
    """Return how many nodes there are and the highest number: the same ones have no new twins."""
    return tx.one("node_marks") or (0, 0)


def count_twins(tx: Tx) -> int:
    """Count the nodes that are there more than once; that reads all of them."""
    return int(tx.value("duplicate_groups"))
