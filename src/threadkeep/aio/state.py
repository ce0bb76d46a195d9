"""The async face of the session store."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any, Self

from threadkeep.aio.pools import Pools, reads, writes
from threadkeep.state.context import Json
from threadkeep.state.session_db import SessionDB


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

    async def iter_messages(self, session_id: str, page: int = 500) -> AsyncIterator[Json]:
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
    session_count_by_source = reads(SessionDB.session_count_by_source)
    delete_session = writes(SessionDB.delete_session)
    set_session_pinned = writes(SessionDB.set_session_pinned)
    set_session_archived = writes(SessionDB.set_session_archived)
    set_relation = writes(SessionDB.set_relation)
    append_message = writes(SessionDB.append_message)
    append_messages = writes(SessionDB.append_messages)
    append_messages_batch = writes(SessionDB.append_messages_batch)
    clear_messages = writes(SessionDB.clear_messages)
    rewind_to_message = writes(SessionDB.rewind_to_message)
    undo_rewind = writes(SessionDB.undo_rewind)
    restore_rewound = writes(SessionDB.restore_rewound)
    try_acquire_compression_lock = writes(SessionDB.try_acquire_compression_lock)
    refresh_compression_lock = writes(SessionDB.refresh_compression_lock)
    release_compression_lock = writes(SessionDB.release_compression_lock)
    try_acquire_session_turn_lease = writes(SessionDB.try_acquire_session_turn_lease)
    refresh_session_turn_lease = writes(SessionDB.refresh_session_turn_lease)
    release_session_turn_lease = writes(SessionDB.release_session_turn_lease)
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
    get_compression_lock_holder = reads(SessionDB.get_compression_lock_holder)
    acquire_session_turn_lease = reads(SessionDB.acquire_session_turn_lease)
    has_live_session_turn_lease = reads(SessionDB.has_live_session_turn_lease)
    search_messages = reads(SessionDB.search_messages)
    reindex = writes(SessionDB.reindex)
    release = writes(SessionDB.release)
    set_session_title = writes(SessionDB.set_session_title)
    set_auto_title = writes(SessionDB.set_auto_title)
    get_session_title = reads(SessionDB.get_session_title)
    get_session_by_title = reads(SessionDB.get_session_by_title)
    resolve_session_by_title = reads(SessionDB.resolve_session_by_title)
    get_next_title_in_lineage = reads(SessionDB.get_next_title_in_lineage)
    list_sessions_rich = reads(SessionDB.list_sessions_rich)
    get_compression_tip = reads(SessionDB.get_compression_tip)
    get_compression_lineage = reads(SessionDB.get_compression_lineage)
    get_lineage = reads(SessionDB.get_lineage)
    resolve_resume_session_id = reads(SessionDB.resolve_resume_session_id)
    compress_session = writes(SessionDB.compress_session)
    branch_session = writes(SessionDB.branch_session)
    update_token_counts = writes(SessionDB.update_token_counts)
    usage = reads(SessionDB.usage)
    export_session = reads(SessionDB.export_session)
    export_all = reads(SessionDB.export_all)
    export_session_lineage = reads(SessionDB.export_session_lineage)
    import_sessions = writes(SessionDB.import_sessions)
    prune_candidates = reads(SessionDB.prune_candidates)
    prune_sessions = writes(SessionDB.prune_sessions)
    delete_sessions = writes(SessionDB.delete_sessions)
    compact = writes(SessionDB.compact)
    vacuum = writes(SessionDB.vacuum)
    offload_blobs = writes(SessionDB.offload_blobs)
    inline_blobs = writes(SessionDB.inline_blobs)
    size_report = reads(SessionDB.size_report)
    check = reads(SessionDB.check)
    backup = writes(SessionDB.backup)
