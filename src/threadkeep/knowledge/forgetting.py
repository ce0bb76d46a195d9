"""Taking rows out of the contract's tables, with all that hangs on them, by their numbers.

What a node tells comes from its evidence. When evidence goes, every node that rests on it goes, and
with it the entities that nothing else mentions. What else such a node told of is learned anew.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal, get_args

from threadkeep.base.tx import Tx
from threadkeep.knowledge.archive import digest
from threadkeep.knowledge.entities import recount, ties_among
from threadkeep.knowledge.memory_names import SOURCE_KIND, document_uuid
from threadkeep.knowledge.tickets import Queue, learn_again, take_back

Evidence = Literal[
    "event",
    "segment",
    "legacy",
    "visit",
    "run",
    "lesson",
    "document",  # this and the two that follow: files of memory
    "revision",
    "chunk",
]
Kind = (
    Evidence
    | Literal[
        "node",
        "entity",
        "snapshot",
        "job",
        "annotation",
        "excerpt",
        "alarm",
        "orphan",
        "watch",
        "waiting_lesson",
        "category",
        "memory_link",
    ]
)

# A document's record that was forgotten has this for a digest, which no text has.
FORGOTTEN_RECORD: Final = b""

# Kind -> the queries that take one row out, what refers to it first. Cascades do the rest.
_STEPS: Final[dict[Kind, tuple[str, ...]]] = {
    "event": (
        *("remember_forgotten_events", "drop_event_ticket", "drop_event_entities"),
        "drop_event",
    ),
    "segment": ("drop_segment_ticket", "drop_segment"),
    "legacy": ("drop_legacy_ticket", "drop_legacy"),
    "visit": ("remember_forgotten_visits", "drop_visit_ticket", "drop_visit"),
    "run": ("remember_forgotten_run", "drop_run"),
    "lesson": ("drop_lesson",),
    "snapshot": ("leave_snapshot", "drop_snapshot"),
    "job": ("drop_job",),
    "annotation": ("drop_annotation",),
    "excerpt": ("drop_excerpt",),
    "alarm": ("drop_alarm",),
    "orphan": ("drop_orphan",),
    "watch": ("drop_watch",),
    "waiting_lesson": ("drop_waiting_lesson",),
    "document": ("drop_document",),
    "revision": ("drop_revision",),
    "category": ("drop_category",),
    "memory_link": ("drop_memory_link",),
}
_QUEUES: Final[dict[Evidence, Queue]] = {
    "event": "shell",
    "segment": "agentic",
    "visit": "browser",
    "run": "workflow",
}
_EVIDENCE: Final[tuple[Evidence, ...]] = get_args(Evidence)
_NODE_STEPS: Final = (
    *(f"unlink_node_from_{what}" for what in ("events", "segments", "legacy", "visits")),
    *("unlink_node_from_runs", "unlink_node_from_lessons", "unlink_node_from_chunks"),
    "unlink_node_from_entities",
    "drop_node",
)
_ENTITY_STEPS: Final = (
    *("unlink_entity_from_nodes", "unlink_entity_from_events"),
    *("drop_relationships", "drop_entity"),
)


def erase(tx: Tx, kind: Kind, ids: Iterable[int]) -> int:
    """Take rows out with their tickets and links; give how many nodes went with them."""
    numbers = list(ids)
    if kind == "node":
        return erase_nodes(tx, numbers)
    if kind == "entity":
        _erase_entities(tx, numbers)
        return 0
    if kind == "chunk":  # the revision has the same text
        revisions = {revision for n in numbers for revision in _column(tx, "revision_of_chunk", n)}
        return erase(tx, "revision", revisions)
    nodes = forsake(tx, kind, numbers)
    beside = _beside_events(tx, numbers) if kind == "event" else (set(), set())
    if kind == "event":
        _remember_commands(tx, numbers)
    documents = _remember_memory(tx, kind, numbers) if kind in ("document", "revision") else set()
    for number in numbers:
        for step in _STEPS[kind]:
            tx.run(step, {"id": number})
    for snapshot in beside[0]:
        tx.run("drop_unused_snapshot", {"id": snapshot})
    _erase_bare_entities(tx, beside[1])
    for document in documents:
        tx.run("drop_bare_document", {"id": document})
        tx.run("unproject_document", {"id": document})
    return nodes


def forsake(tx: Tx, kind: Kind, ids: Iterable[int]) -> int:
    """Take out the nodes that tell of rows; what nobody tells of then is learned anew."""
    numbers = set(ids)
    nodes = {node for number in numbers for node in _tellers(tx, kind, number)}
    rest = {
        what: {n for node in nodes for n in _column(tx, f"{what}s_of_node", node)}
        for what in _QUEUES
    }
    gone = erase_nodes(tx, nodes)
    for what, queue in _QUEUES.items():
        left = rest[what] - numbers if what == kind else rest[what]
        learn_again(tx, queue, [n for n in left if not _column(tx, f"nodes_of_{what}", n)])
    return gone


def _tellers(tx: Tx, kind: Kind, number: int) -> list[int]:
    if kind not in _EVIDENCE:
        return []
    beside = _column(tx, "nodes_beside_visit", number) if kind == "visit" else []
    return _column(tx, f"nodes_of_{kind}", number) + beside


def want_cleaning(tx: Tx) -> None:
    """Leave word that old text must go out of the file; nobody may go on with what they read."""
    tx.run("want_cleaning")
    take_back(tx)


def erase_nodes(tx: Tx, ids: Iterable[int]) -> int:
    """Take nodes out, with links, vectors and the entities that only they mention."""
    numbers = list(ids)
    entities = {entity for n in numbers for entity in _column(tx, "entities_of_node", n)}
    ties = {tie for n in numbers for tie in ties_among(tx, n)}
    steps = ("drop_vector", *_NODE_STEPS) if vectors_are(tx, "writable") else _NODE_STEPS
    for number in numbers:
        for step in steps:
            tx.run(step, {"id": number})
    _erase_bare_entities(tx, entities)
    recount(tx, sorted(ties))
    return len(numbers)


def drop_vectors(tx: Tx, node: int) -> None:
    """Take out the vectors of a node whose text has changed: they tell something of the old one."""
    tx.run("drop_vector_of_node", {"id": node})
    if vectors_are(tx, "writable"):
        tx.run("drop_vector", {"id": node})


def doomed_nodes(tx: Tx, gone: Mapping[Kind, set[int]]) -> set[int]:
    """Name the nodes that tell of these rows, or are among them."""
    told = (
        node for kind in _EVIDENCE for row in gone.get(kind, ()) for node in _tellers(tx, kind, row)
    )
    return {*gone.get("node", ()), *told}


def vectors_are(tx: Tx, state: Literal["writable", "locked"]) -> bool:
    """Tell whether there are vectors that can be taken out, or only with their extension.

    Its tables behind the scenes are left alone: changing them would break the others' vectors.
    """
    made = str(tx.value("vectors_table") or "")
    if not made:
        return False
    virtual = "VIRTUAL" in made.upper().partition("(")[0]
    writable = not virtual or tx.value("has_module", {"name": "vec0"}) is not None
    return writable == (state == "writable")


def _remember_commands(tx: Tx, ids: Iterable[int]) -> None:
    """Keep commands from coming back another way; only their digests are stored."""
    for number in ids:
        for command, started in tx.all("forgotten_command", {"id": number}):
            values = {"digest": digest(command.encode("utf-8", "replace")), "started": started}
            tx.run("remember_forgotten_command", values)


def _remember_memory(tx: Tx, kind: Kind, ids: Iterable[int]) -> set[int]:
    """Keep what a file of memory said from coming back; give the documents of revisions.

    A document that goes as a whole is known by its name, as a session is; of a revision only
    digests are stored.
    """
    documents: set[int] = set()
    for number in ids:
        if kind == "document":
            for uuid, *place, at in tx.all("document_to_forget", {"id": number}):
                for name in {uuid, document_uuid(*place)}:  # a renamed one keeps its first name
                    values = {"harness": SOURCE_KIND, "session_id": name, "now": at}
                    tx.run("put_forgotten", values)
        else:
            documents.update(_column(tx, "document_of_revision", number))
            said = tx.all("said_in_revision", {"id": number})
            remember_forgotten(tx, (text.encode("utf-8", "replace") for (text,) in said))
    return documents


def is_forgotten_memory(tx: Tx, document: str, texts: Iterable[str]) -> bool:
    """Tell whether a file of memory, by its uuid, or one of its texts was asked to be forgotten."""
    values = {"harness": SOURCE_KIND, "session_id": document}
    if tx.value("is_forgotten", values) is not None:
        return True
    forgotten = forgotten_lines(tx)
    return any(forgotten(text.encode("utf-8", "replace")) for text in texts)


def _beside_events(tx: Tx, ids: Iterable[int]) -> tuple[set[int], set[int]]:
    """Give the environments and the entities that events refer to."""
    snapshots: set[int] = set()
    entities: set[int] = set()
    for number in ids:
        snapshots.update(n for n in _column(tx, "snapshot_of_event", number) if n is not None)
        entities.update(_column(tx, "entities_of_event", number))
    return snapshots, entities


def _erase_bare_entities(tx: Tx, ids: Iterable[int]) -> None:
    _erase_entities(tx, [n for n in ids if tx.value("entity_is_linked", {"id": n}) is None])


def _erase_entities(tx: Tx, ids: Iterable[int]) -> None:
    for number in ids:
        for step in _ENTITY_STEPS:
            tx.run(step, {"id": number})


def _column(tx: Tx, query: str, number: int) -> list[int]:
    return [row[0] for row in tx.all(query, {"id": number})]


# ---------------------------------------------------------------------- lines


def remember_forgotten(tx: Tx, lines: Iterable[bytes]) -> None:
    """Keep lines from ever being captured again; only their digests are stored."""
    tx.run_bulk("put_forgotten_line", [(digest(line),) for line in lines if line])


def forgotten_lines(tx: Tx) -> Callable[[bytes], bool]:
    """Give a test for forgotten lines; while none was forgotten it costs nothing."""
    if tx.value("any_forgotten_line") is None:
        return lambda _: False
    return lambda line: tx.value("is_forgotten_line", {"digest": digest(line)}) is not None
