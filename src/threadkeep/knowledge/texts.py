"""Where the contract's tables hold texts, and how these are read and changed row by row."""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from threadkeep.base.tx import Tx
from threadkeep.knowledge.forgetting import Kind

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
