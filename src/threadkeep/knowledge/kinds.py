"""The kinds of rows in a knowledge file, each once: its table, its links, its queue, its texts.

What is the same for every kind is made of this list: the queries of `kinds.sql`, the triggers of
`tk_kinds.sql`, the queues of enrichment, and the texts that are searched for secrets.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final, Literal, NamedTuple

from threadkeep.base.sql import Engine, load_text, parse_queries
from threadkeep.base.sqlite.statements import split_statements
from threadkeep.base.text import pattern

Queue = Literal["shell", "agentic", "browser", "workflow", "memory"]
Evidence = Literal[
    "event", "segment", "legacy", "visit", "run", "lesson", "document", "revision", "chunk"
]
_OfRuns = Literal["job", "annotation", "excerpt", "watch", "waiting_lesson"]
_Beside = Literal["entity", "snapshot", "alarm", "orphan", "category", "memory_link", "label"]
Kind = Literal["node"] | Evidence | _OfRuns | _Beside

_PLACEHOLDER: Final = pattern(r"<(\w+)>")
_MARKED: Final = pattern(r"^(?=-- (?:name|piece): )", re.MULTILINE)


class TicketTable(NamedTuple):
    """The tickets of a queue, and the rows that they stand for."""

    queue: Queue | Literal["claude"]  # nothing is taken from the last any more
    name: str
    target: str  # the column with the row's number
    since: str = "created_at"  # when the ticket was made
    id: str = "id"
    is_real: str = "probe_tag IS NULL"  # what tells the rows from synthetic ones
    enriched: str = "enriched = 1"  # what marks a row as learned from
    rows: str = ""


class RowKind(NamedTuple):
    """One kind of rows; what it does not have is left out, and so are the queries about it."""

    name: Kind
    table: str
    number: str = "id"
    link: str | None = None  # its number in the table that ties nodes to it
    unless: tuple[Kind, ...] | None = None  # a node with one of these is about that one instead
    tickets: TicketTable | None = None
    indexed: str | None = None  # what `tk_things` calls it
    watched: tuple[str, ...] = ()  # columns that the index of words is made of
    in_order: bool = True  # later rows have larger numbers
    since: str | None = None  # when it happened, in a span of time
    until: str | None = None  # if it lasts
    texts: tuple[str, ...] = ()  # columns that may hold a secret
    named_by: tuple[str, ...] = ()  # those that name the row: with a secret in one it goes

    @property
    def links(self) -> str | None:
        """The table that ties nodes to it."""
        return self.link and f"knowledge_node_{self.table}"


_RULE: Final = ("repo", "tool", "rule_id", "path_prefix")
_SLICE: Final = ("project_dir", "cwd", "git_branch", "summary_text", "tool_calls_json")
_PROBES: Final = "SELECT id FROM memory_documents WHERE repository = 'hippo/__hippo_probe__'"

KINDS: Final = (
    RowKind(
        *("event", "events"),
        link="event_id",
        unless=("run", "segment", "visit"),
        tickets=TicketTable("shell", "enrichment_queue", "event_id"),
        indexed="command",
        watched=("command", "stdout", "stderr", "exit_code", "cwd", "git_branch"),
        texts=("command", "stdout", "stderr", "cwd", "git_repo", "git_branch", "tool_name"),
    ),
    RowKind(
        *("segment", "agentic_sessions"),
        link="agentic_session_id",
        unless=("run", "visit"),
        tickets=TicketTable("agentic", "agentic_enrichment_queue", "session_id", "enqueued_at"),
        indexed="segment",
        watched=("summary_text", "tool_calls_json", "user_prompts_json"),
        texts=(
            *(*_SLICE, "slug", "title", "agent", "user_prompts_json", "snapshot_diffs_json"),
            "commit_messages_json",
        ),
    ),
    RowKind(
        *("visit", "browser_events"),
        link="browser_event_id",
        unless=("run", "segment"),
        tickets=TicketTable("browser", "browser_enrichment_queue", "browser_event_id"),
        indexed="page",
        watched=("url", "title", "extracted_text", "search_query"),
        since="timestamp",
        texts=("url", "title", "domain", "extracted_text", "search_query", "referrer"),
    ),
    RowKind(
        *("run", "workflow_runs"),
        link="run_id",
        unless=(),
        tickets=TicketTable(
            *("workflow", "workflow_enrichment_queue", "run_id", "enqueued_at"),
            id="run_id",
            is_real="true",
        ),
        indexed="ci",
        watched=("head_branch", "status", "conclusion", "raw_json"),
        in_order=False,
        since="coalesce(started_at, first_seen_at)",
        texts=("repo", "head_branch", "html_url", "actor", "raw_json"),
    ),
    RowKind(
        *("revision", "memory_revisions"),
        tickets=TicketTable(
            *("memory", "memory_enrichment_queue", "revision_id", "enqueued_at"),
            is_real=f"document_id NOT IN ({_PROBES})",
            enriched="enriched_at = coalesce(enriched_at, :now)",
        ),
        since="created_at",
        texts=("redacted_content", "summary", "diff_text"),
    ),
    RowKind(
        *("lesson", "lessons"),
        link="lesson_id",
        indexed="lesson",
        watched=("repo", "summary", "fix_hint"),
        since="first_seen_at",
        until="last_seen_at",
        texts=("repo", "path_prefix", "summary", "fix_hint"),
        named_by=("repo", "path_prefix"),
    ),
    # The family that version 18 froze.
    RowKind(
        *("legacy", "claude_sessions"),
        link="claude_session_id",
        tickets=TicketTable("claude", "claude_enrichment_queue", "claude_session_id"),
        texts=(*_SLICE, "user_prompts_json"),
    ),
    RowKind(
        *("node", "knowledge_nodes"),
        indexed="node",
        watched=("content", "embed_text", "outcome", "tags"),
        texts=("content", "embed_text", "tags"),
    ),
    RowKind(
        *("entity", "entities"),
        link="entity_id",
        texts=("name", "canonical", "metadata"),
        named_by=("name", "canonical", "metadata"),
    ),
    RowKind(
        *("document", "memory_documents"),
        texts=("repository", "logical_path", "source_path"),
        named_by=("repository", "logical_path", "source_path"),
    ),
    RowKind(
        *("chunk", "memory_chunks"),
        link="memory_chunk_id",
        texts=("heading_path", "content"),
    ),
    RowKind("category", "memory_document_categories", texts=("category",), named_by=("category",)),
    RowKind(
        *("memory_link", "memory_document_links"),
        texts=("target_logical_path", "anchor_text"),
        named_by=("target_logical_path",),
    ),
    RowKind("job", "workflow_jobs", texts=("name", "runner_name", "raw_json")),
    RowKind("annotation", "workflow_annotations", texts=("path", "message")),
    RowKind("excerpt", "workflow_log_excerpts", texts=("step_name", "excerpt")),
    RowKind(
        *("watch", "sha_watchlist", "{row}"),
        since="created_at",
        texts=("repo",),
        named_by=("repo",),
    ),
    RowKind(
        *("waiting_lesson", "lesson_pending", "{row}"),
        since="first_seen_at",
        texts=_RULE,
        named_by=_RULE,
    ),
    RowKind("snapshot", "env_snapshots", texts=("env_json",)),
    RowKind("alarm", "capture_alarms", texts=("details_json", "ack_note")),
    RowKind("label", "tk_labels", texts=("value",)),
    RowKind("orphan", "tk_orphans", "{row}", texts=("row_json",)),
)
KIND: Final[Mapping[str, RowKind]] = {kind.name: kind for kind in KINDS}


# ---------------------------------------------------------------------- what is made of them


def _values_of(kind: RowKind) -> dict[str, str | None]:
    """Return what stands for each placeholder; None for what the kind does not have."""
    absent = " AND NOT EXISTS (SELECT 1 FROM {} WHERE knowledge_node_id = n.id)"
    unless = None if kind.unless is None else [KIND[other].links for other in kind.unless]
    tickets = kind.tickets._asdict() if kind.tickets else {}
    return {
        **{name: value for name, value in kind._asdict().items() if isinstance(value, str)},
        "kind": kind.name,
        "links": kind.links,
        "until": kind.until or kind.since,
        **{f"ticket_{name}": value for name, value in tickets.items()},
        "queue": tickets.get("queue"),
        "unless": None if unless is None else "".join(map(absent.format, unless)),
        "ordered": kind.table if kind.in_order else None,
        "watched": ", ".join(kind.watched) or None,
        "before": ", ".join(f"OLD.{column}" for column in kind.watched),
        "after": ", ".join(f"NEW.{column}" for column in kind.watched),
    }


def _made(template: str) -> Iterator[str]:
    """Write a template out for each kind that has all that it names."""
    for values in map(_values_of, KINDS):
        made = template
        for name in _PLACEHOLDER.findall(template):
            value = values.get(name)
            if value is None:
                break
            made = made.replace(f"<{name}>", value)
        else:
            yield made


def triggers() -> str:
    """Return the triggers that keep the index of words right, whoever writes a row."""
    templates = split_statements(load_text(__package__, "tk_kinds.sql"))
    return "\n".join(made for template in templates for made in _made(template))


@cache
def _queries(engine: Engine) -> dict[str, str]:
    templates = _MARKED.split(load_text(__package__, "kinds.sql"))[1:]
    made = (query for template in templates for query in _made(template))
    return parse_queries("".join(made), engine)


class QueriesOfKinds(Mapping[str, str]):
    """Queries by name: those that are written out, and behind them those that are made."""

    def __init__(self, written: Mapping[str, str], engine: Engine = "sqlite") -> None:
        self._written = written
        self._engine: Engine = engine

    def __getitem__(self, name: str) -> str:
        return self._written[name] if name in self._written else _queries(self._engine)[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**dict.fromkeys(self._written), **_queries(self._engine)})

    def __len__(self) -> int:
        return len(list(iter(self)))
