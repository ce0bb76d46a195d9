"""The table of verbs: one line for each verb of a store, from which every surface is made.

HTTP and its description, `threadkeep.aio`, the remote client and the reference pages are read from
these lines and from the functions that they name. A verb without an address of its own is called by
its name. What cannot be called from outside stands in `INSIDE`, with the reason.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from threadkeep.base.verb_table import SAME, Verb, VerbOwner, table, verb

CHAT: Final = VerbOwner("chat", "threadkeep.chat.store", "ChatStore")
STATE: Final = VerbOwner("state", "threadkeep.state.session_db", "SessionDB", "look")

NAMED: Final = VerbOwner(
    "state_sessions", "threadkeep.state.named_sessions", "NamedSessions", "look"
)

KNOWLEDGE: Final = VerbOwner("knowledge", "threadkeep.knowledge.library", "Browse", "look")

MEMORY: Final = VerbOwner("memory", "threadkeep.home.questions", "Questions")

CAPTURED: Final = VerbOwner("captured", "threadkeep.home.captured", "CapturedWork", "look")

HEALTH: Final = VerbOwner("health", "threadkeep.service.care", "HomeCare", "look")

LOGINS: Final = VerbOwner("logins", "threadkeep.service.care", "WebLogins", "look")

MAIL: Final = VerbOwner("mail", "threadkeep.home.mailboxes", "NamedMailboxes", "look")

# ------------------------------------------------------------------------------
# How answers look at an address that are no records by themselves.


class ChangeCount(msgspec.Struct, frozen=True):
    """Whether, or how often, something was done."""

    done: int


class DeleteReport(msgspec.Struct, frozen=True):
    """What was deleted, or would be."""

    dry_run: bool
    deleted: tuple[str, ...]


class Used(msgspec.Struct, frozen=True):
    """What a session used, with the sessions that it started."""

    tokens: dict[str, int]
    cost_usd: float


class Verified(msgspec.Struct, frozen=True):
    """What a check found."""

    ok: bool
    problems: list[str]
    checked: int
    unhashed: int = 0


class SystemPrompt(msgspec.Struct, frozen=True):
    """A system prompt that is kept."""

    digest: str
    body: str


class Cleared(msgspec.Struct, frozen=True):
    """How many messages went, or would go."""

    dry_run: bool
    messages: int


# ------------------------------------------------------------------------------
# Chat: conversations recorded chunk by chunk.

_ONE: Final = "/chat/sessions/{session}"
_SAID: Final = {"text": "text_or_parts", "parts": "text_or_parts"}

_CHAT: Final = table(
    # sessions
    verb(CHAT, "sessions", "GET /chat/sessions"),
    verb(CHAT, "create_session", "POST /chat/sessions", 201, begins=True),
    verb(CHAT, "find_session", f"GET {_ONE}", names={"session": "ref"}),
    verb(CHAT, "session", "GET"),
    verb(CHAT, "change", f"PATCH {_ONE}", again=SAME),
    verb(CHAT, "set_title", "POST", again=SAME),
    verb(CHAT, "set_metadata", "POST", again=SAME),
    verb(CHAT, "set_permissions", "POST", again=SAME),
    verb(CHAT, "archive", "POST", again=SAME),
    verb(CHAT, "unarchive", "POST", again=SAME),
    verb(CHAT, "delete", f"DELETE {_ONE}", destroys=True, shape=DeleteReport),
    # messages
    verb(CHAT, "messages", f"GET {_ONE}/messages"),
    verb(CHAT, "ui_messages", "GET"),
    verb(CHAT, "message", f"GET {_ONE}/messages/{{message}}"),
    verb(CHAT, "find_message", f"GET {_ONE}/find-message", names={"q": "ref"}, shape="id"),
    verb(CHAT, "say", f"POST {_ONE}/messages", 201, names=_SAID),
    verb(CHAT, "put_message", "POST"),
    verb(CHAT, "journal", f"GET {_ONE}/journal"),
    verb(CHAT, "tail", "GET"),
    verb(CHAT, "read_tail", "GET"),
    verb(CHAT, "timeline", f"GET {_ONE}/timeline"),
    verb(CHAT, "search", "GET /chat/search", names={"q": "text"}),
    verb(CHAT, "diff", "GET /chat/diff"),
    # what was used
    verb(CHAT, "spend", f"GET {_ONE}/usage", shape=Used),
    verb(CHAT, "record_usage", "POST"),
    # history
    verb(CHAT, "fork", f"POST {_ONE}/fork", 201, names={"message": "from_message"}),
    verb(CHAT, "rewind", f"POST {_ONE}/rewind", shape="messages"),
    verb(
        CHAT,
        "unrewind",
        f"POST {_ONE}/unrewind",
        shape="messages",
        command="chat rewind --undo",
    ),
    verb(CHAT, "compact", f"POST {_ONE}/compact", 201),
    verb(CHAT, "repair_orphans", f"POST {_ONE}/repair", shape="messages"),
    # the queue of pending turns
    verb(CHAT, "queued", f"GET {_ONE}/queue"),
    verb(CHAT, "enqueue", f"POST {_ONE}/queue", 201, names=_SAID, again="message_id"),
    verb(CHAT, "fire", f"POST {_ONE}/queue/fire"),
    verb(CHAT, "unfire", f"POST {_ONE}/queue/{{message}}/unfire", shape=ChangeCount),
    verb(CHAT, "cancel", f"POST {_ONE}/queue/{{message}}/cancel", shape=ChangeCount),
    # permissions, runs, prompts
    verb(CHAT, "judge", f"POST {_ONE}/judge"),
    verb(CHAT, "runs", f"GET {_ONE}/runs"),
    verb(
        CHAT,
        "put_system_prompt",
        "POST /chat/system-prompts",
        201,
        begins=True,
        shape=SystemPrompt,
        again=SAME,
    ),
    verb(CHAT, "system_prompt", "GET /chat/system-prompts/{digest}", shape=SystemPrompt),
    # out and in
    verb(CHAT, "export", f"GET {_ONE}/export", preset={"format": "jsonl"}),
    verb(CHAT, "export_all", "GET /chat/export", preset={"format": "jsonl"}),
    verb(
        CHAT,
        "import_sessions",
        "POST /chat/import",
        begins=True,
        upload="lines",
        command="chat import",
    ),
    # care
    verb(CHAT, "facts", "GET /chat/facts"),
    verb(CHAT, "size", "GET /chat/size"),
    verb(CHAT, "verify", "GET /chat/verify", preset={"adopt": False}, shape=Verified),
    verb(CHAT, "prune", "POST /chat/prune", destroys=True),
    verb(CHAT, "reindex", "POST /chat/reindex", shape=ChangeCount, again=SAME),
    verb(CHAT, "vacuum", "POST /chat/vacuum", shape=ChangeCount),
    verb(CHAT, "rebuild", "POST /chat/rebuild", shape=ChangeCount, again=SAME),
    verb(CHAT, "compact_log", "POST /chat/compact-log", shape=ChangeCount),
    verb(CHAT, "backup", "POST /chat/backup", shape="path"),
)

# ------------------------------------------------------------------------------
# State: Hermes's session file.

_STATE: Final = table(
    verb(STATE, "create_session", "POST", begins=True, again=SAME),
    verb(STATE, "ensure_session", "POST", begins=True, again=SAME),
    verb(STATE, "end_session", "POST", again=SAME),
    verb(STATE, "reopen_session", "POST", again=SAME),
    verb(STATE, "update_system_prompt", "POST", again=SAME),
    verb(STATE, "get_session", "GET"),
    verb(STATE, "resolve_session_id", "GET"),
    verb(STATE, "search_sessions", "GET"),
    verb(STATE, "session_count", "GET"),
    verb(STATE, "session_count_ge", "GET"),
    verb(STATE, "session_count_by_source", "GET /state/counts"),
    verb(STATE, "delete_session", "POST", destroys=True),
    verb(STATE, "get_session_delete_targets", "GET"),
    verb(STATE, "set_session_pinned", "POST", again=SAME),
    verb(STATE, "set_session_archived", "POST", again=SAME),
    verb(STATE, "set_session_hidden", "POST", again=SAME),
    verb(STATE, "set_session_read", "POST", again=SAME),
    verb(STATE, "set_relation", "POST", again=SAME),
    verb(STATE, "promote_to_session_reset", "POST"),
    verb(STATE, "update_session_meta", "POST", again=SAME),
    verb(STATE, "update_session_model", "POST", again=SAME),
    verb(STATE, "update_session_billing_route", "POST", again=SAME),
    verb(STATE, "update_session_runtime_lock", "POST", again=SAME),
    verb(STATE, "patch_session_model_config", "POST", again=SAME),
    verb(STATE, "get_session_model_config_value", "GET"),
    verb(STATE, "set_session_yolo", "POST", again=SAME),
    verb(STATE, "append_message", "POST", again="idempotency_key"),
    verb(STATE, "append_messages", "POST"),
    verb(STATE, "append_messages_batch", "POST"),
    verb(STATE, "clear_messages", "POST", destroys=True, again=SAME),
    verb(STATE, "get_messages", "GET"),
    verb(STATE, "get_message", "GET"),
    verb(STATE, "get_messages_around", "GET"),
    verb(STATE, "get_anchored_view", "GET"),
    verb(STATE, "message_count", "GET"),
    verb(STATE, "has_archived_messages", "GET"),
    verb(STATE, "get_active_message_watermark", "GET"),
    verb(STATE, "get_active_message_ids", "GET"),
    verb(STATE, "has_platform_message_id", "GET"),
    verb(STATE, "latest_message_row_id", "GET"),
    verb(STATE, "latest_user_message_row_id", "GET"),
    verb(STATE, "get_message_role", "GET"),
    verb(STATE, "find_pr_url_messages", "GET"),
    verb(STATE, "get_messages_as_conversation", "GET"),
    verb(STATE, "get_resume_conversations", "GET"),
    verb(STATE, "get_ancestor_display_prefix", "GET"),
    verb(STATE, "get_resume_message_count", "GET"),
    verb(STATE, "assert_resume_safe", "GET"),
    verb(STATE, "assert_export_safe", "GET"),
    verb(STATE, "rewind_to_message", "POST"),
    verb(STATE, "rewind_user_turn", "POST"),
    verb(STATE, "undo_rewind", "POST"),
    verb(STATE, "restore_rewound", "POST"),
    verb(STATE, "list_recent_user_messages", "GET"),
    verb(STATE, "set_message_reaction", "POST"),
    verb(STATE, "get_message_reactions", "GET"),
    verb(STATE, "take_unseen_reactions", "POST"),
    verb(STATE, "set_latest_matching_message_display_kind", "POST", again=SAME),
    verb(STATE, "set_latest_user_api_content", "POST", again=SAME),
    verb(STATE, "set_message_api_content", "POST", again=SAME),
    verb(STATE, "replace_messages", "POST"),
    verb(STATE, "archive_and_compact", "POST"),
    verb(STATE, "publish_compression_child", "POST"),
    verb(STATE, "find_live_compression_child", "GET"),
    verb(STATE, "reopen_orphaned_compression_session", "POST"),
    verb(STATE, "purge_stale_tool_call_markers", "POST", destroys=True),
    verb(STATE, "record_compression_failure_cooldown", "POST", again=SAME),
    verb(STATE, "get_compression_failure_cooldown", "GET"),
    verb(STATE, "clear_compression_failure_cooldown", "POST", again=SAME),
    verb(STATE, "get_compression_failure_cooldown_row", "GET"),
    verb(STATE, "restore_compression_failure_cooldown_row", "POST", again=SAME),
    verb(STATE, "get_compression_fallback_streak", "GET"),
    verb(STATE, "set_compression_fallback_streak", "POST", again=SAME),
    verb(STATE, "get_compression_ineffective_count", "GET"),
    verb(STATE, "set_compression_ineffective_count", "POST", again=SAME),
    verb(STATE, "get_compression_recovery_deadline", "GET"),
    verb(STATE, "set_compression_recovery_deadline", "POST", again=SAME),
    verb(STATE, "get_compression_overload_streak", "GET"),
    verb(STATE, "set_compression_overload_streak", "POST", again=SAME),
    verb(STATE, "increment_compression_overload_streak", "POST"),
    verb(STATE, "increment_hygiene_failure_streak", "POST"),
    verb(STATE, "reset_hygiene_failure_streak", "POST", again=SAME),
    verb(STATE, "try_acquire_compression_lock", "POST", again=SAME),
    verb(STATE, "refresh_compression_lock", "POST", again=SAME),
    verb(STATE, "release_compression_lock", "POST", again=SAME),
    verb(STATE, "get_compression_lock_holder", "GET"),
    verb(STATE, "try_acquire_session_turn_lease", "POST", again=SAME),
    verb(STATE, "acquire_session_turn_lease", "POST", again=SAME),
    verb(STATE, "refresh_session_turn_lease", "POST", again=SAME),
    verb(STATE, "release_session_turn_lease", "POST", again=SAME),
    verb(STATE, "has_live_session_turn_lease", "GET"),
    verb(STATE, "search_messages", "GET"),
    verb(STATE, "reindex", "POST", again=SAME),
    verb(STATE, "rebuild_fts", "POST", again=SAME),
    verb(STATE, "optimize_fts", "POST", again=SAME),
    verb(STATE, "optimize_fts_storage", "POST"),
    verb(STATE, "fts_optimize_available", "GET"),
    verb(STATE, "fts_rebuild_status", "GET"),
    verb(STATE, "fts_rebuild_step", "POST"),
    verb(STATE, "fts_cjk_rebuild_status", "GET"),
    verb(STATE, "fts_cjk_rebuild_step", "POST"),
    verb(STATE, "set_session_title", "POST", again=SAME),
    verb(STATE, "set_auto_title", "POST", again=SAME),
    verb(STATE, "set_auto_title_if_empty", "POST"),
    verb(STATE, "get_session_title_source", "GET"),
    verb(STATE, "set_session_title_source", "POST", again=SAME),
    verb(STATE, "get_session_title", "GET"),
    verb(STATE, "get_session_by_title", "GET"),
    verb(STATE, "resolve_session_by_title", "GET"),
    verb(STATE, "get_next_title_in_lineage", "GET"),
    verb(STATE, "list_sessions_rich", "GET"),
    verb(STATE, "get_session_rich_row", "GET"),
    verb(STATE, "search_sessions_by_id", "GET"),
    verb(STATE, "list_cron_job_runs", "GET"),
    verb(STATE, "list_skill_scaffolded_sessions", "GET"),
    verb(STATE, "get_first_assistant_text", "GET"),
    verb(STATE, "register_backend_heartbeat", "POST", again=SAME),
    verb(STATE, "clear_backend_heartbeat", "POST"),
    verb(STATE, "prune_stale_heartbeats", "POST"),
    verb(STATE, "list_backend_heartbeats", "GET"),
    verb(STATE, "sweep_orphaned_sessions", "POST"),
    verb(STATE, "reopen_if_explicitly_closed", "POST"),
    verb(STATE, "session_lifecycle_statuses", "GET"),
    verb(STATE, "touch_session_activity", "POST", again=SAME),
    verb(STATE, "clear_session_activity_labels", "POST", again=SAME),
    verb(STATE, "get_session_activity", "GET"),
    verb(STATE, "update_session_cwd", "POST"),
    verb(STATE, "publish_session_git_metadata", "POST", again=SAME),
    verb(STATE, "backfill_repo_roots", "POST", again=SAME),
    verb(STATE, "distinct_session_cwds", "GET"),
    verb(STATE, "get_compression_tip", "GET"),
    verb(STATE, "get_compression_lineage", "GET"),
    verb(STATE, "get_lineage", "GET"),
    verb(STATE, "get_conversation_root", "GET"),
    verb(STATE, "resolve_resume_session_id", "GET"),
    verb(STATE, "compress_session", "POST"),
    verb(STATE, "branch_session", "POST"),
    verb(STATE, "update_token_counts", "POST", again="idempotency_key"),
    verb(STATE, "record_auxiliary_usage", "POST"),
    verb(STATE, "get_dominant_session_model_route", "GET"),
    verb(STATE, "usage", "GET"),
    verb(STATE, "usage_totals", "GET"),
    verb(STATE, "get_meta", "GET"),
    verb(STATE, "set_meta", "POST", again=SAME),
    verb(STATE, "list_meta_prefix", "GET"),
    verb(STATE, "request_handoff", "POST"),
    verb(STATE, "get_handoff_state", "GET"),
    verb(STATE, "list_pending_handoffs", "GET"),
    verb(STATE, "claim_handoff", "POST"),
    verb(STATE, "complete_handoff", "POST", again=SAME),
    verb(STATE, "fail_handoff", "POST", again=SAME),
    verb(STATE, "record_gateway_session_peer", "POST", again=SAME),
    verb(STATE, "set_expiry_finalized", "POST", again=SAME),
    verb(STATE, "list_gateway_sessions", "GET"),
    verb(STATE, "find_session_by_origin", "GET"),
    verb(STATE, "find_latest_gateway_session_for_peer", "GET"),
    verb(STATE, "save_gateway_routing_entry", "POST", again=SAME),
    verb(STATE, "replace_gateway_routing_entries", "POST", again=SAME),
    verb(STATE, "load_gateway_routing_entries", "GET"),
    verb(STATE, "delete_gateway_routing_entries", "POST", again=SAME),
    verb(STATE, "find_orphaned_gateway_sessions", "GET"),
    verb(STATE, "adopt_orphaned_gateway_session", "POST"),
    verb(STATE, "apply_telegram_topic_migration", "POST", again=SAME),
    verb(STATE, "enable_telegram_topic_mode", "POST", again=SAME),
    verb(STATE, "disable_telegram_topic_mode", "POST", again=SAME),
    verb(STATE, "is_telegram_topic_mode_enabled", "GET"),
    verb(STATE, "bind_telegram_topic", "POST", again=SAME),
    verb(STATE, "get_telegram_topic_binding", "GET"),
    verb(STATE, "get_telegram_topic_binding_by_session", "GET"),
    verb(STATE, "list_telegram_topic_bindings_for_chat", "GET"),
    verb(STATE, "is_telegram_session_linked_to_topic", "GET"),
    verb(STATE, "delete_telegram_topic_binding", "POST"),
    verb(STATE, "list_unlinked_telegram_sessions_for_user", "GET"),
    verb(STATE, "export_session", "GET"),
    verb(STATE, "export_all", "GET"),
    verb(STATE, "export_session_lineage", "GET"),
    verb(STATE, "import_sessions", "POST", begins=True),
    verb(STATE, "prune_candidates", "GET"),
    verb(STATE, "list_prune_candidates", "GET"),
    verb(STATE, "count_prune_matches", "GET"),
    verb(STATE, "count_open_prune_matches", "GET"),
    verb(STATE, "prune_sessions", "POST", destroys=True),
    verb(STATE, "delete_sessions", "POST", destroys=True),
    verb(STATE, "delete_session_if_empty", "POST", destroys=True),
    verb(STATE, "count_empty_sessions", "GET"),
    verb(STATE, "delete_empty_sessions", "POST", destroys=True),
    verb(STATE, "prune_empty_ghost_sessions", "POST", destroys=True),
    verb(STATE, "list_never_active_keyed_sessions", "GET"),
    verb(STATE, "prune_never_active_keyed_sessions", "POST", destroys=True),
    verb(STATE, "archive_sessions", "POST"),
    verb(STATE, "archive_stale_sessions", "POST"),
    verb(STATE, "maybe_auto_prune_and_vacuum", "POST", destroys=True),
    verb(STATE, "maybe_auto_archive", "POST"),
    verb(STATE, "finalize_orphaned_compression_sessions", "POST"),
    verb(STATE, "retag_kanban_worker_sessions", "POST"),
    verb(STATE, "logical_size_bytes", "GET"),
    verb(STATE, "compact", "POST /state/compact"),
    verb(STATE, "vacuum", "POST /state/vacuum", again=SAME),
    verb(STATE, "offload_blobs", "POST /state/offload"),
    verb(STATE, "inline_blobs", "POST /state/inline"),
    verb(STATE, "size_report", "GET /state/size"),
    verb(STATE, "check", "GET"),
    verb(STATE, "facts", "GET /state/facts"),
    verb(STATE, "plan_update", "GET"),
    verb(STATE, "release", "POST"),
    verb(STATE, "queue_token_counts", "POST"),
    verb(STATE, "flush_token_counts", "GET"),
    verb(STATE, "backup", "POST /state/backup", shape="path"),
    verb(STATE, "iter_messages", "GET"),
    verb(STATE, "iter_export", "GET /state/export"),
)

_SESSION: Final = "/state/sessions/{session}"

_NAMED: Final = table(
    verb(NAMED, "sessions", "GET /state/sessions"),
    verb(NAMED, "create_session", "POST /state/sessions", 201, begins=True, again=SAME),
    verb(NAMED, "session", f"GET {_SESSION}"),
    verb(NAMED, "change", f"PATCH {_SESSION}"),
    verb(NAMED, "delete", f"DELETE {_SESSION}", destroys=True, shape=DeleteReport),
    verb(NAMED, "end", f"POST {_SESSION}/end", again=SAME),
    verb(NAMED, "reopen", f"POST {_SESSION}/reopen", again=SAME),
    verb(NAMED, "lineage", f"GET {_SESSION}/lineage"),
    verb(NAMED, "compress", f"POST {_SESSION}/compress", 201),
    verb(NAMED, "branch", f"POST {_SESSION}/branch", 201),
    verb(NAMED, "relate", f"PUT {_SESSION}/relation", again=SAME),
    verb(NAMED, "messages", f"GET {_SESSION}/messages"),
    verb(NAMED, "append", f"POST {_SESSION}/messages", 201, shape="ids"),
    verb(NAMED, "conversation", f"GET {_SESSION}/conversation"),
    verb(NAMED, "around", "GET /state/messages/{message}/around"),
    verb(NAMED, "rewind", f"POST {_SESSION}/rewind", shape=ChangeCount),
    verb(NAMED, "unrewind", f"POST {_SESSION}/unrewind", shape=ChangeCount),
    verb(NAMED, "clear", f"POST {_SESSION}/clear", destroys=True, shape=Cleared),
    verb(NAMED, "search", "GET /state/search", names={"q": "text"}, way="ask"),
    verb(NAMED, "usage", "GET /state/usage"),
    verb(NAMED, "count_tokens", f"POST {_SESSION}/usage", again="idempotency_key"),
    verb(NAMED, "export", f"GET {_SESSION}/export"),
    verb(NAMED, "import_lines", "POST /state/import", begins=True, upload="lines"),
    verb(NAMED, "prune", "POST /state/prune", destroys=True),
    verb(NAMED, "check", "GET /state/check", way="ask"),
    verb(NAMED, "reindex", "POST /state/reindex", shape=ChangeCount, again=SAME),
)

# ------------------------------------------------------------------------------
# Knowledge: what was captured and learned, to look at it.

_OF_COMMANDS: Final = (
    *("session", "agent", "project", "branch", "role", "tool", "outcome", "entity"),
    *("failed", "since", "until"),
)
_OF_RUNS: Final = ("project", "branch", "outcome", "failed", "since", "until")
_OF_NODES: Final = ("project", "outcome", "since", "until")
_CAPTURED: Final = "/sessions/{session}"
_OF_SESSION: Final[Mapping[str, Any]] = {"names": {"session": "ref"}, "kept": True}
_FIND: Final = {"session": "ref", "q": "words"}

_KNOWLEDGE: Final = table(
    verb(KNOWLEDGE, "sessions", "GET /sessions", kept=True, tool="list_sessions"),
    verb(KNOWLEDGE, "count", "GET"),
    verb(KNOWLEDGE, "facets", "GET /sessions/facets", kept=True),
    verb(KNOWLEDGE, "session", f"GET {_CAPTURED}", **_OF_SESSION, tool="get_session"),
    verb(KNOWLEDGE, "window", f"GET {_CAPTURED}/window", **_OF_SESSION, tool="get_messages"),
    verb(KNOWLEDGE, "find", f"GET {_CAPTURED}/find", names=_FIND, kept=True),
    verb(KNOWLEDGE, "usage", "GET /usage", kept=True, tool="usage"),
    verb(KNOWLEDGE, "activity", "GET /usage/activity", kept=True),
    verb(KNOWLEDGE, "blocks_report", "GET /usage/blocks", preset={"now": None}, kept=True),
    verb(KNOWLEDGE, "block_now", "GET"),
    verb(KNOWLEDGE, "today", "GET /usage/today", preset={"now": None}, kept=True),
    verb(KNOWLEDGE, "projects", "GET"),
    verb(KNOWLEDGE, "project_page", "GET /projects", kept=True),
    verb(KNOWLEDGE, "commands", "GET /commands", takes=_OF_COMMANDS),
    verb(KNOWLEDGE, "visits", "GET /visits", takes=("since", "until")),
    verb(KNOWLEDGE, "runs", "GET /runs", takes=_OF_RUNS),
    verb(KNOWLEDGE, "run", "GET /runs/{run}"),
    verb(KNOWLEDGE, "nodes", "GET /nodes", takes=_OF_NODES),
    verb(KNOWLEDGE, "node", "GET /nodes/{node}", names={"node": "name"}),
    verb(KNOWLEDGE, "entities", "GET"),
    verb(KNOWLEDGE, "entity_page", "GET /entities", names={"q": "text"}),
    verb(KNOWLEDGE, "entity", "GET /entities/{entity}", names={"entity": "number"}),
    verb(KNOWLEDGE, "graph", "GET /entities/graph"),
    verb(KNOWLEDGE, "lessons", "GET"),
    verb(KNOWLEDGE, "lesson_page", "GET /lessons"),
    verb(KNOWLEDGE, "select", "GET /sql", names={"q": "sql"}),
    verb(KNOWLEDGE, "tables", "GET /sql/tables"),
)

# ------------------------------------------------------------------------------
# Memory: questions about all of it.

_MEMORY: Final = table(
    verb(MEMORY, "recall", "GET /recall", names={"q": "text"}, tool="recall"),
    verb(MEMORY, "open", "GET /open/{ref}"),
    verb(MEMORY, "ask", "POST /ask", again=SAME),
    verb(MEMORY, "fixed", "POST /fixed", again=SAME),
    verb(MEMORY, "similar", "GET /similar", names={"q": "what"}),
    verb(MEMORY, "context", "POST /context", shape="text", again=SAME),
    verb(MEMORY, "timeline", "GET /timeline", tool="timeline"),
    verb(MEMORY, "agent_query", "POST /agent/query", again=SAME),
    verb(MEMORY, "notes", "POST /notes/query", again=SAME),
    verb(MEMORY, "revisions", "POST /notes/history", again=SAME),
)

# ------------------------------------------------------------------------------
# What was captured beyond lists, how a home is, and who may look at it.

_CAPTURE: Final = table(
    verb(CAPTURED, "parse", "GET /sessions/parse"),
    verb(CAPTURED, "raw", f"GET {_CAPTURED}/raw"),
    verb(CAPTURED, "project", "GET /projects/{project}"),
    verb(CAPTURED, "remember", "POST /notes", 201, way="change", tool="remember"),
    verb(CAPTURED, "rename_project", "PATCH /projects/{project}", way="change"),
    verb(CAPTURED, "split_project", "POST /projects/{project}/split", way="change"),
    verb(CAPTURED, "label", "PATCH /labels/{ref}", way="change", again=SAME, tool="label"),
    verb(CAPTURED, "labels", "GET /labels/{ref}"),
    verb(CAPTURED, "labelled", "GET /labels"),
    verb(CAPTURED, "tags", "GET /tags"),
    verb(CAPTURED, "coverage", "GET /coverage"),
    verb(CAPTURED, "forget", "POST /forget", destroys=True),
)

_HEALTH: Final = table(
    verb(HEALTH, "status", "GET /health/status"),
    verb(HEALTH, "sources", "GET /health/sources"),
    verb(HEALTH, "doctor", "GET /health/doctor"),
    verb(HEALTH, "metrics", "GET /health/metrics"),
    verb(HEALTH, "alarms", "GET /health/alarms"),
    verb(HEALTH, "ack", "POST /health/alarms/{alarm}/ack", again=SAME),
)

_LOGINS: Final = table(
    verb(LOGINS, "logins", "GET /web/logins"),
    verb(LOGINS, "revoke_all", "POST /web/logins/revoke"),
    verb(LOGINS, "revoke", "POST /web/logins/{login}/revoke"),
)

# ------------------------------------------------------------------------------
# Mail between a host and its agents.

_BOX: Final = "/mail/sessions/{session}"

_MAIL: Final = table(
    verb(MAIL, "sessions", "GET /mail/sessions", command="mail ls", also="MailIndex.sessions"),
    verb(
        MAIL,
        "create_session",
        "POST /mail/sessions",
        201,
        command="mail new",
        also="MailIndex.resolve_session",
        again=SAME,
    ),
    verb(MAIL, "session", f"GET {_BOX}"),
    verb(MAIL, "close_session", f"POST {_BOX}/close", again=SAME),
    verb(MAIL, "reopen_session", f"POST {_BOX}/reopen", again=SAME),
    verb(MAIL, "agents", "GET /mail/agents", also="MailIndex.agent_groups"),
    verb(MAIL, "chats", "GET /mail/chats", also="MailIndex.messaging_groups"),
    verb(MAIL, "destinations", f"GET {_BOX}/destinations"),
    verb(MAIL, "letters", f"GET {_BOX}/letters"),
    verb(MAIL, "trace", f"GET {_BOX}/letters/{{letter}}/trace"),
    verb(MAIL, "send", f"POST {_BOX}/letters", 201, again="id"),
    verb(MAIL, "receive", "POST /mail/receive", shape="letters", again="id"),
    verb(MAIL, "answer", "POST /mail/questions/{question}"),
    verb(
        MAIL,
        "dead",
        f"GET {_BOX}/dead",
        command="mail retry SESSION --list",
        also="Host.dead_letters",
    ),
    verb(
        MAIL,
        "retry",
        f"POST {_BOX}/dead/{{letter}}/retry",
        command="mail retry",
        also="Host.retry",
    ),
    verb(MAIL, "purge", f"POST {_BOX}/purge", destroys=True),
    verb(MAIL, "prune", f"POST {_BOX}/prune", destroys=True),
    verb(MAIL, "sweep", f"POST {_BOX}/sweep"),
    verb(MAIL, "verify", f"GET {_BOX}/verify"),
    verb(MAIL, "tasks", f"GET {_BOX}/tasks"),
    verb(MAIL, "create_task", f"POST {_BOX}/tasks", 201, again="id"),
    verb(MAIL, "change_task", f"PATCH {_BOX}/tasks/{{task}}", again=SAME),
    verb(MAIL, "pause_task", f"POST {_BOX}/tasks/{{task}}/pause"),
    verb(MAIL, "resume_task", f"POST {_BOX}/tasks/{{task}}/resume"),
    verb(MAIL, "cancel_task", f"POST {_BOX}/tasks/{{task}}/cancel"),
    verb(MAIL, "next_runs", "GET /mail/next-runs"),
)

# ------------------------------------------------------------------------------
# All of them.

_ALL: Final = {
    CHAT: _CHAT,
    STATE: _STATE,
    NAMED: _NAMED,
    KNOWLEDGE: _KNOWLEDGE,
    MEMORY: _MEMORY,
    CAPTURED: _CAPTURE,
    HEALTH: _HEALTH,
    LOGINS: _LOGINS,
    MAIL: _MAIL,
}
TABLES: Final[Mapping[str, Mapping[str, Verb]]] = {one.store: _ALL[one] for one in _ALL}
OWNERS: Final[Mapping[str, VerbOwner]] = {one.store: one for one in _ALL}


def each_verb() -> Iterator[Verb]:
    """Return all verbs of all stores."""
    for lines in TABLES.values():
        yield from lines.values()


_HANDLE: Final = "it opens or closes the store itself, which belongs to whoever keeps it"
INSIDE: Final[Mapping[str, Mapping[str, str]]] = {
    "chat": {
        "open": _HANDLE,
        "close": _HANDLE,
        "record": "a recorder is kept by the server: it is fed at addresses of its own",
    },
    "state": {
        "close": _HANDLE,
        **dict.fromkeys(
            ("sanitize_title", "session_gateway_runtime", "session_unread", "session_yolo_enabled"),
            "it needs no store: it only looks at what it is given",
        ),
    },
    "knowledge": {
        "close": _HANDLE,
        "mark": "callers on another host follow /events instead",
        "changed_since": "callers on another host follow /events instead",
    },
}
