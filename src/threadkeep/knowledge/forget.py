"""Taking rows out of the contract's tables, with all that hangs on them, by their numbers.

What a node tells comes from its evidence. When evidence goes, every node that rests on it goes, and
with it the entities that nothing else mentions. What else such a node told of is learned anew.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, get_args

from threadkeep.base.tx import Tx
from threadkeep.knowledge.archive import digest
from threadkeep.knowledge.entities import recount, ties_among
from threadkeep.knowledge.memory_documents import SOURCE_KIND, document_uuid
from threadkeep.knowledge.queues import Queue, learn_again, take_back
from threadkeep.knowledge.schema import names

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
# Names that stand in no row of their own -> what lists them, and what takes one out.
BareName = Literal["unknown record", "answer of CI"]
_BARE: Final = {
    "unknown record": ("unknown_kinds", "delete_unknown_kind"),
    "answer of CI": ("ci_answer_urls", "forget_ci_answer"),
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


def erase_before(tx: Tx, kind: Kind, before: int) -> int:
    """Take out the commands, visits or runs of CI from before a time; give how many."""
    span = {"since": None, "until": before}
    query = {"event": "shell_events_between", "visit": "visits_between", "run": "runs_between"}[
        kind
    ]
    found = {row[0] for row in tx.all(query, span)}
    if found:
        erase(tx, kind, found)
        tx.run("drop_quiet_shell_sessions", span)
        want_cleaning(tx)
    return len(found)


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
    for part in ("session_usage", "session_entries", "retold", "session"):
        tx.run(f"delete_{part}", {"session": session})


def drop_quiet_shells(tx: Tx, since: int | None, until: int | None) -> None:
    """Take out the sessions of shells in a span of time of which no command is left."""
    tx.run("drop_quiet_shell_sessions", {"since": since, "until": until})


def matching_names(tx: Tx, what: BareName, searches: Callable[[str], bool]) -> list[str]:
    """Give the names of unknown records, or of answers of CI, that a search finds."""
    return [row[0] for row in tx.all(_BARE[what][0]) if searches(row[0])]


def drop_names(tx: Tx, what: BareName, names_: Iterable[str]) -> None:
    """Take out such names, with what was counted under them."""
    tx.run_bulk(_BARE[what][1], [(name,) for name in names_])


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


# The text that a row loses where the row itself must stay: NULL, or nothing where that is refused.
_BLANK: Final = {"tk_sessions": ""}

TEXTS: Final = (
    Texts(
        "events",
        ("command", "stdout", "stderr", "cwd", "git_repo", "git_branch", "tool_name"),
        "event",
    ),
    Texts("env_snapshots", ("env_json",), "snapshot"),
    Texts("sessions", ("summary",)),
    Texts(
        "browser_events",
        ("url", "title", "domain", "extracted_text", "search_query", "referrer"),
        "visit",
    ),
    Texts(
        "agentic_sessions",
        (
            *("project_dir", "cwd", "git_branch", "slug", "title", "agent", "summary_text"),
            *("tool_calls_json", "user_prompts_json", "snapshot_diffs_json"),
            "commit_messages_json",
        ),
        "segment",
    ),
    Texts(
        "claude_sessions",
        (
            *("project_dir", "cwd", "git_branch", "summary_text", "tool_calls_json"),
            "user_prompts_json",
        ),
        "legacy",
    ),
    Texts("knowledge_nodes", ("content", "embed_text", "tags"), "node"),
    Texts(
        *("entities", ("name", "canonical", "metadata"), "entity"),
        names=("name", "canonical", "metadata"),
    ),
    Texts("workflow_runs", ("repo", "head_branch", "html_url", "actor", "raw_json"), "run"),
    Texts("workflow_jobs", ("name", "runner_name", "raw_json"), "job"),
    Texts("workflow_annotations", ("path", "message"), "annotation"),
    Texts("workflow_log_excerpts", ("step_name", "excerpt"), "excerpt"),
    Texts(
        *("lessons", ("repo", "path_prefix", "summary", "fix_hint"), "lesson"),
        names=("repo", "path_prefix"),
    ),
    Texts(
        *("lesson_pending", ("repo", "tool", "rule_id", "path_prefix"), "waiting_lesson"),
        names=("repo", "tool", "rule_id", "path_prefix"),
    ),
    Texts("sha_watchlist", ("repo",), "watch", names=("repo",)),
    Texts("capture_alarms", ("details_json", "ack_note"), "alarm"),
    Texts("source_health", ("last_error_msg",)),
    Texts("enrichment_queue", ("error_message",)),
    Texts("agentic_enrichment_queue", ("error_message",)),
    Texts("claude_enrichment_queue", ("error_message",)),
    Texts("browser_enrichment_queue", ("error_message",)),
    Texts("workflow_enrichment_queue", ("error_message",)),
    Texts(
        *("memory_documents", ("repository", "logical_path", "source_path"), "document"),
        names=("repository", "logical_path", "source_path"),
    ),
    Texts("memory_documents", ("last_error",)),
    Texts("memory_revisions", ("redacted_content", "summary", "diff_text"), "revision"),
    Texts("memory_chunks", ("heading_path", "content"), "chunk"),
    Texts("memory_enrichment_queue", ("error_message",)),
    Texts("memory_document_categories", ("category",), "category", names=("category",)),
    Texts(
        *("memory_document_links", ("target_logical_path", "anchor_text"), "memory_link"),
        names=("target_logical_path",),
    ),
    Texts("tk_logs", ("error",)),
    Texts(
        "tk_sessions", ("title", "slug", "agent", "first_prompt", "cwd", "project", "git_branch")
    ),
    Texts("tk_orphans", ("row_json",), "orphan"),
)


def is_json(table: str, column: str) -> bool:
    """Tell whether a column holds JSON."""
    return f"{table}.{column}" in _JSON or column.endswith("_json")


def is_there(tx: Tx, texts: Texts) -> bool:
    """Tell whether the file has this table."""
    sql = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    return tx.execute(sql, (texts.table,)).fetchone() is not None


def text_rows(tx: Tx, texts: Texts) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the number of each row and its texts by column, those that it has."""
    # As bytes, since another program's text need not be valid UTF-8.
    shown = ", ".join(f"CAST({column} AS BLOB)" for column in texts.columns)
    sql = f"SELECT rowid, {shown} FROM {texts.table} WHERE rowid > ? ORDER BY rowid LIMIT {_ROWS}"  # noqa: S608
    after = -(1 << 63)
    while rows := tx.execute(sql, (after,)).fetchall():
        for number, *values in rows:
            pairs = zip(texts.columns, values, strict=True)
            yield number, {c: v.decode("utf-8", "replace") for c, v in pairs if v is not None}
        after = rows[-1][0]


def put_texts(tx: Tx, texts: Texts, number: int, changed: Mapping[str, str]) -> None:
    """Store new texts in a row."""
    assigned = ", ".join(f"{column} = ?" for column in changed)
    sql = f"UPDATE {texts.table} SET {assigned} WHERE rowid = ?"  # noqa: S608
    tx.execute(sql, (*changed.values(), number))


def blank_texts(tx: Tx, texts: Texts, number: int, columns: list[str]) -> None:
    """Take texts out of a row that stays."""
    blank = _BLANK.get(texts.table)
    assigned = ", ".join(f"{column} = ?" for column in columns)
    sql = f"UPDATE {texts.table} SET {assigned} WHERE rowid = ?"  # noqa: S608
    tx.execute(sql, (*(blank for _ in columns), number))


# ------------------------------------------------------------------------------
# Where secrets were masked in the archive, by which rule; and which rules mask no more where.
#
# What stood there is never noted: the log is asked again, as long as it exists.

Marks = Sequence[tuple[str, int]]  # the rule and the place of each mask in a line


def note_masks(tx: Tx, log_id: int, found: Mapping[int, Marks]) -> None:
    """Note the masks of some lines, given by their numbers."""
    rows = [(log_id, line, place, rule) for line, marks in found.items() for rule, place in marks]
    if rows:
        tx.run_bulk("put_mask", rows)


def drop_masks(tx: Tx, log_id: int, lines: Iterable[int]) -> None:
    """Drop what is noted of the masks of some lines."""
    tx.run_bulk("delete_line_masks", [(log_id, line) for line in lines])


def masks_of(tx: Tx, log_id: int) -> dict[int, list[tuple[str, int]]]:
    """Give the masks that are noted of a log, by line, in their order."""
    found: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for line, rule, place in _all(tx, "masks_of_log", {"log": log_id}):
        found[line].append((rule, place))
    return dict(found)


def rules_noted(tx: Tx) -> set[str]:
    """Give the names of all rules that have masked something."""
    return {row[0] for row in _all(tx, "mask_rules")}


def exempt_rules(tx: Tx, harness: str, session_id: str) -> frozenset[str]:
    """Give the rules that do not mask in a session, because a person undid their masks there."""
    named = {"harness": harness, "session_id": session_id}
    return frozenset(row[0] for row in _all(tx, "exempt_rules", named))


def rules_exempt_anywhere(tx: Tx) -> frozenset[str]:
    """Give the rules that do not mask in some session."""
    return frozenset(row[0] for row in _all(tx, "rules_exempt_anywhere"))


def exempt(tx: Tx, harness: str, session_id: str, rules: Iterable[str], now: int) -> None:
    """Remember that rules mask no more in a session."""
    tx.run_bulk("put_exempt_rule", [(harness, session_id, rule, now) for rule in sorted(rules)])


def _all(tx: Tx, query: str, values: Mapping[str, object] | None = None) -> list[tuple[Any, ...]]:
    """Ask tables that a store has since it was last opened to be written to."""
    return tx.all(query, dict(values or {})) if "tk_exempt_rules" in names(tx, "table") else []


def rebuild_words(tx: Tx) -> None:
    """Write the index of nodes anew: nothing of what was taken out or masked stays in it."""
    tx.run("rebuild_index")
