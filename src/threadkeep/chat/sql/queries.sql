-- Named queries of the chat store. Every SELECT names its columns: other programs may add some.

-- name: get_meta
SELECT value FROM tk_meta WHERE key = :key;

-- name: set_meta
INSERT INTO tk_meta(key, value) VALUES (:key, :value)
ON CONFLICT(key) DO UPDATE SET value = excluded.value;

-- name: count_flush
-- Always another value: an update to the same bytes writes no page, and then nothing is synced.
INSERT INTO tk_meta(key, value) VALUES ('flushes', '1')
ON CONFLICT(key) DO UPDATE SET value = CAST(CAST(tk_meta.value AS INTEGER) + 1 AS TEXT);

-- ---------------------------------------------------------------- sessions

-- name: insert_session
INSERT INTO chat_sessions(
  id, agent, workspace_root, model_json, parent_id, parent_message_id, permissions_json,
  metadata_json, prompt_tokens, completion_tokens, reasoning_tokens, cache_read, cache_write,
  total_tokens, cost_usd, created_at, updated_at, archived_at, title, workspace_id, mode)
VALUES (
  :id, :agent, :workspace_root, :model_json, :parent_id, :parent_message_id, :permissions_json,
  :metadata_json, 0, 0, 0, 0, 0, 0, 0, :now, :now, NULL, :title, :workspace_id,
  :mode);

-- name: get_session
SELECT id, agent, workspace_root, model_json, parent_id, parent_message_id, permissions_json,
  metadata_json, prompt_tokens, completion_tokens, reasoning_tokens, cache_read, cache_write,
  total_tokens, cost_usd, created_at, updated_at, archived_at, title, workspace_id, mode
FROM chat_sessions WHERE id = :id;

-- name: list_sessions
-- Newest first; the pair (updated_at, id) of the last row seen is the cursor.
SELECT id, agent, workspace_root, model_json, parent_id, parent_message_id, permissions_json,
  metadata_json, prompt_tokens, completion_tokens, reasoning_tokens, cache_read, cache_write,
  total_tokens, cost_usd, created_at, updated_at, archived_at, title, workspace_id, mode
FROM chat_sessions
WHERE (CAST(:agent AS TEXT) IS NULL OR agent = :agent)
  AND (CAST(:workspace AS TEXT) IS NULL OR coalesce(workspace_root, '') = :workspace)
  AND (CAST(:parent AS TEXT) IS NULL OR parent_id = :parent)
  AND (CAST(:title AS TEXT) IS NULL OR nullif(title, 'New Chat') LIKE :title ESCAPE '\')
  AND (CAST(:archived AS INTEGER) IS NULL OR (CASE WHEN archived_at IS NULL THEN 0 ELSE 1 END) = :archived)
  AND (:ephemeral OR NOT json_valid(metadata_json)
       OR coalesce(json_extract({json:metadata_json}, '$.ephemeral'), 0) IN (0, 'false'))
  AND (updated_at, id) < (coalesce(CAST(:updated AS INTEGER), 9223372036854775807),
                          coalesce(:id, x'ff'))  -- a blob sorts behind every text
ORDER BY updated_at DESC, id DESC LIMIT :limit;

-- name: session_ids
SELECT id FROM chat_sessions WHERE id >= :first AND id < :last ORDER BY id LIMIT :limit;

-- name: touch_session
UPDATE chat_sessions SET updated_at = max(updated_at, :now) WHERE id = :id;

-- name: set_session_model
UPDATE chat_sessions SET model_json = :model_json, updated_at = max(updated_at, :now) WHERE id = :id;

-- name: set_session_title
UPDATE chat_sessions SET title = :title, updated_at = max(updated_at, :now) WHERE id = :id;

-- name: set_session_archived
UPDATE chat_sessions SET archived_at = :archived_at, updated_at = max(updated_at, :now)
WHERE id = :id;

-- name: set_session_permissions
UPDATE chat_sessions SET permissions_json = :permissions_json, updated_at = max(updated_at, :now)
WHERE id = :id;

-- name: set_session_metadata
UPDATE chat_sessions SET metadata_json = :metadata_json, updated_at = max(updated_at, :now)
WHERE id = :id;

-- name: set_session_usage
UPDATE chat_sessions SET prompt_tokens = :input, completion_tokens = :output,
  reasoning_tokens = :reasoning, cache_read = :cache_read, cache_write = :cache_write,
  total_tokens = CAST(:input AS INTEGER) + CAST(:output AS INTEGER) + CAST(:reasoning AS INTEGER)
    + CAST(:cache_read AS INTEGER) + CAST(:cache_write AS INTEGER),
  cost_usd = cost_usd + :cost_usd, updated_at = max(updated_at, :now)
WHERE id = :id;

-- name: delete_session
DELETE FROM chat_sessions WHERE id = :id;

-- name: delete_stream
DELETE FROM chat_events WHERE stream_id = :id;

-- name: delete_finished
DELETE FROM tk_finished WHERE stream_id = :id;

-- name: delete_recordings
DELETE FROM tk_recordings WHERE session_id = :id;

-- ---------------------------------------------------------------- messages

-- name: insert_message
INSERT INTO chat_messages(id, session_id, role, metadata_json, created_at, updated_at, hidden_at)
VALUES (:id, :session_id, :role, :metadata_json, :created_at, :updated_at, :hidden_at);

-- name: get_message
SELECT id, session_id, role, metadata_json, created_at, updated_at, hidden_at
FROM chat_messages WHERE id = :id;

-- name: session_messages
SELECT id, session_id, role, metadata_json, created_at, updated_at, hidden_at
FROM chat_messages WHERE session_id = :session_id ORDER BY created_at, id;

-- name: session_message_data
-- What reading a session needs of its messages. By time alone, which is the order of the index.
SELECT id, role, metadata_json, hidden_at, created_at
FROM chat_messages WHERE session_id = :session_id ORDER BY created_at;

-- name: messages_that_may_wait
-- Without decoding every message: a key that is spelled with escapes is looked at as well.
SELECT id, session_id, role, metadata_json, created_at, updated_at, hidden_at
FROM chat_messages WHERE session_id = :session_id AND role = 'user'
  AND (instr(metadata_json, 'queued_at') > 0 OR instr(metadata_json, '\u') > 0);

-- name: newest_replies
SELECT id, session_id, role, metadata_json, created_at, updated_at, hidden_at
FROM chat_messages WHERE session_id = :session_id AND role = 'assistant' AND hidden_at IS NULL
ORDER BY created_at DESC, id DESC LIMIT 20;

-- name: newest_message_time
-- No row where there is no such session.
SELECT (SELECT max(created_at) FROM chat_messages WHERE session_id = s.id)
FROM chat_sessions AS s WHERE s.id = :session_id;

-- name: set_message_metadata
UPDATE chat_messages SET metadata_json = :metadata_json, updated_at = max(updated_at, :now)
WHERE id = :id;

-- name: set_message_hidden
UPDATE chat_messages SET metadata_json = :metadata_json, hidden_at = :hidden_at,
  updated_at = max(updated_at, :now)
WHERE id = :id;

-- name: swap_queued_message
-- Compare and swap: only the one who still sees the old metadata wins.
UPDATE chat_messages SET metadata_json = :metadata_json, created_at = :created_at,
  hidden_at = :hidden_at, updated_at = max(updated_at, :now)
WHERE id = :id AND metadata_json = :expected;

-- name: delete_message_parts
DELETE FROM chat_parts WHERE message_id = :message_id AND "index" >= :first;

-- ---------------------------------------------------------------- parts

-- name: insert_part
INSERT INTO chat_parts(
  id, message_id, session_id, "index", type, data_json, tool_call_id, tool_state, created_at,
  updated_at, continuation_run_id)
VALUES (
  :id, :message_id, :session_id, :position, :type, :data_json, :tool_call_id, :tool_state,
  :created_at, :updated_at, :continuation_run_id);

-- name: update_part
UPDATE chat_parts SET type = :type, data_json = :data_json, tool_call_id = :tool_call_id,
  tool_state = :tool_state, updated_at = :updated_at
WHERE id = :id;

-- name: end_continuation
UPDATE chat_parts SET continuation_run_id = NULL WHERE id = :id;

-- name: get_part
SELECT id, message_id, session_id, "index", type, data_json, tool_call_id, tool_state, created_at,
  updated_at, continuation_run_id
FROM chat_parts WHERE id = :id;

-- name: session_parts
SELECT id, message_id, session_id, "index", type, data_json, tool_call_id, tool_state, created_at,
  updated_at, continuation_run_id
FROM chat_parts WHERE session_id = :session_id;

-- name: session_part_data
-- What reading a session needs of its parts: seven columns fewer are an eighth of the time.
SELECT message_id, "index", type, data_json FROM chat_parts WHERE session_id = :session_id;

-- name: message_parts
SELECT id, message_id, session_id, "index", type, data_json, tool_call_id, tool_state, created_at,
  updated_at, continuation_run_id
FROM chat_parts WHERE message_id = :message_id ORDER BY "index";

-- name: find_tool_call
-- The newest call of that id in the session: where a late result belongs.
SELECT p.id, p.message_id, p.session_id, p."index", p.type, p.data_json, p.tool_call_id,
  p.tool_state, p.created_at, p.updated_at, p.continuation_run_id
FROM chat_parts p JOIN chat_messages m ON m.id = p.message_id
WHERE p.tool_call_id = :tool_call_id AND p.session_id = :session_id
ORDER BY m.created_at DESC, m.id DESC, p."index" DESC LIMIT 1;

-- name: session_tool_parts
SELECT p.id, p.message_id, p.session_id, p."index", p.type, p.data_json, p.tool_call_id,
  p.tool_state, p.created_at, p.updated_at, p.continuation_run_id
FROM chat_parts p
WHERE p.session_id = :session_id
  AND (p.tool_state IN ('input-streaming', 'input-available', 'approval-responded')
       OR p.continuation_run_id IS NOT NULL)
ORDER BY p.message_id, p."index";

-- name: sessions_with_open_tools
SELECT DISTINCT session_id FROM chat_parts
WHERE tool_state IN ('input-streaming', 'input-available', 'approval-responded')
  OR continuation_run_id IS NOT NULL;

-- ---------------------------------------------------------------- journal

-- piece: next_seq
-- The next number is one past the stream's last, whether its row is still there or not.
1 + max(
    coalesce((SELECT max(seq) FROM chat_events WHERE stream_id = :stream_id), 0),
    coalesce((SELECT max(seq) FROM tk_finished WHERE stream_id = :stream_id), 0))

-- name: append_event
INSERT INTO chat_events(
  stream_id, seq, kind, message_id, part_id, data_json, created_at, checksum)
SELECT :stream_id, {next_seq},
  :kind, :message_id, :part_id, :data_json, :created_at, :checksum
RETURNING seq;

-- name: append_chunk
-- The same for a chunk of a message that is still being recorded by this run, if its number is the
-- next one; else nothing. Without RETURNING it takes 1.5 of 19 µs less.
INSERT INTO chat_events(
  stream_id, seq, kind, message_id, part_id, data_json, created_at, checksum)
SELECT :stream_id, :seq, :kind, :message_id, :part_id, :data_json, :created_at, :checksum
FROM tk_recordings WHERE message_id = :message_id AND run_id = :run_id AND :seq = {next_seq};

-- name: last_seq
SELECT max(coalesce((SELECT max(seq) FROM chat_events WHERE stream_id = :stream_id), 0),
  coalesce((SELECT max(seq) FROM tk_finished WHERE stream_id = :stream_id), 0));

-- name: events_after
SELECT stream_id, seq, kind, message_id, part_id, data_json, created_at, checksum
FROM chat_events WHERE stream_id = :stream_id AND seq > :after ORDER BY seq LIMIT :limit;

-- name: message_chunks_after
SELECT stream_id, seq, kind, message_id, part_id, data_json, created_at, checksum FROM chat_events
WHERE stream_id = :stream_id AND seq > :after AND message_id = :message_id AND kind = 'chunk'
ORDER BY seq;

-- name: last_message_chunk
SELECT max(seq) FROM chat_events
WHERE stream_id = :stream_id AND message_id = :message_id AND kind = 'chunk';

-- name: finished_after
SELECT seq, message_id FROM tk_finished WHERE stream_id = :stream_id AND seq > :after
ORDER BY seq LIMIT :limit;

-- name: add_finished
INSERT INTO tk_finished(stream_id, seq, message_id) VALUES (:stream_id, :seq, :message_id)
ON CONFLICT(stream_id, seq, message_id) DO NOTHING;

-- name: drop_finished_chunks
DELETE FROM chat_events WHERE stream_id = :stream_id AND kind IN ('chunk', 'base')
  AND EXISTS (SELECT 1 FROM tk_finished f WHERE f.message_id = chat_events.message_id)
  AND NOT EXISTS (SELECT 1 FROM tk_recordings r WHERE r.message_id = chat_events.message_id);

-- name: streams_with_finished_chunks
SELECT DISTINCT e.stream_id FROM chat_events e
JOIN tk_finished f ON f.stream_id = e.stream_id AND f.message_id = e.message_id
WHERE e.kind = 'chunk';

-- name: put_recording
INSERT INTO tk_recordings(message_id, session_id, run_id, owner, open_json, started_at)
VALUES (:message_id, :session_id, :run_id, :owner, :open_json, :started_at)
ON CONFLICT(message_id) DO UPDATE SET owner = excluded.owner, open_json = excluded.open_json
WHERE tk_recordings.run_id = excluded.run_id;

-- name: get_recording
SELECT message_id, session_id, run_id, owner, open_json, started_at
FROM tk_recordings WHERE message_id = :message_id;

-- name: session_recordings
SELECT message_id, session_id, run_id, owner, open_json, started_at
FROM tk_recordings WHERE session_id = :session_id;

-- name: all_recordings
SELECT message_id, session_id, run_id, owner, open_json, started_at FROM tk_recordings;

-- name: end_recording
DELETE FROM tk_recordings WHERE message_id = :message_id;

-- ---------------------------------------------------------------- hashes

-- name: get_hash
SELECT hash FROM tk_hashes WHERE kind = :kind AND id = :id;

-- name: put_hash
INSERT INTO tk_hashes(kind, id, hash) VALUES (:kind, :id, :hash)
ON CONFLICT(kind, id) DO UPDATE SET hash = excluded.hash;

-- ---------------------------------------------------------------- runs and prompts

-- name: insert_run
INSERT INTO tk_runs(id, session_id, message_id, agent, model_json, system_prompt_digest, tools_json,
  started_at)
VALUES (:id, :session_id, :message_id, :agent, :model_json, :system_prompt_digest, :tools_json,
  :started_at);

-- name: end_run
UPDATE tk_runs SET ended_at = :ended_at, end_reason = :end_reason, finish_reason = :finish_reason,
  error_text = :error_text
WHERE id = :id;

-- name: ask_to_stop
-- Before a run has an end, its error text is the reason why somebody wants it to stop.
UPDATE tk_runs SET error_text = :reason WHERE id = :id AND ended_at IS NULL;

-- name: set_run_usage
UPDATE tk_runs SET usage_json = :usage_json, cost_usd = :cost_usd WHERE id = :id;

-- name: set_run_verdicts
UPDATE tk_runs SET verdicts_json = :verdicts_json WHERE id = :id;

-- name: get_run
SELECT id, session_id, message_id, agent, model_json, system_prompt_digest, tools_json,
  verdicts_json, usage_json, cost_usd, started_at, ended_at, end_reason, finish_reason, error_text
FROM tk_runs WHERE id = :id;

-- name: session_runs
SELECT id, session_id, message_id, agent, model_json, system_prompt_digest, tools_json,
  verdicts_json, usage_json, cost_usd, started_at, ended_at, end_reason, finish_reason, error_text
FROM tk_runs WHERE session_id = :session_id ORDER BY id;

-- name: latest_run_of_message
-- By id: ids rise, while the clock that gave started_at may have been set back.
SELECT id, session_id, message_id, agent, model_json, system_prompt_digest, tools_json,
  verdicts_json, usage_json, cost_usd, started_at, ended_at, end_reason, finish_reason, error_text
FROM tk_runs WHERE session_id = :session_id AND message_id = :message_id
ORDER BY id DESC LIMIT 1;

-- name: put_system_prompt
INSERT INTO system_prompts(digest, body, created_at) VALUES (:digest, :body, :now)
ON CONFLICT(digest) DO NOTHING;

-- name: get_system_prompt
SELECT body FROM system_prompts WHERE digest = :digest;

-- ---------------------------------------------------------------- usage

-- name: get_usage
-- What record_usage wrote: neither a stream nor a message put in takes its place.
SELECT input, output, reasoning, cache_read, cache_write, cost_usd
FROM tk_usage WHERE message_id = :message_id AND put_in = 0;

-- name: decided_usage
SELECT input, output, reasoning, cache_read, cache_write, cost_usd, put_in
FROM tk_usage WHERE message_id = :message_id;

-- name: put_usage
INSERT INTO tk_usage(
  message_id, session_id, input, output, reasoning, cache_read, cache_write, cost_usd)
VALUES (
  :message_id, :session_id, :input, :output, :reasoning, :cache_read, :cache_write, :cost_usd)
ON CONFLICT(message_id) DO UPDATE SET input = excluded.input, output = excluded.output,
  reasoning = excluded.reasoning, cache_read = excluded.cache_read,
  cache_write = excluded.cache_write, cost_usd = excluded.cost_usd, put_in = 0;

-- name: put_said_usage
INSERT INTO tk_usage(
  message_id, session_id, input, output, reasoning, cache_read, cache_write, cost_usd, put_in)
VALUES (:message_id, :session_id, :input, :output, :reasoning, :cache_read, :cache_write, 0, 1)
ON CONFLICT(message_id) DO UPDATE SET input = excluded.input, output = excluded.output,
  reasoning = excluded.reasoning, cache_read = excluded.cache_read,
  cache_write = excluded.cache_write, cost_usd = 0, put_in = 1;

-- name: session_usage
SELECT message_id, input, output, reasoning, cache_read, cache_write, cost_usd
FROM tk_usage WHERE session_id = :session_id;

-- name: newest_compaction
SELECT max(m.created_at) FROM chat_parts p JOIN chat_messages m ON m.id = p.message_id
WHERE p.session_id = :session_id AND p.type = 'data-compaction';

-- name: recorded_messages
SELECT DISTINCT message_id FROM tk_finished WHERE stream_id = :session_id
UNION SELECT message_id FROM tk_recordings WHERE session_id = :session_id;

-- name: is_recorded
SELECT 1 FROM tk_recordings WHERE message_id = :message_id
UNION ALL SELECT 1 FROM tk_finished WHERE message_id = :message_id LIMIT 1;

-- name: any_uncounted_reply
-- A reply of another program that has a say in the sums: only a recount knows what it says now.
SELECT 1 FROM chat_messages m
WHERE m.session_id = :session_id AND m.role = 'assistant'
  AND (instr(m.metadata_json, 'usage') > 0 OR m.id IN (
    SELECT message_id FROM chat_parts
    WHERE session_id = :session_id AND type = 'data-compaction'))
  AND NOT EXISTS (SELECT 1 FROM tk_usage WHERE message_id = m.id)
  AND NOT EXISTS (SELECT 1 FROM tk_finished WHERE message_id = m.id)
  AND NOT EXISTS (SELECT 1 FROM tk_recordings WHERE message_id = m.id)
LIMIT 1;

-- name: any_counted_recording
SELECT 1 FROM tk_usage u JOIN tk_finished f ON f.message_id = u.message_id
WHERE u.session_id = :session_id LIMIT 1;

-- name: session_compactions
SELECT message_id, data_json, type FROM chat_parts
WHERE session_id = :session_id AND type = 'data-compaction';

-- ---------------------------------------------------------------- search

-- name: dirty_parts
SELECT d.part_id, p.session_id, p.type, p.data_json
FROM tk_search_dirty d LEFT JOIN chat_parts p ON p.id = d.part_id
ORDER BY d.part_id LIMIT :limit;

-- name: any_dirty_part
SELECT 1 FROM tk_search_dirty LIMIT 1;

-- name: forget_search_doc
DELETE FROM tk_search_docs WHERE part_id = :part_id;

-- name: add_search_doc
INSERT INTO tk_search_docs(part_id, session_id) VALUES (:part_id, :session_id) RETURNING doc;

-- name: clean_part
DELETE FROM tk_search_dirty WHERE part_id = :part_id;

-- name: search_parts
SELECT p.id, p.message_id, p.session_id, p.type, p.data_json, m.role, m.created_at,
  nullif(s.title, 'New Chat'), f.score
FROM {ranked:tk_search} AS f
JOIN tk_search_docs d ON d.doc = f.id
JOIN chat_parts p ON p.id = d.part_id
JOIN chat_messages m ON m.id = p.message_id
JOIN chat_sessions s ON s.id = p.session_id
WHERE f.id >= :oldest
  AND (CAST(:session_id AS TEXT) IS NULL OR p.session_id = :session_id)
  AND (CAST(:agent AS TEXT) IS NULL OR s.agent = :agent)
  AND (CAST(:role AS TEXT) IS NULL OR m.role = :role)
  AND (:archived OR s.archived_at IS NULL)
  AND (:hidden OR (m.hidden_at IS NULL AND CASE WHEN json_valid(m.metadata_json)
    THEN json_extract({json:m.metadata_json}, '$.hidden_at') END IS NULL))
  AND (CAST(:since AS INTEGER) IS NULL OR m.created_at >= :since)
  AND (CAST(:until AS INTEGER) IS NULL OR m.created_at < :until)
ORDER BY score, m.created_at DESC LIMIT :limit;

-- name: scan_parts
-- Without the index: every part (or every one not indexed yet) with the term in it, newest first.
SELECT p.id, p.message_id, p.session_id, p.type, p.data_json, m.role, m.created_at,
  nullif(s.title, 'New Chat'), 0.0
FROM chat_parts p
JOIN chat_messages m ON m.id = p.message_id
JOIN chat_sessions s ON s.id = p.session_id
WHERE p.data_json LIKE :term ESCAPE '\'
  AND (NOT :dirty_only OR p.id IN (SELECT part_id FROM tk_search_dirty))
  AND (CAST(:session_id AS TEXT) IS NULL OR p.session_id = :session_id)
  AND (CAST(:agent AS TEXT) IS NULL OR s.agent = :agent)
  AND (CAST(:role AS TEXT) IS NULL OR m.role = :role)
  AND (:archived OR s.archived_at IS NULL)
  AND (:hidden OR (m.hidden_at IS NULL AND CASE WHEN json_valid(m.metadata_json)
    THEN json_extract({json:m.metadata_json}, '$.hidden_at') END IS NULL))
  AND (CAST(:since AS INTEGER) IS NULL OR m.created_at >= :since)
  AND (CAST(:until AS INTEGER) IS NULL OR m.created_at < :until)
ORDER BY m.created_at DESC LIMIT :limit;

-- name: mark_all_dirty
INSERT INTO tk_search_dirty(part_id) SELECT id FROM chat_parts WHERE true ON CONFLICT DO NOTHING;

-- name: forget_all_docs
DELETE FROM tk_search_docs;

-- ---------------------------------------------------------------- event log, retention

-- name: all_streams
SELECT DISTINCT stream_id FROM chat_events ORDER BY stream_id;

-- name: all_session_ids
SELECT id FROM chat_sessions ORDER BY created_at, id;

-- name: drop_events
DELETE FROM chat_events WHERE kind <> 'unknown'
  AND (kind <> 'chunk' OR message_id NOT IN (SELECT message_id FROM tk_recordings));

-- name: unknown_chunks
SELECT stream_id, seq, kind, message_id, part_id, data_json, created_at, checksum FROM chat_events
WHERE stream_id = :stream_id AND kind = 'unknown' ORDER BY seq;

-- name: old_finished_messages
SELECT DISTINCT e.stream_id, e.message_id FROM chat_events e
WHERE e.kind = 'chunk' AND e.message_id IS NOT NULL
  AND e.message_id NOT IN (SELECT message_id FROM tk_recordings)
GROUP BY e.stream_id, e.message_id HAVING max(e.created_at) < :before;

-- name: drop_message_chunks
DELETE FROM chat_events WHERE stream_id = :stream_id AND message_id = :message_id
  AND kind IN ('chunk', 'base', 'snapshot');

-- name: put_event_at
INSERT INTO chat_events(
  stream_id, seq, kind, message_id, part_id, data_json, created_at, checksum)
VALUES (:stream_id, :seq, :kind, :message_id, NULL, :data_json, :created_at, :checksum);

-- name: old_sessions
-- Which sessions retention may take: oldest first, none that is being recorded.
SELECT id, nullif(title, 'New Chat'), updated_at, total_tokens FROM chat_sessions s
WHERE (CAST(:before AS INTEGER) IS NULL OR updated_at < :before)
  AND (NOT :archived_only OR archived_at IS NOT NULL)
  AND (CAST(:agent AS TEXT) IS NULL OR agent = :agent)
  AND id NOT IN (SELECT session_id FROM tk_recordings)
  AND (CAST(:keep AS INTEGER) IS NULL OR id NOT IN (
    SELECT id FROM chat_sessions
    WHERE (CAST(:agent AS TEXT) IS NULL OR agent = :agent)
    ORDER BY updated_at DESC, id DESC LIMIT :keep))
ORDER BY updated_at, id;

-- name: session_size
SELECT coalesce(sum({size:data_json}), 0), count(*) FROM chat_parts WHERE session_id = :id;

-- name: largest_sessions
SELECT p.session_id, nullif(max(s.title), 'New Chat'), sum({size:p.data_json}) AS bytes,
  count(*) AS parts
FROM chat_parts p JOIN chat_sessions s ON s.id = p.session_id
GROUP BY p.session_id ORDER BY bytes DESC LIMIT :limit;

-- name: pages_by_table
SELECT coalesce(m.tbl_name, s.name), sum(s.pgsize) FROM dbstat s
LEFT JOIN sqlite_master m ON m.name = s.name GROUP BY 1 ORDER BY 2 DESC;

-- name: text_by_table
SELECT 'chat_parts', coalesce(sum({size:data_json}), 0) FROM chat_parts
UNION ALL SELECT 'chat_events', coalesce(sum({size:data_json}), 0) FROM chat_events;

-- ---------------------------------------------------------------- export and import

-- name: session_extra
SELECT kind, id, columns_json FROM tk_extra WHERE kind = 'session' AND id = :session_id
UNION ALL
SELECT x.kind, x.id, x.columns_json FROM chat_messages m
JOIN tk_extra x ON x.kind = 'message' AND x.id = m.id WHERE m.session_id = :session_id
UNION ALL
SELECT x.kind, x.id, x.columns_json FROM chat_messages m
JOIN chat_parts p ON p.message_id = m.id
JOIN tk_extra x ON x.kind = 'part' AND x.id = p.id WHERE m.session_id = :session_id;

-- name: put_extra
INSERT INTO tk_extra(kind, id, columns_json) VALUES (:kind, :id, :columns_json)
ON CONFLICT(kind, id) DO UPDATE SET columns_json = excluded.columns_json;

-- name: sessions_to_export
SELECT id FROM chat_sessions
WHERE (CAST(:agent AS TEXT) IS NULL OR agent = :agent)
  AND (CAST(:archived AS INTEGER) IS NULL OR (CASE WHEN archived_at IS NULL THEN 0 ELSE 1 END) = :archived)
ORDER BY created_at, id;

-- name: all_extra
SELECT kind, id, columns_json FROM tk_extra;

-- name: recording_run
-- Which run records a message, and whether its last chunk is there: a file loses none.
SELECT run_id, 1 FROM tk_recordings WHERE message_id = :message_id;

-- name: hold_numbers
-- Nobody else gives numbers until the transaction ends; a write of a file is alone anyway.
SELECT 1 FROM chat_sessions WHERE id = :stream_id;

-- name: sums_from
SELECT seq, checksum FROM chat_events WHERE stream_id = :stream_id AND seq >= :seq ORDER BY seq;

-- name: finished_at
SELECT max(seq) FROM tk_finished WHERE stream_id = :stream_id AND message_id = :message_id;

-- name: replayable_message
-- Whether the journal still has the message from its beginning, or from a base, on.
SELECT 1 FROM chat_events WHERE stream_id = :stream_id AND message_id = :message_id
  AND (kind = 'base' OR (kind IN ('chunk', 'snapshot') AND seq <= :seq)) LIMIT 1;

-- name: replay_after
-- The number before the first chunk of what is recorded of a message now: a message that was taken
-- up again has a base there.
SELECT coalesce(max(CASE kind WHEN 'base' THEN seq END), min(seq) - 1, 0) FROM chat_events
WHERE stream_id = :stream_id AND message_id = :message_id
  AND kind IN ('base', 'chunk', 'unknown');

-- name: message_base
-- What a message was when it was taken up again.
SELECT data_json FROM chat_events
WHERE stream_id = :stream_id AND message_id = :message_id AND kind = 'base'
ORDER BY seq DESC LIMIT 1;
