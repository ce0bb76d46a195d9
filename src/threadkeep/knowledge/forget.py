"""Taking rows out of the contract's tables, with all that hangs on them, by their numbers.

What a node tells comes from its evidence. When evidence goes, every node that rests on it goes, and
with it the entities that nothing else mentions. What else such a node told of is learned again.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, get_args

from threadkeep.base.text import decoded
from threadkeep.base.tx import Sql, Tx
from threadkeep.knowledge.archive import digest
from threadkeep.knowledge.entities import recount, ties_among
from threadkeep.knowledge.kinds import KIND, KINDS, Evidence, Kind
from threadkeep.knowledge.memory_documents import SOURCE_KIND, document_uuid
from threadkeep.knowledge.node_words import index_node
from threadkeep.knowledge.queues import learn_again, take_back

# A document's record that was forgotten has this for a digest, which no text has.
FORGOTTEN_RECORD: Final = b""

# Kind -> what is done before a row goes. Its ticket goes with it, and cascades do the rest: all
# that a document has goes with it, but for the node, which was taken out before.
_FIRST: Final[Mapping[Kind, tuple[str, ...]]] = {
    "event": ("remember_forgotten_event", "drop_event_entities"),
    "visit": ("remember_forgotten_visit",),
    "run": ("remember_forgotten_run",),
    "snapshot": ("leave_snapshot",),
    "entity": ("unlink_entity_from_nodes", "unlink_entity_from_events", "drop_relationships"),
    "node": tuple(f"unlink_every_{kind.name}" for kind in KINDS if kind.links),
}
# Names that stand in no row of their own -> what lists them, and what takes one out.
BareName = Literal["unknown record", "answer of CI"]
_BARE: Final = {
    "unknown record": ("unknown_kinds", "delete_unknown_kind"),
    "answer of CI": ("ci_answer_urls", "forget_ci_answer"),
}
# What is learned again when a node that told of it goes.
_RELEARNED: Final = {
    kind.name: kind.tickets.queue
    for kind in KINDS
    if kind.links and kind.tickets and kind.tickets.queue != "claude"
}
_EVIDENCE: Final[tuple[Evidence, ...]] = get_args(Evidence)


def erase(tx: Tx, kind: Kind, ids: Iterable[int]) -> int:
    """Take rows out with their tickets and links; give how many nodes went with them."""
    numbers = list(ids)
    if kind == "node":
        return erase_nodes(tx, numbers)
    if kind == "chunk":  # the revision has the same text
        revisions = {revision for n in numbers for revision in _column(tx, "revision_of_chunk", n)}
        return erase(tx, "revision", revisions)
    nodes = forsake(tx, kind, numbers)
    beside = _beside_events(tx, numbers) if kind == "event" else (set(), set())
    if kind == "event":
        _remember_commands(tx, numbers)
    documents = _remember_memory(tx, kind, numbers) if kind in ("document", "revision") else set()
    _drop(tx, kind, numbers)
    for snapshot in beside[0]:
        tx.run("drop_unused_snapshot", {"id": snapshot})
    _erase_bare_entities(tx, beside[1])
    for document in documents:
        tx.run("drop_bare_document", {"id": document})
        tx.run("unproject_document", {"id": document})
    return nodes


def forsake(tx: Tx, kind: Kind, ids: Iterable[int]) -> int:
    """Take out the nodes that tell of rows; what nobody tells of then is learned again."""
    numbers = set(ids)
    nodes = {node for number in numbers for node in _tellers(tx, kind, number)}
    rest = {
        what: {n for node in nodes for n in _column(tx, f"{what}_of_node", node)}
        for what in _RELEARNED
    }
    gone = erase_nodes(tx, nodes)
    for what, queue in _RELEARNED.items():
        left = rest[what] - numbers if what == kind else rest[what]
        learn_again(tx, queue, [n for n in left if not _column(tx, f"nodes_of_{what}", n)])
    return gone


def _tellers(tx: Tx, kind: Kind, number: int) -> list[int]:
    if kind not in _EVIDENCE:
        return []
    beside = _column(tx, "nodes_beside_visit", number) if kind == "visit" else []
    return _column(tx, f"nodes_of_{kind}", number) + beside


def want_cleaning(tx: Tx) -> None:
    """Leave word that old text must go out of the file; nobody may continue with what they read."""
    tx.run("want_cleaning")
    take_back(tx)


def erase_before(tx: Tx, kind: Kind, before: int) -> int:
    """Take out the commands, visits or runs of CI from before a time; give how many."""
    span = {"since": None, "until": before}
    found = {row[0] for row in tx.all(f"{kind}_between", span)}
    if found:
        erase(tx, kind, found)
        tx.run("drop_quiet_shell_sessions", span)
        want_cleaning(tx)
    return len(found)


def erase_nodes(tx: Tx, ids: Iterable[int]) -> int:
    """Take nodes out, with links, vectors and the entities that only they mention."""
    numbers = list(ids)
    entities = {entity for n in numbers for entity in _column(tx, "entity_of_node", n)}
    ties = {tie for n in numbers for tie in ties_among(tx, n)}
    if vectors_are(tx, "writable"):
        for number in numbers:
            tx.run("drop_vector", {"id": number})
    _drop(tx, "node", numbers)
    for number in numbers:
        index_node(tx, number)
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
    if "knowledge_vectors" not in tx.tables():
        return False
    made = str(tx.value("vectors_table"))
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
                    forget_session(tx, SOURCE_KIND, name, at)
        else:
            documents.update(_column(tx, "document_of_revision", number))
            said = tx.all("said_in_revision", {"id": number})
            remember_forgotten(tx, (text.encode("utf-8", "replace") for (text,) in said))
    return documents


def is_forgotten_memory(tx: Tx, document: str, texts: Iterable[str]) -> bool:
    """Tell whether a file of memory, by its uuid, or one of its texts was asked to be forgotten."""
    if is_forgotten(tx, SOURCE_KIND, document):
        return True
    forgotten = forgotten_lines(tx)
    return any(forgotten(text.encode("utf-8", "replace")) for text in texts)


def forget_session(tx: Tx, harness: str, session_id: str, now: int) -> None:
    """Leave word that a session is forgotten; from here on it is not captured again."""
    tx.run("put_forgotten", {"harness": harness, "session_id": session_id, "now": now})


def is_forgotten(tx: Tx, harness: str, session_id: str) -> bool:
    """Tell whether a session was asked to be forgotten."""
    return tx.value("is_forgotten", {"harness": harness, "session_id": session_id}) is not None


def any_forgotten(tx: Tx) -> bool:
    """Tell whether anything was ever asked to be forgotten."""
    return tx.value("any_forgotten") is not None


def drop_session(tx: Tx, session: int, terminals: Iterable[str]) -> None:
    """Take out the row of a session, its usage and entries, and shells that nothing ran in."""
    for terminal in terminals:
        tx.run("drop_empty_shell_session", {"terminal": terminal})
    for part in ("session_usage", "session_entries", "session_labels", "retold", "session"):
        tx.run(f"delete_{part}", {"session": session})


def drop_labels(tx: Tx) -> None:
    """Take out what was put on messages that are there no more."""
    tx.run("delete_labels_of_gone_messages")


def drop_quiet_shells(tx: Tx, since: int | None, until: int | None) -> None:
    """Take out the sessions of shells in a span of time of which no command is left."""
    tx.run("drop_quiet_shell_sessions", {"since": since, "until": until})


def matching_names(tx: Tx, what: BareName, searches: Callable[[str], bool]) -> list[str]:
    """Return the names of unknown records, or of answers of CI, that a search finds."""
    return [row[0] for row in tx.all(_BARE[what][0]) if searches(row[0])]


def drop_names(tx: Tx, what: BareName, names_: Iterable[str]) -> None:
    """Take out such names, with what was counted under them."""
    tx.run_bulk(_BARE[what][1], [{"name": name} for name in names_])


def _beside_events(tx: Tx, ids: Iterable[int]) -> tuple[set[int], set[int]]:
    """Return the environments and the entities that events refer to."""
    snapshots: set[int] = set()
    entities: set[int] = set()
    for number in ids:
        snapshots.update(n for n in _column(tx, "snapshot_of_event", number) if n is not None)
        entities.update(_column(tx, "entities_of_event", number))
    return snapshots, entities


def _erase_bare_entities(tx: Tx, ids: Iterable[int]) -> None:
    _drop(tx, "entity", [n for n in ids if tx.value("entity_is_linked", {"id": n}) is None])


def _drop(tx: Tx, kind: Kind, ids: Iterable[int]) -> None:
    ticket = (f"drop_{kind}_ticket",) if KIND[kind].tickets else ()
    for number in ids:
        for step in (*_FIRST.get(kind, ()), *ticket, f"drop_{kind}"):
            tx.run(step, {"id": number})


def _column(tx: Tx, query: str, number: int) -> list[int]:
    return [row[0] for row in tx.all(query, {"id": number})]


# ---------------------------------------------------------------------- lines


def remember_forgotten(tx: Tx, lines: Iterable[bytes]) -> None:
    """Keep lines from ever being captured again; only their digests are stored."""
    tx.run_bulk("put_forgotten_line", [{"digest": digest(line)} for line in lines if line])


def forgotten_lines(tx: Tx) -> Callable[[bytes], bool]:
    """Return a test for forgotten lines; while none was forgotten it costs nothing."""
    if tx.value("any_forgotten_line") is None:
        return lambda _: False
    return lambda line: tx.value("is_forgotten_line", {"digest": digest(line)}) is not None


# ------------------------------------------------------------------------------
# Where the contract's tables hold texts, and how these are read and changed row by row.

_ROWS: Final = 500
_JSON: Final = frozenset({"knowledge_nodes.content", "entities.metadata", "knowledge_nodes.tags"})


class Texts(NamedTuple):
    """The texts of one table; `kind` is what a row is taken out as, empty if only its text is."""

    table: str
    columns: tuple[str, ...]
    kind: Kind | None = None
    names: tuple[str, ...] = ()  # columns that name the row: with a secret in one of them it goes
    number: str = "id"


# The text that a row loses where the row itself must stay: NULL, or nothing where that is refused.
_BLANK: Final = {"tk_sessions": ""}

TEXTS: Final = (
    *(Texts(kind.table, kind.texts, kind.name, kind.named_by, kind.number) for kind in KINDS),
    *(
        Texts(kind.tickets.name, ("error_message",), number=kind.tickets.id)
        for kind in KINDS
        if kind.tickets
    ),
    Texts("memory_documents", ("last_error",)),
    Texts("sessions", ("summary",)),
    Texts("source_health", ("last_error_msg",), number="{row}"),
    Texts("tk_logs", ("error",)),
    Texts(
        "tk_sessions", ("title", "slug", "agent", "first_prompt", "cwd", "project", "git_branch")
    ),
)


def is_json(table: str, column: str) -> bool:
    """Tell whether a column holds JSON."""
    return f"{table}.{column}" in _JSON or column.endswith("_json")


def is_there(tx: Tx, texts: Texts) -> bool:
    """Tell whether the file has this table."""
    return texts.table in tx.tables()


def text_rows(tx: Tx, texts: Texts) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the number of each row and its texts by column, those that it has."""
    # As bytes, since another program's text need not be valid UTF-8.
    shown = ", ".join(f"{{raw:{column}}}" for column in texts.columns)
    number = texts.number
    sql = (
        f"SELECT {number}, {shown} FROM {texts.table} WHERE {number} > :after"  # noqa: S608
        f" ORDER BY {number} LIMIT {_ROWS}"
    )
    after = -(1 << 63)
    while rows := tx.all(Sql(sql), {"after": after}):
        for place, *values in rows:
            pairs = zip(texts.columns, values, strict=True)
            yield place, {c: decoded(v) for c, v in pairs if v is not None}
        after = rows[-1][0]


def put_texts(tx: Tx, texts: Texts, number: int, changed: Mapping[str, str]) -> None:
    """Store new texts in a row."""
    assigned = ", ".join(f"{column} = :{column}" for column in changed)
    sql = f"UPDATE {texts.table} SET {assigned} WHERE {texts.number} = :number"  # noqa: S608
    tx.run(Sql(sql), {**changed, "number": number})
    if texts.kind == "node":
        index_node(tx, number)


def blank_texts(tx: Tx, texts: Texts, number: int, columns: list[str]) -> None:
    """Take texts out of a row that stays."""
    blank = _BLANK.get(texts.table)
    assigned = ", ".join(f"{column} = CAST(:blank AS TEXT)" for column in columns)
    sql = f"UPDATE {texts.table} SET {assigned} WHERE {texts.number} = :number"  # noqa: S608
    tx.run(Sql(sql), {"blank": blank, "number": number})


# ------------------------------------------------------------------------------
# Where secrets were masked in the archive, by which rule; and which rules mask no more where.
#
# What stood there is never noted: the log is asked again, as long as it exists.

Marks = Sequence[tuple[str, int]]  # the rule and the place of each mask in a line


def note_masks(tx: Tx, log_id: int, found: Mapping[int, Marks]) -> None:
    """Note the masks of some lines, given by their numbers."""
    rows = [
        {"log": log_id, "line": line, "place": place, "rule": rule}
        for line, marks in found.items()
        for rule, place in marks
    ]
    if rows:
        tx.run_bulk("put_mask", rows)


def drop_masks(tx: Tx, log_id: int, lines: Iterable[int]) -> None:
    """Drop what is noted of the masks of some lines."""
    tx.run_bulk("delete_line_masks", [{"log": log_id, "line": line} for line in lines])


def masks_of(tx: Tx, log_id: int) -> dict[int, list[tuple[str, int]]]:
    """Return the masks that are noted of a log, by line, in their order."""
    found: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for line, rule, place in _all(tx, "masks_of_log", {"log": log_id}):
        found[line].append((rule, place))
    return dict(found)


def rules_noted(tx: Tx) -> set[str]:
    """Return the names of all rules that have masked something."""
    return {row[0] for row in _all(tx, "mask_rules")}


def exempt_rules(tx: Tx, harness: str, session_id: str) -> frozenset[str]:
    """Return the rules that do not mask in a session, because a person undid their masks there."""
    named = {"harness": harness, "session_id": session_id}
    return frozenset(row[0] for row in _all(tx, "exempt_rules", named))


def rules_exempt_anywhere(tx: Tx) -> frozenset[str]:
    """Return the rules that do not mask in some session."""
    return frozenset(row[0] for row in _all(tx, "rules_exempt_anywhere"))


def exempt(tx: Tx, harness: str, session_id: str, rules: Iterable[str], now: int) -> None:
    """Remember that rules mask no more in a session."""
    where = {"harness": harness, "session_id": session_id, "now": now}
    tx.run_bulk("put_exempt_rule", [{**where, "rule": rule} for rule in sorted(rules)])


def _all(tx: Tx, query: str, values: Mapping[str, object] | None = None) -> list[tuple[Any, ...]]:
    """Ask tables that a store has since it was last opened to be written to."""
    return tx.all(query, dict(values or {})) if "tk_exempt_rules" in tx.tables() else []
