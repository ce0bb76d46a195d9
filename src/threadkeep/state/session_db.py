"""SessionDB: the session store, one line for each verb; what they do is in the modules beside."""

import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

from threadkeep.base.database import DEFAULT_BUDGET, Database
from threadkeep.base.files import foreign_holders
from threadkeep.base.sqlite.backup import BackupRetention, Progress, make_backup
from threadkeep.base.sqlite.checks import journal_mode
from threadkeep.base.sqlite.raw_connection import LiveConnection
from threadkeep.base.sqlite.upkeep import sqlite_file
from threadkeep.base.text import Redact
from threadkeep.base.verbs import calls
from threadkeep.errors import Closed, ThreadkeepError, UnsupportedEngine
from threadkeep.state import (
    blob_migration as moving_,
    blob_migration as release_,
    check as check_,
    check as fts_care_,
    check as sizes_,
    compaction as compaction_,
    compaction as cooldowns_,
    conversation as conversation_,
    deletion as deletion_,
    export as transfer_,
    gateway as gateway_,
    gateway as handoff_,
    gateway as orphans_,
    gateway as telegram_,
    intake as intake_,
    leases as backends_,
    leases as heartbeat_,
    leases as leases_,
    lineage as lineage_,
    messages as messages_,
    retention as retention_,
    retention as upkeep_,
    rewind as recent_,
    rewind as rewind_,
    rewind as user_turns_,
    session_config as config_,
    session_config as relations_,
    session_list as listing_,
    sessions as sessions_,
    sessions as workspace_,
    titles as marks_,
    titles as titles_,
    transcript as reactions_,
    transcript as transcript_,
    usage as usage_,
    usage as usage_sums_,
    verbs as meta_,
)
from threadkeep.state.context import Seconds, now
from threadkeep.state.opener import note_refusal, open_context
from threadkeep.state.rows import supply
from threadkeep.state.schema import StateFacts, read_version
from threadkeep.state.search import index_fill as index_, search as search_
from threadkeep.state.search.query import contains_cjk, sanitize_fts5_query
from threadkeep.state.usage import PATIENCE, UsageQueue
from threadkeep.state.verbs import appends, reads, writes

R = TypeVar("R")


def _default_path() -> Path:
    """Return the default of the stand-in module, also where a program has put another one there."""
    from threadkeep.state import hermes_state  # noqa: PLC0415  (it imports this module)

    return hermes_state._default_db_path()  # noqa: SLF001


class SessionDB:
    """An agent's session history in one file, shared by any number of threads and processes."""

    MAX_TITLE_LENGTH = titles_.MAX_TITLE_LENGTH
    TITLE_SOURCE_DERIVED = titles_.DERIVED
    TITLE_SOURCE_LLM = titles_.LLM
    TITLE_SOURCE_USER = titles_.USER
    # How the contract's own store waits; programs read these names. Ours waits in a fair queue.
    _WRITE_MAX_RETRIES = 15
    _WRITE_RETRY_MIN_S = 0.020
    _WRITE_RETRY_MAX_S = 0.150
    _CHECKPOINT_EVERY_N_WRITES = 50
    _FTS_REBUILD_MIN_PAUSE = 0.2
    _FTS_REBUILD_DUTY_FACTOR = 4.0

    def __init__(
        self,
        db_path: str | Path | None = None,
        read_only: bool = False,  # noqa: FBT001, FBT002
        *,
        timeout: float = DEFAULT_BUDGET,
        redact: Redact | None = None,
        clock: Seconds = now,
    ) -> None:
        """Open the file, and create it for the owner alone if it is missing.

        A writer waits its turn with a patience of up to 30 seconds (timeout=30.0) while other
        processes write; readers never wait. A file of any version is written in its own form; one
        that cannot be written safely is opened read-only, and a warning says why.
        """
        place = _default_path() if db_path is None else db_path
        try:
            self.context = open_context(
                place, read_only=read_only, budget=timeout, redact=redact, clock=clock
            )
        except ThreadkeepError as error:
            note_refusal(error)
            raise
        self._place = place
        self.usage_queue = UsageQueue(self.update_token_counts)
        self._lock = threading.RLock()
        self._live: tuple[int, LiveConnection] | None = None

    def _need_file(self, what: str, instead: str) -> None:
        if self.context.db.engine != "sqlite":
            raise UnsupportedEngine(f"{self.context.db.name} has no {what}", hint=instead)

    @property
    def db_path(self) -> Path:
        """The file; a store on a server has none, only a name (`database.name`)."""
        self._need_file("file", "`database.name` says where it is")
        return Path(self._place)

    @property
    def _conn(self) -> LiveConnection | None:
        """A connection for programs with SQL of their own; None after close, as in Hermes."""
        if self.context.db.closed:
            return None
        self._need_file("connection to lend", "use the verbs of SessionDB, or psycopg beside them")
        with self._lock:
            pid, live = self._live or (0, None)
            if live is None or pid != os.getpid() or not live.lasting:
                live = sqlite_file(self.context.db).live()
                live.supply = partial(supply, self.context)
                self._live = (os.getpid(), live)
            return live

    def _insert_session_row(self, session_id: str, source: str, **columns: Any) -> None:
        """Begin a session, or fill what an existing one lacks: Hermes's gateway calls it so."""
        self.create_session(session_id, source, **columns)

    def _foreign_state_db_holders(self) -> list[tuple[int, str]]:
        """Return the other processes that have the file open, with the name of what they hold."""
        return foreign_holders(self.db_path)

    def _execute_write(
        self,
        function: Callable[[LiveConnection], R],
        patience_s: float | None = None,  # noqa: ARG002  (the queue is fair to everybody)
    ) -> R:
        """Run a program's own SQL in one write transaction; it is given the connection."""
        connection = self._conn
        if connection is None:
            raise Closed(f"{self.db_path} is closed", hint="open the store again")
        with self._lock:
            return connection.transact(function)

    @property
    def database(self) -> Database:
        """The file as a whole: whether it changed, its size, its copies; no tables."""
        return self.context.db

    @property
    def refusal(self) -> str | None:
        """Why the file can only be read; None if it can be written."""
        return self.context.form.refusal

    def facts(self) -> StateFacts:
        """Return what is in the file, for `threadkeep status`."""
        with self.context.db.read() as tx:
            return StateFacts(
                schema_version=read_version(tx),
                journal_mode=journal_mode(tx) if tx.engine == "sqlite" else "wal",
                adopted=self.context.side,
                sessions=int(tx.value("count_sessions")),
                messages=int(tx.value("count_messages", {"session_id": None})),
            )

    def close(self) -> None:
        """Write what is queued, and close the store; twice is fine."""
        self.usage_queue.close()
        live, self._live = self._live, None
        if live is not None:
            live[1].close()
        self.context.db.close()

    def __enter__(self) -> Self:
        """Use the store in a `with` block, which closes it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the store."""
        self.close()

    # ------------------------------------------------------------------ static helpers
    sanitize_title = staticmethod(titles_.sanitize_title)
    _sanitize_fts5_query = staticmethod(sanitize_fts5_query)
    _contains_cjk = staticmethod(contains_cjk)

    # ------------------------------------------------------------------ sessions
    create_session = writes(sessions_.create_session)
    ensure_session = writes(sessions_.ensure_session)
    end_session = writes(sessions_.end_session)
    reopen_session = writes(sessions_.reopen_session)
    update_system_prompt = writes(sessions_.update_system_prompt)
    get_session = reads(sessions_.get_session, counted=True)
    resolve_session_id = reads(sessions_.resolve_session_id)
    search_sessions = reads(sessions_.search_sessions)
    session_count = reads(sessions_.session_count)
    session_count_ge = reads(sessions_.session_count_ge)
    session_count_by_source = reads(sessions_.session_count_by_source)
    delete_session = calls(deletion_.delete_session)
    get_session_delete_targets = reads(deletion_.get_session_delete_targets)
    set_session_pinned = writes(marks_.set_session_pinned)
    set_session_archived = writes(marks_.set_session_archived)
    set_session_hidden = writes(marks_.set_session_hidden, newest=True)
    set_session_read = writes(marks_.set_session_read, newest=True)
    set_relation = writes(relations_.set_relation)
    promote_to_session_reset = writes(sessions_.promote_to_session_reset)
    update_session_meta = writes(config_.update_session_meta, counted=True)
    update_session_model = writes(config_.update_session_model, counted=True)
    update_session_billing_route = writes(config_.update_session_billing_route, counted=True)
    update_session_runtime_lock = writes(config_.update_session_runtime_lock)
    patch_session_model_config = writes(config_.patch_session_model_config)
    get_session_model_config_value = reads(config_.get_session_model_config_value)
    set_session_yolo = writes(config_.set_session_yolo)
    session_yolo_enabled = staticmethod(config_.session_yolo_enabled)
    session_gateway_runtime = staticmethod(config_.session_gateway_runtime)

    # ------------------------------------------------------------------ messages
    append_message = appends(messages_.append_message)
    append_messages = appends(messages_.append_messages)
    append_messages_batch = calls(messages_.append_messages_batch)
    clear_messages = writes(messages_.clear_messages)
    get_messages = reads(transcript_.get_messages)
    iter_messages = calls(transcript_.iter_messages)
    get_message = reads(transcript_.get_message)
    get_messages_around = reads(transcript_.get_messages_around)
    get_anchored_view = reads(transcript_.get_anchored_view)
    message_count = reads(transcript_.message_count)
    has_archived_messages = reads(transcript_.has_archived_messages)
    get_active_message_watermark = reads(transcript_.get_active_message_watermark)
    get_active_message_ids = reads(transcript_.get_active_message_ids)
    has_platform_message_id = reads(transcript_.has_platform_message_id)
    latest_message_row_id = reads(transcript_.latest_message_row_id)
    latest_user_message_row_id = reads(transcript_.latest_user_message_row_id)
    get_message_role = reads(transcript_.get_message_role)
    find_pr_url_messages = reads(transcript_.find_pr_url_messages)
    get_messages_as_conversation = reads(conversation_.get_messages_as_conversation)
    get_resume_conversations = reads(conversation_.get_resume_conversations)
    get_ancestor_display_prefix = reads(conversation_.get_ancestor_display_prefix)
    get_resume_message_count = reads(conversation_.get_resume_message_count)
    assert_resume_safe = reads(conversation_.assert_resume_safe)
    assert_export_safe = reads(conversation_.assert_export_safe)
    rewind_to_message = writes(rewind_.rewind_to_message)
    rewind_user_turn = writes(user_turns_.rewind_user_turn)
    undo_rewind = writes(rewind_.undo_rewind)
    restore_rewound = writes(rewind_.restore_rewound)

    list_recent_user_messages = reads(recent_.list_recent_user_messages)
    set_message_reaction = writes(reactions_.set_message_reaction, newest=True)
    get_message_reactions = reads(reactions_.get_message_reactions)
    take_unseen_reactions = writes(reactions_.take_unseen_reactions)
    set_latest_matching_message_display_kind = writes(
        reactions_.set_latest_matching_message_display_kind, newest=True
    )
    set_latest_user_api_content = writes(reactions_.set_latest_user_api_content, newest=True)
    set_message_api_content = writes(reactions_.set_message_api_content, newest=True)

    # ------------------------------------------------------------------ compactions
    replace_messages = writes(compaction_.replace_messages)
    archive_and_compact = writes(compaction_.archive_and_compact, newest=True)
    publish_compression_child = writes(compaction_.publish_compression_child, newest=True)
    find_live_compression_child = reads(compaction_.find_live_compression_child)
    reopen_orphaned_compression_session = writes(compaction_.reopen_orphaned_compression_session)
    purge_stale_tool_call_markers = calls(compaction_.purge_stale_tool_call_markers)
    record_compression_failure_cooldown = calls(cooldowns_.record_compression_failure_cooldown)
    get_compression_failure_cooldown = reads(cooldowns_.get_compression_failure_cooldown)
    clear_compression_failure_cooldown = calls(cooldowns_.clear_compression_failure_cooldown)
    get_compression_failure_cooldown_row = reads(cooldowns_.get_compression_failure_cooldown_row)
    restore_compression_failure_cooldown_row = writes(
        cooldowns_.restore_compression_failure_cooldown_row
    )
    get_compression_fallback_streak = reads(cooldowns_.get_compression_fallback_streak)
    set_compression_fallback_streak = writes(cooldowns_.set_compression_fallback_streak)
    get_compression_ineffective_count = reads(cooldowns_.get_compression_ineffective_count)
    set_compression_ineffective_count = writes(cooldowns_.set_compression_ineffective_count)
    get_compression_recovery_deadline = reads(cooldowns_.get_compression_recovery_deadline)
    set_compression_recovery_deadline = writes(cooldowns_.set_compression_recovery_deadline)
    get_compression_overload_streak = reads(cooldowns_.get_compression_overload_streak)
    set_compression_overload_streak = writes(cooldowns_.set_compression_overload_streak)
    increment_compression_overload_streak = writes(cooldowns_.increment_compression_overload_streak)
    increment_hygiene_failure_streak = writes(cooldowns_.increment_hygiene_failure_streak)
    reset_hygiene_failure_streak = writes(cooldowns_.reset_hygiene_failure_streak)

    # ------------------------------------------------------------------ locks and turns
    try_acquire_compression_lock = calls(leases_.try_acquire_compression_lock)
    refresh_compression_lock = calls(leases_.refresh_compression_lock)
    release_compression_lock = calls(leases_.release_compression_lock)
    get_compression_lock_holder = reads(leases_.get_compression_lock_holder)
    try_acquire_session_turn_lease = calls(leases_.try_acquire_session_turn_lease)
    acquire_session_turn_lease = calls(leases_.acquire_session_turn_lease)
    refresh_session_turn_lease = writes(leases_.refresh_session_turn_lease)
    release_session_turn_lease = writes(leases_.release_session_turn_lease)
    has_live_session_turn_lease = reads(leases_.has_live_session_turn_lease)

    # ------------------------------------------------------------------ search
    search_messages = calls(search_.search_messages)
    reindex = calls(index_.reindex)
    rebuild_fts = calls(fts_care_.rebuild_fts)
    optimize_fts = calls(fts_care_.optimize_fts)
    optimize_fts_storage = calls(fts_care_.optimize_fts_storage)
    fts_optimize_available = reads(fts_care_.fts_optimize_available)
    fts_rebuild_status = reads(fts_care_.fts_rebuild_status)
    fts_rebuild_step = calls(fts_care_.fts_rebuild_step)
    fts_cjk_rebuild_status = reads(fts_care_.fts_cjk_rebuild_status)
    fts_cjk_rebuild_step = calls(fts_care_.fts_cjk_rebuild_step)

    # ------------------------------------------------------------------ titles
    set_session_title = writes(titles_.set_session_title)
    set_auto_title = writes(titles_.set_auto_title)
    set_auto_title_if_empty = writes(titles_.set_auto_title_if_empty)
    get_session_title_source = reads(titles_.get_session_title_source)
    set_session_title_source = writes(titles_.set_session_title_source)
    get_session_title = reads(titles_.get_session_title)
    get_session_by_title = reads(titles_.get_session_by_title)
    resolve_session_by_title = reads(titles_.resolve_session_by_title)
    get_next_title_in_lineage = reads(titles_.get_next_title_in_lineage)

    # ------------------------------------------------------------------ lists and lineage
    list_sessions_rich = reads(listing_.list_sessions_rich, counted=True)
    get_session_rich_row = reads(listing_.get_session_rich_row, counted=True)
    search_sessions_by_id = reads(listing_.search_sessions_by_id)
    list_cron_job_runs = reads(listing_.list_cron_job_runs)
    list_skill_scaffolded_sessions = reads(listing_.list_skill_scaffolded_sessions)
    get_first_assistant_text = reads(listing_.get_first_assistant_text)
    register_backend_heartbeat = writes(backends_.register_backend_heartbeat)
    clear_backend_heartbeat = writes(backends_.clear_backend_heartbeat)
    prune_stale_heartbeats = writes(backends_.prune_stale_heartbeats)
    list_backend_heartbeats = reads(backends_.list_backend_heartbeats)
    sweep_orphaned_sessions = writes(backends_.sweep_orphaned_sessions)
    reopen_if_explicitly_closed = writes(backends_.reopen_if_explicitly_closed)
    session_lifecycle_statuses = reads(heartbeat_.session_lifecycle_statuses)
    touch_session_activity = writes(heartbeat_.touch_session_activity, newest=True)
    clear_session_activity_labels = writes(heartbeat_.clear_session_activity_labels)
    get_session_activity = reads(heartbeat_.get_session_activity)
    update_session_cwd = writes(workspace_.update_session_cwd, newest=True)
    publish_session_git_metadata = writes(workspace_.publish_session_git_metadata)
    backfill_repo_roots = writes(workspace_.backfill_repo_roots)
    distinct_session_cwds = reads(workspace_.distinct_session_cwds)
    session_unread = staticmethod(listing_.session_unread)
    get_compression_tip = reads(lineage_.get_compression_tip)
    get_compression_lineage = reads(lineage_.get_compression_lineage)
    get_lineage = reads(lineage_.get_lineage)
    get_conversation_root = reads(lineage_.get_conversation_root)
    resolve_resume_session_id = reads(lineage_.resolve_resume_session_id)
    compress_session = writes(lineage_.compress_session)
    branch_session = writes(lineage_.branch_session)

    # ------------------------------------------------------------------ usage
    update_token_counts = writes(usage_.update_token_counts, of_session=True)
    record_auxiliary_usage = writes(usage_.record_auxiliary_usage, of_session=True)
    get_dominant_session_model_route = reads(usage_.get_dominant_session_model_route, counted=True)
    usage = reads(usage_sums_.usage, counted=True)
    usage_totals = reads(usage_sums_.usage_totals, counted=True)

    def queue_token_counts(self, /, session_id: str, **kwargs: Any) -> None:
        """Count usage as `update_token_counts` does, in the background and in order."""
        self.usage_queue.put(session_id, **kwargs)

    def flush_token_counts(self, timeout: float = PATIENCE) -> bool:
        """Wait until all queued usage is written; False if it takes longer than `timeout`."""
        return self.usage_queue.flush(timeout)

    # ------------------------------------------------------------------ values by key
    get_meta = reads(meta_.get_meta)
    set_meta = calls(meta_.set_meta)
    list_meta_prefix = reads(meta_.list_meta_prefix)

    # ------------------------------------------------------------------ hand-over
    request_handoff = writes(handoff_.request_handoff, newest=True)
    get_handoff_state = reads(handoff_.get_handoff_state)
    list_pending_handoffs = reads(handoff_.list_pending_handoffs)
    claim_handoff = writes(handoff_.claim_handoff, newest=True)
    complete_handoff = writes(handoff_.complete_handoff, newest=True)
    fail_handoff = writes(handoff_.fail_handoff, newest=True)

    # ------------------------------------------------------------------ messengers
    record_gateway_session_peer = writes(gateway_.record_gateway_session_peer)
    set_expiry_finalized = writes(gateway_.set_expiry_finalized, newest=True)
    list_gateway_sessions = reads(gateway_.list_gateway_sessions, counted=True)
    find_session_by_origin = reads(gateway_.find_session_by_origin)
    find_latest_gateway_session_for_peer = reads(gateway_.find_latest_gateway_session_for_peer)
    save_gateway_routing_entry = writes(gateway_.save_gateway_routing_entry, newest=True)
    replace_gateway_routing_entries = writes(gateway_.replace_gateway_routing_entries, newest=True)
    load_gateway_routing_entries = reads(gateway_.load_gateway_routing_entries)
    delete_gateway_routing_entries = writes(gateway_.delete_gateway_routing_entries)
    find_orphaned_gateway_sessions = reads(orphans_.find_orphaned_gateway_sessions)
    adopt_orphaned_gateway_session = writes(orphans_.adopt_orphaned_gateway_session, newest=True)

    # ------------------------------------------------------------------ Telegram topics
    apply_telegram_topic_migration = writes(telegram_.apply_telegram_topic_migration, newest=True)
    enable_telegram_topic_mode = writes(telegram_.enable_telegram_topic_mode, newest=True)
    disable_telegram_topic_mode = writes(telegram_.disable_telegram_topic_mode)
    is_telegram_topic_mode_enabled = reads(telegram_.is_telegram_topic_mode_enabled)
    bind_telegram_topic = writes(telegram_.bind_telegram_topic, newest=True)
    get_telegram_topic_binding = reads(telegram_.get_telegram_topic_binding)
    get_telegram_topic_binding_by_session = reads(telegram_.get_telegram_topic_binding_by_session)
    list_telegram_topic_bindings_for_chat = reads(telegram_.list_telegram_topic_bindings_for_chat)
    is_telegram_session_linked_to_topic = reads(telegram_.is_telegram_session_linked_to_topic)
    delete_telegram_topic_binding = writes(telegram_.delete_telegram_topic_binding)
    list_unlinked_telegram_sessions_for_user = reads(
        telegram_.list_unlinked_telegram_sessions_for_user
    )

    # ------------------------------------------------------------------ out and in
    export_session = reads(transfer_.export_session, counted=True)
    export_all = reads(transfer_.export_all, counted=True)
    export_session_lineage = reads(transfer_.export_session_lineage, counted=True)
    iter_export = calls(transfer_.iter_export)
    import_sessions = calls(intake_.import_sessions)
    plan_update = reads(intake_.plan_update)

    # ------------------------------------------------------------------ care
    prune_candidates = reads(retention_.prune_candidates)
    list_prune_candidates = reads(retention_.list_prune_candidates)
    count_prune_matches = reads(retention_.count_prune_matches)
    count_open_prune_matches = reads(retention_.count_open_prune_matches)
    prune_sessions = calls(retention_.prune_sessions)
    delete_sessions = calls(retention_.delete_sessions)
    delete_session_if_empty = calls(deletion_.delete_session_if_empty)
    count_empty_sessions = reads(deletion_.count_empty_sessions)
    delete_empty_sessions = calls(deletion_.delete_empty_sessions)
    prune_empty_ghost_sessions = calls(deletion_.prune_empty_ghost_sessions)
    list_never_active_keyed_sessions = reads(deletion_.list_never_active_keyed_sessions)
    prune_never_active_keyed_sessions = calls(deletion_.prune_never_active_keyed_sessions)
    archive_sessions = writes(upkeep_.archive_sessions)
    archive_stale_sessions = writes(upkeep_.archive_stale_sessions)
    maybe_auto_prune_and_vacuum = upkeep_.maybe_auto_prune_and_vacuum
    maybe_auto_archive = upkeep_.maybe_auto_archive
    finalize_orphaned_compression_sessions = writes(upkeep_.finalize_orphaned_compression_sessions)
    retag_kanban_worker_sessions = writes(upkeep_.retag_kanban_worker_sessions)
    logical_size_bytes = reads(upkeep_.logical_size_bytes)
    compact = calls(retention_.compact)
    vacuum = calls(retention_.vacuum)
    offload_blobs = calls(moving_.offload_blobs)
    inline_blobs = calls(moving_.inline_blobs)
    size_report = reads(sizes_.size_report)
    check = calls(check_.check)
    release = calls(release_.release)

    def backup(
        self,
        target: str | Path | None = None,
        *,
        progress: Progress | None = None,
        keep: BackupRetention | None = None,
    ) -> Path:
        """Copy the live store to a new file, check the copy row by row, and return its path.

        Without a target it goes to the folder `backups` beside the store, where old ones go.
        """
        self._need_file("file to copy", "use `export_all`, or pg_dump on the server")
        return make_backup(
            self.context.db,
            None if target is None else Path(target),
            check=check_.problems_of,
            progress=progress,
            keep=keep,
        )
