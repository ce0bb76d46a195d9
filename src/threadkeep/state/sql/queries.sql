-- Named queries of the session store. Every SELECT names its columns: other programs may add some.

-- name: get_meta
SELECT value FROM tk_meta WHERE key = :key;

-- name: set_meta
INSERT INTO tk_meta(key, value) VALUES (:key, :value)
ON CONFLICT(key) DO UPDATE SET value = excluded.value;

-- ---------------------------------------------------------------- sessions

-- name: insert_session
-- OR IGNORE is the contract's: the first values of a session win.
INSERT OR IGNORE INTO sessions(
  id, source, user_id, model, model_config, system_prompt, parent_session_id, started_at)
VALUES (:id, :source, :user_id, :model, :model_config, :system_prompt, :parent_session_id, :now);

-- name: get_session
SELECT id, source, user_id, model, model_config, system_prompt, parent_session_id, started_at,
  ended_at, end_reason, message_count, tool_call_count, input_tokens, output_tokens,
  cache_read_tokens, cache_write_tokens, reasoning_tokens, billing_provider, billing_base_url,
  billing_mode, estimated_cost_usd, actual_cost_usd, cost_status, cost_source, pricing_version, title
FROM sessions WHERE id = :id;

-- name: session_exists
SELECT 1 FROM sessions WHERE id = :id;

-- name: end_session
UPDATE sessions SET ended_at = :now, end_reason = :end_reason WHERE id = :id AND ended_at IS NULL;

-- name: reopen_session
UPDATE sessions SET ended_at = NULL, end_reason = NULL WHERE id = :id;

-- name: set_system_prompt
UPDATE sessions SET system_prompt = :system_prompt WHERE id = :id;

-- name: sessions_by_prefix
-- LIKE is what the contract uses: letters of ASCII match in either case.
SELECT id FROM sessions WHERE id LIKE :pattern ESCAPE '\' LIMIT 2;

-- name: sessions_newest
SELECT id, source, user_id, model, model_config, system_prompt, parent_session_id, started_at,
  ended_at, end_reason, message_count, tool_call_count, input_tokens, output_tokens,
  cache_read_tokens, cache_write_tokens, reasoning_tokens, billing_provider, billing_base_url,
  billing_mode, estimated_cost_usd, actual_cost_usd, cost_status, cost_source, pricing_version, title
FROM sessions ORDER BY started_at DESC LIMIT :limit OFFSET :offset;

-- name: sessions_newest_of_source
SELECT id, source, user_id, model, model_config, system_prompt, parent_session_id, started_at,
  ended_at, end_reason, message_count, tool_call_count, input_tokens, output_tokens,
  cache_read_tokens, cache_write_tokens, reasoning_tokens, billing_provider, billing_base_url,
  billing_mode, estimated_cost_usd, actual_cost_usd, cost_status, cost_source, pricing_version, title
FROM sessions WHERE source = :source ORDER BY started_at DESC LIMIT :limit OFFSET :offset;

-- name: count_sessions
SELECT count(*) FROM sessions WHERE CAST(:source AS TEXT) IS NULL OR source = :source;

-- name: count_sessions_by_source
SELECT source, count(*) FROM sessions GROUP BY source ORDER BY 2 DESC, 1;

-- name: orphan_children
UPDATE sessions SET parent_session_id = NULL WHERE parent_session_id = :id;

-- name: delete_session
DELETE FROM sessions WHERE id = :id;

-- name: fingerprint_session
SELECT id, source, user_id, model_config, system_prompt, parent_session_id, started_at, title
FROM sessions WHERE id = :id;

-- name: put_session_hash
INSERT INTO tk_session_hashes(session_id, hash) VALUES (:id, :hash)
ON CONFLICT(session_id) DO UPDATE SET hash = excluded.hash;

-- ---------------------------------------------------------------- messages

-- name: insert_message
INSERT INTO messages(
  session_id, role, content, tool_call_id, tool_calls, tool_name, timestamp, token_count,
  finish_reason, reasoning, reasoning_details, codex_reasoning_items)
VALUES (
  :session_id, :role, :content, :tool_call_id, :tool_calls, :tool_name, :timestamp, :token_count,
  :finish_reason, :reasoning, :reasoning_details, :codex_reasoning_items)
RETURNING id;

-- name: count_message
UPDATE sessions SET message_count = message_count + :messages,
  tool_call_count = tool_call_count + :calls WHERE id = :id;

-- name: put_hash
INSERT INTO tk_hashes(id, hash) VALUES (:id, :hash) ON CONFLICT(id) DO UPDATE SET hash = excluded.hash;

-- name: get_messages
-- In the order they were written: the clock may have stepped back meanwhile.
SELECT id, session_id, role, content, tool_call_id, tool_calls, tool_name, timestamp, token_count,
  finish_reason, reasoning, reasoning_details, codex_reasoning_items
FROM messages WHERE session_id = :session_id AND id > :after AND id < :before
ORDER BY id LIMIT :limit OFFSET :offset;

-- name: get_latest_messages
SELECT id, session_id, role, content, tool_call_id, tool_calls, tool_name, timestamp, token_count,
  finish_reason, reasoning, reasoning_details, codex_reasoning_items
FROM messages WHERE session_id = :session_id AND id > :after AND id < :before
ORDER BY id DESC LIMIT :limit OFFSET :offset;

-- name: get_message
SELECT id, session_id, role, content, tool_call_id, tool_calls, tool_name, timestamp, token_count,
  finish_reason, reasoning, reasoning_details, codex_reasoning_items
FROM messages WHERE id = :id;

-- name: count_messages
SELECT count(*) FROM messages WHERE CAST(:session_id AS TEXT) IS NULL OR session_id = :session_id;

-- name: delete_messages
DELETE FROM messages WHERE session_id = :session_id;

-- name: reset_counts
UPDATE sessions SET message_count = 0, tool_call_count = 0 WHERE id = :id;

-- ---------------------------------------------------------------- exact values

-- name: put_exact
INSERT INTO tk_exact(owner, key, field, kind, value) VALUES (:owner, :key, :field, :kind, :value)
ON CONFLICT(owner, key, field) DO UPDATE SET kind = excluded.kind, value = excluded.value;

-- name: exact_messages
SELECT key, field, kind, value FROM tk_exact
WHERE owner = 'message' AND key BETWEEN :first AND :last;

-- name: exact_session
SELECT field, kind, value FROM tk_exact WHERE owner = 'session' AND key = :key;

-- name: drop_exact
DELETE FROM tk_exact WHERE owner = :owner AND key = :key AND field = :field;

-- ---------------------------------------------------------------- keys of callers

-- name: get_key
-- A key whose message is gone, not even rewound, counts for nothing.
SELECT k.message_id FROM tk_keys k
WHERE k.session_id = :session_id AND k.kind = :kind AND k.key = :key
  AND (k.message_id IS NULL
       OR EXISTS (SELECT 1 FROM messages m WHERE m.id = k.message_id)
       OR EXISTS (SELECT 1 FROM tk_rewound r WHERE r.id = k.message_id));

-- name: put_key
INSERT INTO tk_keys(session_id, kind, key, message_id) VALUES (:session_id, :kind, :key, :message_id)
ON CONFLICT(session_id, kind, key) DO UPDATE SET message_id = excluded.message_id;

-- ---------------------------------------------------------------- flags and relations

-- name: set_pinned
INSERT INTO tk_flags(session_id, pinned_at) VALUES (:id, :at)
ON CONFLICT(session_id) DO UPDATE SET pinned_at = excluded.pinned_at;

-- name: set_archived
INSERT INTO tk_flags(session_id, archived_at) VALUES (:id, :at)
ON CONFLICT(session_id) DO UPDATE SET archived_at = excluded.archived_at;

-- name: put_relation
INSERT INTO tk_relations(session_id, parent_id, kind) VALUES (:id, :parent_id, :kind)
ON CONFLICT(session_id) DO UPDATE SET parent_id = excluded.parent_id, kind = excluded.kind;
