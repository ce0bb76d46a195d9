"""The async faces of the stores: the same verbs, run in threads so that the loop never waits."""

import asyncio
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from itertools import islice
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from threadkeep.chat.recorder import Recorder
from threadkeep.chat.records import Event, Json, SessionRef, ref_id
from threadkeep.chat.store import ChatStore
from threadkeep.chat.tail import LOOK_AFTER
from threadkeep.errors import Closed
from threadkeep.state.context import Json as StateJson
from threadkeep.state.session_db import SessionDB

__all__ = ["AsyncChatStore", "AsyncRecorder", "AsyncSessionDB"]

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
AsyncVerb = Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]

# Writes wait for one lock and may wait long: with a pool for both, four of them kept a read
# waiting for 2.9 s.
_READERS, _WRITERS = 8, 8
_BATCH = 256


class Pools:
    """The threads of one store, those that read apart from those that may wait to write."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="threadkeep-read")
        self._writers = ThreadPoolExecutor(_WRITERS, thread_name_prefix="threadkeep-write")
        self._closing: asyncio.Future[None] | None = None

    def read(self, call: Callable[[], R]) -> asyncio.Future[R]:
        """Start something that only reads."""
        return self._begin(self._readers, call)

    def write(self, call: Callable[[], R]) -> asyncio.Future[R]:
        """Start something that writes."""
        return self._begin(self._writers, call)

    def _begin(self, pool: ThreadPoolExecutor, call: Callable[[], R]) -> asyncio.Future[R]:
        if self._closing is not None:
            raise Closed(f"{self._path} was closed", hint="open the store again")
        return asyncio.get_running_loop().run_in_executor(pool, call)

    async def pieces(self, begin: Callable[[], Iterator[T]]) -> AsyncIterator[T]:
        """Give what an iterator gives, a batch of it read in a thread at a time."""
        found = await self.read(begin)
        while batch := await self.read(lambda: list(islice(found, _BATCH))):
            for piece in batch:
                yield piece

    async def close(self, close_store: Callable[[], None]) -> None:
        """Close the store in a thread; once is enough."""
        if self._closing is None:
            self._closing = self._begin(self._readers, close_store)
            # What was begun before goes on in its thread, and finds the store closed.
            self._readers.shutdown(wait=False)
            self._writers.shutdown(wait=False)
        await to_the_end(self._closing)


def reads(verb: Callable[Concatenate[Any, P], R]) -> AsyncVerb[P, R]:
    """Make the async twin of a verb that waits for no writer, or for a short while only."""

    @wraps(verb)
    async def twin(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        found: R = await self.pools.read(partial(verb, self.store, *args, **kwargs))
        return found

    return twin


def writes(verb: Callable[Concatenate[Any, P], R]) -> AsyncVerb[P, R]:
    """Make the async twin of a verb that may wait for other writers."""

    @wraps(verb)
    async def twin(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        done: R = await self.pools.write(partial(verb, self.store, *args, **kwargs))
        return done

    return twin


async def to_the_end(step: asyncio.Future[R]) -> R:
    """Wait for what runs in a thread however often the waiting is cancelled; then say so."""
    cancelled: asyncio.CancelledError | None = None
    while not step.done():
        try:
            await asyncio.wait([step])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled from step.exception()
    return step.result()


# ------------------------------------------------------------------------------
# The async face of the chat store: the same verbs, run in threads so the loop never waits.

C = TypeVar("C", bound=Json | str | bytes)

_POLL_FIRST, _POLL_LAST = 0.002, 0.05


class AsyncChatStore:
    """A ChatStore whose verbs are awaited; see ChatStore for what each does."""

    def __init__(self, store: ChatStore) -> None:
        """Give an open store an async face; it is closed with it."""
        self.store = store
        self.pools = Pools(store.path)

    @classmethod
    async def open(cls, path: str | Path, **options: Any) -> Self:
        """Open a chat file, with the options of `ChatStore.open`."""
        return cls(await asyncio.to_thread(partial(ChatStore.open, path, **options)))

    async def close(self) -> None:
        """Close the store; once is enough."""
        await self.pools.close(self.store.close)

    async def __aenter__(self) -> Self:
        """Use the store in an `async with` block, which closes it."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the store."""
        await self.close()

    def record(
        self, session: SessionRef, message_id: str | None = None, **options: Any
    ) -> "AsyncRecorder":
        """Begin to record a reply, with the options of `ChatStore.record`."""
        return AsyncRecorder(self, partial(self.store.record, session, message_id, **options))

    async def tail(
        self,
        session: SessionRef,
        after: int = 0,
        *,
        follow: bool = True,
        until_idle: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109  (silence allowed, not a deadline)
    ) -> AsyncIterator[Event]:
        """Give a session's chunks as they commit; see `ChatStore.tail`."""
        session_id = ref_id(session, "session")
        await self.session(session_id)
        database = self.store.database
        database.follow()
        try:
            quiet_since = time.monotonic()
            while True:
                seen = await self.pools.read(database.changes)
                events, running = await self.pools.read(
                    partial(self.store.read_tail, session_id, after)
                )
                for event in events:
                    yield event
                if events:
                    after, quiet_since = events[-1].seq, time.monotonic()
                    continue
                if not follow or (until_idle and not running):
                    return
                now = time.monotonic()
                left = None if timeout is None else quiet_since + timeout - now
                if left is not None and left <= 0:
                    return
                await self._changed(seen, now + min(LOOK_AFTER, left or LOOK_AFTER))
        finally:
            database.unfollow()

    async def _changed(self, seen: int, deadline: float) -> None:
        """Wait for a commit on the loop's time: a waiting tail holds no thread."""
        pause = _POLL_FIRST
        while await self.pools.read(self.store.database.changes) == seen:
            if time.monotonic() >= deadline:
                return
            await asyncio.sleep(pause)
            pause = min(pause * 2, _POLL_LAST)

    async def export(self, session: SessionRef, format: str = "jsonl") -> AsyncIterator[str]:  # noqa: A002
        """Give a session as text, piece by piece; see `ChatStore.export`."""
        async for piece in self.pools.pieces(partial(self.store.export, session, format)):
            yield piece

    async def export_all(self, format: str = "jsonl", **filters: Any) -> AsyncIterator[str]:  # noqa: A002
        """Give many sessions as text, piece by piece; see `ChatStore.export_all`."""
        async for piece in self.pools.pieces(partial(self.store.export_all, format, **filters)):
            yield piece

    create_session = writes(ChatStore.create_session)
    session = reads(ChatStore.session)
    sessions = reads(ChatStore.sessions)
    set_title = writes(ChatStore.set_title)
    set_metadata = writes(ChatStore.set_metadata)
    set_permissions = writes(ChatStore.set_permissions)
    archive = writes(ChatStore.archive)
    unarchive = writes(ChatStore.unarchive)
    delete = writes(ChatStore.delete)
    say = writes(ChatStore.say)
    put_message = writes(ChatStore.put_message)
    ui_messages = reads(ChatStore.ui_messages)
    message = reads(ChatStore.message)
    search = reads(ChatStore.search)
    timeline = reads(ChatStore.timeline)
    find_session = reads(ChatStore.find_session)
    find_message = reads(ChatStore.find_message)
    import_sessions = writes(ChatStore.import_sessions)
    diff = reads(ChatStore.diff)
    record_usage = writes(ChatStore.record_usage)
    spend = reads(ChatStore.spend)
    repair_orphans = writes(ChatStore.repair_orphans)
    rewind = writes(ChatStore.rewind)
    unrewind = writes(ChatStore.unrewind)
    fork = writes(ChatStore.fork)
    compact = writes(ChatStore.compact)
    enqueue = writes(ChatStore.enqueue)
    queued = reads(ChatStore.queued)
    fire = writes(ChatStore.fire)
    unfire = writes(ChatStore.unfire)
    cancel = writes(ChatStore.cancel)
    judge = writes(ChatStore.judge)
    runs = reads(ChatStore.runs)
    put_system_prompt = writes(ChatStore.put_system_prompt)
    system_prompt = reads(ChatStore.system_prompt)
    backup = writes(ChatStore.backup)
    verify = reads(ChatStore.verify)
    size = reads(ChatStore.size)
    facts = reads(ChatStore.facts)
    prune = writes(ChatStore.prune)
    vacuum = writes(ChatStore.vacuum)
    reindex = writes(ChatStore.reindex)
    rebuild = writes(ChatStore.rebuild)
    compact_log = writes(ChatStore.compact_log)


class AsyncRecorder:
    """A Recorder that is awaited; one chunk after the other, whoever feeds it."""

    def __init__(self, store: AsyncChatStore, begin: Callable[[], Recorder]) -> None:
        """Use `AsyncChatStore.record`."""
        self._store = store
        self._begin = begin
        self._turn = asyncio.Lock()
        self._recorder: Recorder | None = None

    async def _call(self, act: Callable[[Recorder], R]) -> R:
        """Run one step of the recorder; a cancelled step is let finish before the next begins."""
        async with self._turn:
            return await to_the_end(self._store.pools.write(lambda: act(self._opened())))

    def _opened(self) -> Recorder:
        if self._recorder is None:
            self._recorder = self._begin()
        return self._recorder

    async def feed(self, chunk: Json | str | bytes) -> None:
        """Take one chunk; stored when awaited, under `save_on="chunk"`."""
        await self._call(lambda recorder: recorder.feed(chunk))

    async def feed_sse(self, data: bytes) -> None:
        """Take bytes of an AI SDK server-sent-event body."""
        await self._call(lambda recorder: recorder.feed_sse(data))

    async def flush(self) -> None:
        """Store everything taken so far, so that it survives even a power cut."""
        await self._call(lambda recorder: recorder.flush())

    async def abort(self, reason: str | None = None) -> None:
        """Write down that the run was stopped."""
        await self._call(lambda recorder: recorder.abort(reason))

    async def close(self, error: BaseException | None = None) -> None:
        """Complete the message and write down why the run ended."""
        await self._call(lambda recorder: recorder.close(error))

    async def through(self, stream: AsyncIterable[C]) -> AsyncIterator[C]:
        """Record a stream on its way: each chunk is passed on once it is stored."""
        async for chunk in stream:
            await self.feed(chunk)
            yield chunk

    @property
    def recorder(self) -> Recorder:
        """The recorder underneath: its message, ids and violations."""
        return self._opened()

    async def __aenter__(self) -> Self:
        """Record inside an `async with` block."""
        await self._call(lambda _: None)
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Close the recorder; an exception is written down as the end of the run."""
        await self.close(error)


# ------------------------------------------------------------------------------
# The async face of the session store.


class AsyncSessionDB:
    """A SessionDB whose verbs are awaited; see SessionDB for what each does."""

    def __init__(self, store: SessionDB) -> None:
        """Give an open store an async face; it is closed with it."""
        self.store = store
        self.pools = Pools(store.db_path)

    @classmethod
    async def open(cls, path: str | Path | None = None, **options: Any) -> Self:
        """Open a state file, with the options of `SessionDB`."""
        return cls(await asyncio.to_thread(partial(SessionDB, path, **options)))

    async def close(self) -> None:
        """Close the store; once is enough."""
        await self.pools.close(self.store.close)

    async def __aenter__(self) -> Self:
        """Use the store in an `async with` block, which closes it."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the store."""
        await self.close()

    async def iter_messages(self, session_id: str, page: int = 500) -> AsyncIterator[StateJson]:
        """Give the messages of a session one by one; see `SessionDB.iter_messages`."""
        begin = partial(self.store.iter_messages, session_id, page)
        async for message in self.pools.pieces(begin):
            yield message

    async def iter_export(self, source: str | None = None) -> AsyncIterator[str]:
        """Give all sessions as lines of JSON; see `SessionDB.iter_export`."""
        async for text in self.pools.pieces(partial(self.store.iter_export, source)):
            yield text

    create_session = writes(SessionDB.create_session)
    ensure_session = writes(SessionDB.ensure_session)
    end_session = writes(SessionDB.end_session)
    reopen_session = writes(SessionDB.reopen_session)
    update_system_prompt = writes(SessionDB.update_system_prompt)
    get_session = reads(SessionDB.get_session)
    resolve_session_id = reads(SessionDB.resolve_session_id)
    search_sessions = reads(SessionDB.search_sessions)
    session_count = reads(SessionDB.session_count)
    session_count_ge = reads(SessionDB.session_count_ge)
    session_count_by_source = reads(SessionDB.session_count_by_source)
    delete_session = writes(SessionDB.delete_session)
    get_session_delete_targets = reads(SessionDB.get_session_delete_targets)
    set_session_pinned = writes(SessionDB.set_session_pinned)
    set_session_archived = writes(SessionDB.set_session_archived)
    set_session_hidden = writes(SessionDB.set_session_hidden)
    set_session_read = writes(SessionDB.set_session_read)
    set_relation = writes(SessionDB.set_relation)
    promote_to_session_reset = writes(SessionDB.promote_to_session_reset)
    update_session_meta = writes(SessionDB.update_session_meta)
    update_session_model = writes(SessionDB.update_session_model)
    update_session_billing_route = writes(SessionDB.update_session_billing_route)
    update_session_runtime_lock = writes(SessionDB.update_session_runtime_lock)
    patch_session_model_config = writes(SessionDB.patch_session_model_config)
    get_session_model_config_value = reads(SessionDB.get_session_model_config_value)
    set_session_yolo = writes(SessionDB.set_session_yolo)
    append_message = writes(SessionDB.append_message)
    append_messages = writes(SessionDB.append_messages)
    append_messages_batch = writes(SessionDB.append_messages_batch)
    clear_messages = writes(SessionDB.clear_messages)
    get_messages = reads(SessionDB.get_messages)
    get_message = reads(SessionDB.get_message)
    get_messages_around = reads(SessionDB.get_messages_around)
    get_anchored_view = reads(SessionDB.get_anchored_view)
    message_count = reads(SessionDB.message_count)
    has_archived_messages = reads(SessionDB.has_archived_messages)
    get_active_message_watermark = reads(SessionDB.get_active_message_watermark)
    get_active_message_ids = reads(SessionDB.get_active_message_ids)
    has_platform_message_id = reads(SessionDB.has_platform_message_id)
    latest_message_row_id = reads(SessionDB.latest_message_row_id)
    latest_user_message_row_id = reads(SessionDB.latest_user_message_row_id)
    get_message_role = reads(SessionDB.get_message_role)
    find_pr_url_messages = reads(SessionDB.find_pr_url_messages)
    get_messages_as_conversation = reads(SessionDB.get_messages_as_conversation)
    get_resume_conversations = reads(SessionDB.get_resume_conversations)
    get_ancestor_display_prefix = reads(SessionDB.get_ancestor_display_prefix)
    get_resume_message_count = reads(SessionDB.get_resume_message_count)
    assert_resume_safe = reads(SessionDB.assert_resume_safe)
    assert_export_safe = reads(SessionDB.assert_export_safe)
    rewind_to_message = writes(SessionDB.rewind_to_message)
    rewind_user_turn = writes(SessionDB.rewind_user_turn)
    undo_rewind = writes(SessionDB.undo_rewind)
    restore_rewound = writes(SessionDB.restore_rewound)
    list_recent_user_messages = reads(SessionDB.list_recent_user_messages)
    set_message_reaction = writes(SessionDB.set_message_reaction)
    get_message_reactions = reads(SessionDB.get_message_reactions)
    take_unseen_reactions = writes(SessionDB.take_unseen_reactions)
    set_latest_matching_message_display_kind = writes(
        SessionDB.set_latest_matching_message_display_kind
    )
    set_latest_user_api_content = writes(SessionDB.set_latest_user_api_content)
    set_message_api_content = writes(SessionDB.set_message_api_content)
    replace_messages = writes(SessionDB.replace_messages)
    archive_and_compact = writes(SessionDB.archive_and_compact)
    publish_compression_child = writes(SessionDB.publish_compression_child)
    find_live_compression_child = reads(SessionDB.find_live_compression_child)
    reopen_orphaned_compression_session = writes(SessionDB.reopen_orphaned_compression_session)
    purge_stale_tool_call_markers = writes(SessionDB.purge_stale_tool_call_markers)
    record_compression_failure_cooldown = writes(SessionDB.record_compression_failure_cooldown)
    get_compression_failure_cooldown = reads(SessionDB.get_compression_failure_cooldown)
    clear_compression_failure_cooldown = writes(SessionDB.clear_compression_failure_cooldown)
    get_compression_failure_cooldown_row = reads(SessionDB.get_compression_failure_cooldown_row)
    restore_compression_failure_cooldown_row = writes(
        SessionDB.restore_compression_failure_cooldown_row
    )
    get_compression_fallback_streak = reads(SessionDB.get_compression_fallback_streak)
    set_compression_fallback_streak = writes(SessionDB.set_compression_fallback_streak)
    get_compression_ineffective_count = reads(SessionDB.get_compression_ineffective_count)
    set_compression_ineffective_count = writes(SessionDB.set_compression_ineffective_count)
    get_compression_recovery_deadline = reads(SessionDB.get_compression_recovery_deadline)
    set_compression_recovery_deadline = writes(SessionDB.set_compression_recovery_deadline)
    get_compression_overload_streak = reads(SessionDB.get_compression_overload_streak)
    set_compression_overload_streak = writes(SessionDB.set_compression_overload_streak)
    increment_compression_overload_streak = writes(SessionDB.increment_compression_overload_streak)
    increment_hygiene_failure_streak = writes(SessionDB.increment_hygiene_failure_streak)
    reset_hygiene_failure_streak = writes(SessionDB.reset_hygiene_failure_streak)
    try_acquire_compression_lock = writes(SessionDB.try_acquire_compression_lock)
    refresh_compression_lock = writes(SessionDB.refresh_compression_lock)
    release_compression_lock = writes(SessionDB.release_compression_lock)
    get_compression_lock_holder = reads(SessionDB.get_compression_lock_holder)
    try_acquire_session_turn_lease = writes(SessionDB.try_acquire_session_turn_lease)
    acquire_session_turn_lease = writes(SessionDB.acquire_session_turn_lease)
    refresh_session_turn_lease = writes(SessionDB.refresh_session_turn_lease)
    release_session_turn_lease = writes(SessionDB.release_session_turn_lease)
    has_live_session_turn_lease = reads(SessionDB.has_live_session_turn_lease)
    search_messages = reads(SessionDB.search_messages)
    reindex = writes(SessionDB.reindex)
    rebuild_fts = writes(SessionDB.rebuild_fts)
    optimize_fts = writes(SessionDB.optimize_fts)
    optimize_fts_storage = writes(SessionDB.optimize_fts_storage)
    fts_optimize_available = reads(SessionDB.fts_optimize_available)
    fts_rebuild_status = reads(SessionDB.fts_rebuild_status)
    fts_rebuild_step = writes(SessionDB.fts_rebuild_step)
    fts_cjk_rebuild_status = reads(SessionDB.fts_cjk_rebuild_status)
    fts_cjk_rebuild_step = writes(SessionDB.fts_cjk_rebuild_step)
    set_session_title = writes(SessionDB.set_session_title)
    set_auto_title = writes(SessionDB.set_auto_title)
    set_auto_title_if_empty = writes(SessionDB.set_auto_title_if_empty)
    get_session_title_source = reads(SessionDB.get_session_title_source)
    set_session_title_source = writes(SessionDB.set_session_title_source)
    get_session_title = reads(SessionDB.get_session_title)
    get_session_by_title = reads(SessionDB.get_session_by_title)
    resolve_session_by_title = reads(SessionDB.resolve_session_by_title)
    get_next_title_in_lineage = reads(SessionDB.get_next_title_in_lineage)
    list_sessions_rich = reads(SessionDB.list_sessions_rich)
    get_session_rich_row = reads(SessionDB.get_session_rich_row)
    search_sessions_by_id = reads(SessionDB.search_sessions_by_id)
    list_cron_job_runs = reads(SessionDB.list_cron_job_runs)
    list_skill_scaffolded_sessions = reads(SessionDB.list_skill_scaffolded_sessions)
    get_first_assistant_text = reads(SessionDB.get_first_assistant_text)
    register_backend_heartbeat = writes(SessionDB.register_backend_heartbeat)
    clear_backend_heartbeat = writes(SessionDB.clear_backend_heartbeat)
    prune_stale_heartbeats = writes(SessionDB.prune_stale_heartbeats)
    list_backend_heartbeats = reads(SessionDB.list_backend_heartbeats)
    sweep_orphaned_sessions = writes(SessionDB.sweep_orphaned_sessions)
    reopen_if_explicitly_closed = writes(SessionDB.reopen_if_explicitly_closed)
    session_lifecycle_statuses = reads(SessionDB.session_lifecycle_statuses)
    touch_session_activity = writes(SessionDB.touch_session_activity)
    clear_session_activity_labels = writes(SessionDB.clear_session_activity_labels)
    get_session_activity = reads(SessionDB.get_session_activity)
    update_session_cwd = writes(SessionDB.update_session_cwd)
    publish_session_git_metadata = writes(SessionDB.publish_session_git_metadata)
    backfill_repo_roots = writes(SessionDB.backfill_repo_roots)
    distinct_session_cwds = reads(SessionDB.distinct_session_cwds)
    get_compression_tip = reads(SessionDB.get_compression_tip)
    get_compression_lineage = reads(SessionDB.get_compression_lineage)
    get_lineage = reads(SessionDB.get_lineage)
    get_conversation_root = reads(SessionDB.get_conversation_root)
    resolve_resume_session_id = reads(SessionDB.resolve_resume_session_id)
    compress_session = writes(SessionDB.compress_session)
    branch_session = writes(SessionDB.branch_session)
    update_token_counts = writes(SessionDB.update_token_counts)
    record_auxiliary_usage = writes(SessionDB.record_auxiliary_usage)
    get_dominant_session_model_route = reads(SessionDB.get_dominant_session_model_route)
    usage = reads(SessionDB.usage)
    usage_totals = reads(SessionDB.usage_totals)
    get_meta = reads(SessionDB.get_meta)
    set_meta = writes(SessionDB.set_meta)
    list_meta_prefix = reads(SessionDB.list_meta_prefix)
    request_handoff = writes(SessionDB.request_handoff)
    get_handoff_state = reads(SessionDB.get_handoff_state)
    list_pending_handoffs = reads(SessionDB.list_pending_handoffs)
    claim_handoff = writes(SessionDB.claim_handoff)
    complete_handoff = writes(SessionDB.complete_handoff)
    fail_handoff = writes(SessionDB.fail_handoff)
    record_gateway_session_peer = writes(SessionDB.record_gateway_session_peer)
    set_expiry_finalized = writes(SessionDB.set_expiry_finalized)
    list_gateway_sessions = reads(SessionDB.list_gateway_sessions)
    find_session_by_origin = reads(SessionDB.find_session_by_origin)
    find_latest_gateway_session_for_peer = reads(SessionDB.find_latest_gateway_session_for_peer)
    save_gateway_routing_entry = writes(SessionDB.save_gateway_routing_entry)
    replace_gateway_routing_entries = writes(SessionDB.replace_gateway_routing_entries)
    load_gateway_routing_entries = reads(SessionDB.load_gateway_routing_entries)
    delete_gateway_routing_entries = writes(SessionDB.delete_gateway_routing_entries)
    find_orphaned_gateway_sessions = reads(SessionDB.find_orphaned_gateway_sessions)
    adopt_orphaned_gateway_session = writes(SessionDB.adopt_orphaned_gateway_session)
    apply_telegram_topic_migration = writes(SessionDB.apply_telegram_topic_migration)
    enable_telegram_topic_mode = writes(SessionDB.enable_telegram_topic_mode)
    disable_telegram_topic_mode = writes(SessionDB.disable_telegram_topic_mode)
    is_telegram_topic_mode_enabled = reads(SessionDB.is_telegram_topic_mode_enabled)
    bind_telegram_topic = writes(SessionDB.bind_telegram_topic)
    get_telegram_topic_binding = reads(SessionDB.get_telegram_topic_binding)
    get_telegram_topic_binding_by_session = reads(SessionDB.get_telegram_topic_binding_by_session)
    list_telegram_topic_bindings_for_chat = reads(SessionDB.list_telegram_topic_bindings_for_chat)
    is_telegram_session_linked_to_topic = reads(SessionDB.is_telegram_session_linked_to_topic)
    delete_telegram_topic_binding = writes(SessionDB.delete_telegram_topic_binding)
    list_unlinked_telegram_sessions_for_user = reads(
        SessionDB.list_unlinked_telegram_sessions_for_user
    )
    export_session = reads(SessionDB.export_session)
    export_all = reads(SessionDB.export_all)
    export_session_lineage = reads(SessionDB.export_session_lineage)
    import_sessions = writes(SessionDB.import_sessions)
    prune_candidates = reads(SessionDB.prune_candidates)
    list_prune_candidates = reads(SessionDB.list_prune_candidates)
    count_prune_matches = reads(SessionDB.count_prune_matches)
    count_open_prune_matches = reads(SessionDB.count_open_prune_matches)
    prune_sessions = writes(SessionDB.prune_sessions)
    delete_sessions = writes(SessionDB.delete_sessions)
    delete_session_if_empty = writes(SessionDB.delete_session_if_empty)
    count_empty_sessions = reads(SessionDB.count_empty_sessions)
    delete_empty_sessions = writes(SessionDB.delete_empty_sessions)
    prune_empty_ghost_sessions = writes(SessionDB.prune_empty_ghost_sessions)
    list_never_active_keyed_sessions = reads(SessionDB.list_never_active_keyed_sessions)
    prune_never_active_keyed_sessions = writes(SessionDB.prune_never_active_keyed_sessions)
    archive_sessions = writes(SessionDB.archive_sessions)
    archive_stale_sessions = writes(SessionDB.archive_stale_sessions)
    maybe_auto_prune_and_vacuum = writes(SessionDB.maybe_auto_prune_and_vacuum)
    maybe_auto_archive = writes(SessionDB.maybe_auto_archive)
    finalize_orphaned_compression_sessions = writes(
        SessionDB.finalize_orphaned_compression_sessions
    )
    retag_kanban_worker_sessions = writes(SessionDB.retag_kanban_worker_sessions)
    logical_size_bytes = reads(SessionDB.logical_size_bytes)
    compact = writes(SessionDB.compact)
    vacuum = writes(SessionDB.vacuum)
    offload_blobs = writes(SessionDB.offload_blobs)
    inline_blobs = writes(SessionDB.inline_blobs)
    size_report = reads(SessionDB.size_report)
    check = reads(SessionDB.check)
    facts = reads(SessionDB.facts)
    plan_update = reads(SessionDB.plan_update)
    release = writes(SessionDB.release)
    queue_token_counts = writes(SessionDB.queue_token_counts)
    flush_token_counts = reads(SessionDB.flush_token_counts)
    backup = writes(SessionDB.backup)
