-- Named queries of the session store. Every SELECT names its columns: other programs may add some.

-- piece: message
id, session_id, role, content, tool_call_id, tool_calls, tool_name, timestamp, token_count,
  finish_reason, reasoning, reasoning_details, codex_reasoning_items

-- name: get_meta
SELECT value FROM tk_meta WHERE key = :key;

-- name: set_meta
INSERT INTO tk_meta(key, value) VALUES (:key, :value)
ON CONFLICT(key) DO UPDATE SET value = excluded.value;

-- name: noted_forms
-- On a server: what a verb would have added to a file.
SELECT key FROM tk_meta WHERE key LIKE 'has:%' ORDER BY key;

-- ---------------------------------------------------------------- sessions

-- name: get_session
SELECT s.* FROM full.sessions s WHERE id = :id;

-- name: session_exists
SELECT 1 FROM sessions WHERE id = :id;

-- name: end_session
UPDATE sessions SET ended_at = :now, end_reason = :end_reason WHERE id = :id AND ended_at IS NULL;

-- name: reopen_session
UPDATE sessions SET ended_at = NULL, end_reason = NULL WHERE id = :id;

-- name: sessions_by_prefix
-- LIKE is what the contract uses: letters of ASCII match in either case.
SELECT id FROM sessions WHERE id LIKE :pattern ESCAPE '\' LIMIT 2;

-- name: sessions_newest
SELECT s.* FROM full.sessions s ORDER BY started_at DESC LIMIT :limit OFFSET :offset;

-- name: sessions_newest_of_source
SELECT s.* FROM full.sessions s WHERE source = :source ORDER BY started_at DESC LIMIT :limit OFFSET :offset;

-- name: children_of
SELECT id FROM sessions WHERE parent_session_id = :id;

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

-- name: count_messages_after
SELECT count(*) FROM messages WHERE id > :id;

-- name: count_entries_after
SELECT count(*) FROM messages_fts_docsize WHERE id > :id;

-- name: index_is_kept
SELECT count(*) FROM sqlite_master WHERE name = 'messages_fts_docsize';

-- name: has_state_meta
SELECT count(*) FROM sqlite_master WHERE name = 'state_meta';

-- name: index_is_stale
SELECT 1 FROM state_meta WHERE key = 'fts_stale' AND coalesce(value, '') NOT IN ('', '0');

-- name: count_message
UPDATE sessions SET message_count = coalesce(message_count, 0) + :messages,
  tool_call_count = coalesce(tool_call_count, 0) + :calls WHERE id = :id;

-- name: put_hash
INSERT INTO tk_hashes(id, hash) VALUES (:id, :hash) ON CONFLICT(id) DO UPDATE SET hash = excluded.hash;

-- name: get_messages
-- In the order they were written: the clock may have stepped back meanwhile. The pluses keep SQLite from reading
-- all messages between two ids; the index of the session has the ids, and only they are sorted. Where `active` is
-- NULL a program of before added the column without its default: the message is live.
SELECT *
FROM full.messages m WHERE m.id IN (
  SELECT x.id FROM full.messages x
  WHERE x.session_id = :session_id AND +x.id > :after AND +x.id < :before
    AND (x.active IS DISTINCT FROM 0 OR :inactive OR (:compacted AND x.compacted = 1))
  ORDER BY +x.id LIMIT :limit OFFSET :offset)
ORDER BY m.id;

-- name: get_latest_messages
SELECT *
FROM full.messages m WHERE m.id IN (
  SELECT x.id FROM full.messages x
  WHERE x.session_id = :session_id AND +x.id > :after AND +x.id < :before
    AND (x.active IS DISTINCT FROM 0 OR :inactive OR (:compacted AND x.compacted = 1))
  ORDER BY +x.id DESC LIMIT :limit OFFSET :offset)
ORDER BY m.id DESC;

-- name: messages_of_sessions
-- Those of a lineage, whose ids come as a JSON list.
SELECT *
FROM full.messages m WHERE m.id IN (
  SELECT x.id FROM full.messages x
  WHERE x.session_id IN ({texts:session_ids})
    AND (x.active IS DISTINCT FROM 0 OR :inactive))
ORDER BY m.id;

-- name: count_live
SELECT count(*) FROM (
  SELECT 1 FROM full.messages m
  WHERE m.session_id IN ({texts:session_ids}) AND m.active IS DISTINCT FROM 0
  LIMIT :limit);

-- name: first_said
SELECT * FROM full.messages m
WHERE m.session_id = :session_id AND m.id < :before AND length(m.content) > 0
  AND (CAST(:roles AS TEXT) IS NULL OR m.role IN ({texts:roles}))
ORDER BY m.id LIMIT :limit;

-- name: last_said
SELECT * FROM full.messages m
WHERE m.session_id = :session_id AND m.id > :after AND length(m.content) > 0
  AND (CAST(:roles AS TEXT) IS NULL OR m.role IN ({texts:roles}))
ORDER BY m.id DESC LIMIT :limit;

-- name: any_inactive
SELECT 1 FROM full.messages m WHERE m.session_id = :session_id AND m.active = 0 LIMIT 1;

-- name: highest_active
SELECT max(m.id) FROM full.messages m WHERE m.session_id = :session_id AND m.active IS DISTINCT FROM 0;

-- name: active_ids
SELECT m.id FROM full.messages m WHERE m.session_id = :session_id AND m.active IS DISTINCT FROM 0
ORDER BY m.id;

-- name: platform_message
SELECT 1 FROM full.messages m
WHERE m.session_id = :session_id AND m.platform_message_id = :name LIMIT 1;

-- name: latest_of_role
SELECT m.id FROM full.messages m
WHERE m.session_id = :session_id AND m.role = :role AND m.active IS DISTINCT FROM 0
  AND (NOT :text OR trim(m.content) <> '')
ORDER BY m.id DESC LIMIT 1 OFFSET :offset;

-- name: role_of_message
SELECT m.role FROM full.messages m
WHERE m.id = :id AND m.session_id = :session_id AND m.active IS DISTINCT FROM 0;

-- name: pull_requests
SELECT m.session_id, m.content FROM messages m
WHERE m.session_id IN ({texts:session_ids})
  AND m.role = 'tool' AND m.content LIKE '%/pull/%'
ORDER BY m.id;

-- name: user_messages
-- Not the notes that a program puts into the conversation under the user's name.
SELECT m.id, m.timestamp, m.content FROM full.messages m
WHERE m.session_id = :session_id AND m.role = 'user' AND (m.active IS DISTINCT FROM 0 OR :inactive)
  AND coalesce(m.display_kind, '') = ''
ORDER BY m.id DESC LIMIT :limit;

-- name: get_message
SELECT {message}
FROM messages WHERE id = :id;

-- name: count_messages
SELECT count(*) FROM messages WHERE CAST(:session_id AS TEXT) IS NULL OR session_id = :session_id;

-- name: delete_messages
DELETE FROM messages WHERE session_id = :session_id;

-- name: reset_counts
UPDATE sessions SET message_count = 0, tool_call_count = 0 WHERE id = :id;

-- name: calls_of_message
SELECT tool_calls FROM messages WHERE id = :id;

-- name: delete_live_messages
DELETE FROM messages WHERE session_id = :session_id AND active IS DISTINCT FROM 0;

-- name: answers_with_calls
SELECT id, content FROM messages
WHERE role = 'assistant' AND tool_calls IS NOT NULL AND tool_calls <> '' AND content LIKE '%[%]%';

-- name: clear_content
UPDATE messages SET content = '' WHERE id IN ({ids:ids});

-- name: shown_with
SELECT m.id, m.role, m.content, m.display_metadata FROM full.messages m
WHERE m.session_id = :session_id AND m.active IS DISTINCT FROM 0 AND m.display_metadata IS NOT NULL
ORDER BY m.id;

-- name: metadata_of
SELECT m.display_metadata FROM full.messages m WHERE m.id = :id AND m.session_id = :session_id;

-- name: latest_with_content
SELECT m.id FROM full.messages m
WHERE m.session_id = :session_id AND m.role = :role AND m.content = :content AND m.active IS DISTINCT FROM 0
ORDER BY m.id DESC LIMIT 1;

-- name: latest_of_user
SELECT m.id, m.content FROM full.messages m
WHERE m.session_id = :session_id AND m.role = 'user' AND m.active IS DISTINCT FROM 0
ORDER BY m.id DESC LIMIT 1;

-- name: said_by_user
SELECT m.content FROM full.messages m
WHERE m.id = :id AND m.session_id = :session_id AND m.role = 'user' AND m.active IS DISTINCT FROM 0;

-- ---------------------------------------------------------------- compactions

-- name: config_of
SELECT model_config FROM sessions WHERE id = :id;

-- name: cooldown_of
SELECT s.compression_failure_cooldown_until, s.compression_failure_error
FROM full.sessions s WHERE s.id = :id;

-- name: count_hygiene_failure
INSERT INTO gateway_hygiene_state(session_key, failure_streak) VALUES (:key, 1)
ON CONFLICT(session_key) DO UPDATE SET failure_streak = gateway_hygiene_state.failure_streak + 1
RETURNING failure_streak;

-- name: reset_hygiene_failures
DELETE FROM gateway_hygiene_state WHERE session_key = :key;

-- name: open_continuations
-- Two are enough to tell that it is not the only one.
SELECT * FROM full.sessions s
WHERE s.parent_session_id = :id AND s.ended_at IS NULL AND s.source <> 'tool'
  AND CASE WHEN json_valid(s.model_config)
    THEN :id NOT IN (coalesce(json_extract({json:s.model_config}, '$._branched_from'), ''),
                     coalesce(json_extract({json:s.model_config}, '$._delegate_from'), ''))
    ELSE true END
ORDER BY s.started_at LIMIT 2;

-- name: any_continuation
SELECT 1 FROM sessions s
WHERE s.parent_session_id = :id AND s.source <> 'tool'
  AND CASE WHEN json_valid(s.model_config)
    THEN :id NOT IN (coalesce(json_extract({json:s.model_config}, '$._branched_from'), ''),
                     coalesce(json_extract({json:s.model_config}, '$._delegate_from'), ''))
    ELSE true END
LIMIT 1;

-- ---------------------------------------------------------------- locks and leases

-- name: compression_lock
SELECT l.holder, l.expires_at FROM full.compression_locks l WHERE l.session_id = :id;

-- name: refresh_compression_lock
UPDATE compression_locks SET expires_at = :until WHERE session_id = :id AND holder = :holder;

-- name: release_compression_lock
DELETE FROM compression_locks WHERE session_id = :id AND holder = :holder;

-- name: turn_lease
SELECT l.holder, l.expires_at FROM full.session_turn_leases l WHERE l.conversation_id = :id;

-- name: refresh_turn_lease
UPDATE session_turn_leases SET expires_at = :until WHERE conversation_id = :id AND holder = :holder;

-- name: release_turn_lease
DELETE FROM session_turn_leases WHERE conversation_id = :id AND holder = :holder;

-- name: continued_from
-- The compacted session that this one goes on with. A mark counts only if it names that parent: a
-- continuation has taken over its parent's settings, marks and all.
SELECT p.id FROM sessions c JOIN sessions p ON p.id = c.parent_session_id
WHERE c.id = :id AND p.end_reason = 'compression' AND c.source <> 'tool'
  AND CASE WHEN json_valid(c.model_config)
    THEN p.id NOT IN (coalesce(json_extract({json:c.model_config}, '$._branched_from'), ''),
                      coalesce(json_extract({json:c.model_config}, '$._delegate_from'), ''))
    ELSE true END;

-- name: branched_from
SELECT json_extract({json:model_config}, '$._branched_from') FROM sessions
WHERE id = :id AND json_valid(model_config);

-- name: closed_by_compression
SELECT 1 FROM sessions WHERE id = :id AND ended_at IS NOT NULL AND end_reason = 'compression';

-- ---------------------------------------------------------------- exact values

-- name: put_exact
INSERT INTO tk_exact(owner, key, field, kind, value, hash) VALUES (:owner, :key, :field, :kind, :value, :hash)
ON CONFLICT(owner, key, field) DO UPDATE SET
  kind = excluded.kind, value = excluded.value, hash = excluded.hash;

-- name: exact_messages
SELECT key, field, kind, value FROM tk_exact
WHERE owner = 'message' AND key BETWEEN :first AND :last;

-- name: exact_contents
SELECT m.id, x.kind, x.value, m.content FROM tk_exact x
JOIN messages m ON m.id = CASE x.owner WHEN 'message' THEN CAST(x.key AS INTEGER) END
WHERE x.owner = 'message' AND x.field = 'content';

-- name: exact_session
SELECT field, kind, value FROM tk_exact WHERE owner = 'session' AND key = :key;

-- name: drop_exact
DELETE FROM tk_exact WHERE owner = :owner AND key = :key AND field = :field;

-- name: drop_exact_of_message
DELETE FROM tk_exact WHERE owner = 'message' AND key = :id;

-- name: drop_offloaded_of_message
DELETE FROM tk_offloaded WHERE message_id = :id;

-- ---------------------------------------------------------------- keys of callers

-- name: get_key
-- A key whose message is gone, not even rewound, counts for nothing.
SELECT k.message_id FROM tk_keys k
WHERE k.session_id = :session_id AND k.kind = :kind AND k.key = :key
  AND (k.message_id IS NULL
       OR EXISTS (SELECT 1 FROM messages m WHERE m.id = k.message_id)
       OR EXISTS (SELECT 1 FROM tk_rewound r WHERE r.id = k.message_id));

-- name: get_key_plain
SELECT k.message_id FROM tk_keys k
WHERE k.session_id = :session_id AND k.kind = :kind AND k.key = :key
  AND (k.message_id IS NULL OR EXISTS (SELECT 1 FROM messages m WHERE m.id = k.message_id));

-- name: key_tables
SELECT name FROM sqlite_master WHERE name IN ('tk_keys', 'tk_rewound');

-- name: make_keys
CREATE TABLE IF NOT EXISTS tk_keys (
  session_id TEXT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL, message_id INTEGER,
  PRIMARY KEY (session_id, kind, key)) STRICT, WITHOUT ROWID;

-- name: put_key
INSERT INTO tk_keys(session_id, kind, key, message_id) VALUES (:session_id, :kind, :key, :message_id)
ON CONFLICT(session_id, kind, key) DO UPDATE SET message_id = excluded.message_id;

-- name: keys_of
SELECT key, message_id FROM tk_keys WHERE session_id = :session_id AND kind = :kind;

-- name: forget_key
DELETE FROM tk_keys WHERE session_id = :session_id AND kind = :kind AND key = :key;

-- name: put_all_keys
INSERT INTO tk_keys(session_id, kind, key, message_id)
SELECT session_id, :kind, CAST(id AS TEXT), id FROM messages WHERE typeof(session_id) = 'text'
ON CONFLICT DO NOTHING;

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

-- ---------------------------------------------------------------- titles

-- name: title_owner
SELECT id FROM sessions WHERE title = :title;

-- name: set_title_source
INSERT INTO tk_flags(session_id, title_source, titled)
VALUES (:id, :source, (SELECT title FROM sessions WHERE id = :id))
ON CONFLICT(session_id) DO UPDATE SET title_source = excluded.title_source, titled = excluded.titled;

-- name: session_by_title
SELECT s.* FROM full.sessions s WHERE title = :title;

-- name: newest_variant
SELECT id FROM sessions WHERE title LIKE :pattern ESCAPE '\' ORDER BY started_at DESC LIMIT 1;

-- name: titles_like
SELECT title FROM sessions WHERE title = :title OR title LIKE :pattern ESCAPE '\';

-- ---------------------------------------------------------------- rewind

-- name: message_of_session
SELECT 1 FROM messages WHERE id = :id AND session_id = :session_id;

-- name: next_rewind_batch
SELECT coalesce(max(batch), 0) + 1 FROM tk_rewound;

-- name: message_ids_from
SELECT id FROM messages WHERE session_id = :session_id AND +id >= :first ORDER BY +id;

-- name: copy_to_rewound
INSERT INTO tk_rewound(
  id, batch, cut, rewound_at, session_id, role, content, tool_call_id, tool_calls, tool_name, timestamp,
  token_count, finish_reason, reasoning, reasoning_details, codex_reasoning_items, hash, exact)
SELECT id, :batch, :cut, :now, session_id, role, content, tool_call_id, tool_calls, tool_name, timestamp,
  token_count, finish_reason, reasoning, reasoning_details, codex_reasoning_items,
  (SELECT hash FROM tk_hashes h WHERE h.id = messages.id), :exact
FROM messages WHERE id = :id;

-- name: delete_messages_from
DELETE FROM messages WHERE session_id = :session_id AND +id >= :first;

-- name: last_rewind
SELECT batch, cut FROM tk_rewound WHERE session_id = :session_id ORDER BY batch DESC LIMIT 1;

-- name: rewound_messages
SELECT {message}, hash, exact
FROM tk_rewound WHERE batch = :batch ORDER BY id;

-- name: forget_rewind
DELETE FROM tk_rewound WHERE batch = :batch;

-- name: all_rewound
SELECT {message}, hash, exact
FROM tk_rewound ORDER BY id;

-- name: rewound_from
SELECT {message}, hash, exact
FROM tk_rewound WHERE session_id = :session_id AND id >= :first ORDER BY id;

-- name: forget_rewound_from
DELETE FROM tk_rewound WHERE session_id = :session_id AND id >= :first;

-- name: whole_message
SELECT * FROM full.messages m WHERE m.id = :id;

-- name: count_rewind
UPDATE sessions SET rewind_count = coalesce(rewind_count, 0) + 1 WHERE id = :id;

-- name: taken_back_ids
SELECT m.id FROM full.messages m
WHERE m.session_id = :session_id AND m.active = 0 AND m.compacted IS DISTINCT FROM 1;

-- name: inactive_ids_from
SELECT m.id FROM full.messages m
WHERE m.session_id = :session_id AND +m.id >= :first AND m.active = 0;

-- name: hashes_among
SELECT id, hash FROM tk_hashes WHERE id IN ({ids:ids});

-- name: restore_message
INSERT INTO messages(
  id, session_id, role, content, tool_call_id, tool_calls, tool_name, timestamp, token_count,
  finish_reason, reasoning, reasoning_details, codex_reasoning_items)
VALUES (
  :id, :session_id, :role, :content, :tool_call_id, :tool_calls, :tool_name, :timestamp, :token_count,
  :finish_reason, :reasoning, :reasoning_details, :codex_reasoning_items);

-- name: offloaded_of
SELECT field, pieces FROM tk_offloaded WHERE message_id = :id;

-- name: put_offloaded
INSERT INTO tk_offloaded(message_id, field, pieces) VALUES (:message_id, :field, :pieces)
ON CONFLICT(message_id, field) DO UPDATE SET pieces = excluded.pieces;

-- name: tool_calls_of
SELECT m.tool_calls FROM full.messages m
WHERE m.session_id = :session_id AND m.tool_calls IS NOT NULL AND m.active IS DISTINCT FROM 0;

-- name: set_counts
UPDATE sessions SET message_count = :messages, tool_call_count = :calls WHERE id = :id;

-- ---------------------------------------------------------------- lineage

-- name: end_compressed
-- Also one that ended before: it goes on in its child, and that must be found.
UPDATE sessions SET ended_at = coalesce(ended_at, :now), end_reason = 'compression' WHERE id = :id;

-- name: start_after
-- Not before its parent ended, whatever the clock says: Hermes tells a continuation by that.
UPDATE sessions SET started_at = (SELECT max(:now, p.ended_at) FROM sessions p WHERE p.id = :parent)
WHERE id = :id;

-- ---------------------------------------------------------------- usage

-- name: usage_of
SELECT coalesce(CAST(input_tokens AS NUMERIC), 0), coalesce(CAST(output_tokens AS NUMERIC), 0),
  coalesce(CAST(cache_read_tokens AS NUMERIC), 0), coalesce(CAST(cache_write_tokens AS NUMERIC), 0),
  coalesce(CAST(reasoning_tokens AS NUMERIC), 0), coalesce(CAST(estimated_cost_usd AS NUMERIC), 0),
  coalesce(CAST(actual_cost_usd AS NUMERIC), 0), model, source
FROM sessions WHERE id = :id;

-- name: add_usage
-- Estimated costs become a number with the first update; actual costs only when there are some.
UPDATE sessions SET
  input_tokens = coalesce(input_tokens, 0) + coalesce(:input_tokens, CAST(0 AS INTEGER)),
  output_tokens = coalesce(output_tokens, 0) + coalesce(:output_tokens, CAST(0 AS INTEGER)),
  cache_read_tokens = coalesce(cache_read_tokens, 0) + coalesce(:cache_read_tokens, CAST(0 AS INTEGER)),
  cache_write_tokens = coalesce(cache_write_tokens, 0) + coalesce(:cache_write_tokens, CAST(0 AS INTEGER)),
  reasoning_tokens = coalesce(reasoning_tokens, 0) + coalesce(:reasoning_tokens, CAST(0 AS INTEGER)),
  estimated_cost_usd = coalesce(estimated_cost_usd, 0) + coalesce(:estimated_cost_usd, CAST(0 AS REAL)),
  actual_cost_usd = CASE WHEN CAST(:actual_cost_usd AS REAL) IS NULL THEN actual_cost_usd
    ELSE coalesce(actual_cost_usd, 0) + :actual_cost_usd END,
  cost_status = coalesce(:cost_status, cost_status),
  cost_source = coalesce(:cost_source, cost_source),
  pricing_version = coalesce(:pricing_version, pricing_version),
  billing_provider = coalesce(billing_provider, :billing_provider),
  billing_base_url = coalesce(billing_base_url, :billing_base_url),
  billing_mode = coalesce(billing_mode, :billing_mode),
  model = coalesce(model, :model)
WHERE id = :id;

-- name: set_usage
UPDATE sessions SET
  input_tokens = coalesce(:input_tokens, CAST(0 AS INTEGER)),
  output_tokens = coalesce(:output_tokens, CAST(0 AS INTEGER)),
  cache_read_tokens = coalesce(:cache_read_tokens, CAST(0 AS INTEGER)),
  cache_write_tokens = coalesce(:cache_write_tokens, CAST(0 AS INTEGER)),
  reasoning_tokens = coalesce(:reasoning_tokens, CAST(0 AS INTEGER)),
  estimated_cost_usd = coalesce(:estimated_cost_usd, CAST(0 AS REAL)),
  actual_cost_usd = coalesce(:actual_cost_usd, actual_cost_usd),
  cost_status = coalesce(:cost_status, cost_status),
  cost_source = coalesce(:cost_source, cost_source),
  pricing_version = coalesce(:pricing_version, pricing_version),
  billing_provider = coalesce(billing_provider, :billing_provider),
  billing_base_url = coalesce(billing_base_url, :billing_base_url),
  billing_mode = coalesce(billing_mode, :billing_mode),
  model = coalesce(model, :model)
WHERE id = :id;

-- name: note_usage
INSERT INTO tk_usage(
  session_id, day, model, source, input_tokens, output_tokens, cache_read_tokens,
  cache_write_tokens, reasoning_tokens, estimated_cost_usd, actual_cost_usd)
VALUES (
  :session_id, :day, :model, :source, CAST(:input_tokens AS INTEGER), CAST(:output_tokens AS INTEGER),
  CAST(:cache_read_tokens AS INTEGER), CAST(:cache_write_tokens AS INTEGER),
  CAST(:reasoning_tokens AS INTEGER), CAST(:estimated_cost_usd AS REAL), CAST(:actual_cost_usd AS REAL))
ON CONFLICT(session_id, day, model) DO UPDATE SET
  input_tokens = tk_usage.input_tokens + excluded.input_tokens,
  output_tokens = tk_usage.output_tokens + excluded.output_tokens,
  cache_read_tokens = tk_usage.cache_read_tokens + excluded.cache_read_tokens,
  cache_write_tokens = tk_usage.cache_write_tokens + excluded.cache_write_tokens,
  reasoning_tokens = tk_usage.reasoning_tokens + excluded.reasoning_tokens,
  estimated_cost_usd = tk_usage.estimated_cost_usd + excluded.estimated_cost_usd,
  actual_cost_usd = tk_usage.actual_cost_usd + excluded.actual_cost_usd;

-- name: has_usage
SELECT 1 FROM tk_usage WHERE session_id = :id LIMIT 1;

-- name: seed_noted_usage
-- Models that we noted beside the session's own: they come first, what is left is the session's.
INSERT INTO session_model_usage(
  session_id, model, billing_provider, billing_base_url, billing_mode, input_tokens, output_tokens,
  cache_read_tokens, cache_write_tokens, reasoning_tokens, estimated_cost_usd, actual_cost_usd,
  first_seen, last_seen)
SELECT s.id, u.model, coalesce(s.billing_provider, ''), coalesce(s.billing_base_url, ''),
  coalesce(s.billing_mode, ''), sum(u.input_tokens), sum(u.output_tokens),
  sum(u.cache_read_tokens), sum(u.cache_write_tokens), sum(u.reasoning_tokens),
  sum(u.estimated_cost_usd), sum(u.actual_cost_usd), s.started_at,
  coalesce(s.ended_at, s.started_at)
FROM tk_usage u JOIN sessions s ON s.id = u.session_id
WHERE u.model <> '' AND u.model IS DISTINCT FROM s.model
GROUP BY s.id, u.model, s.billing_provider, s.billing_base_url, s.billing_mode, s.started_at, s.ended_at
ON CONFLICT DO NOTHING;

-- name: seed_model_usage
-- One row for each session with tokens, as Hermes makes it; what other models have is not in it.
INSERT INTO session_model_usage(
  session_id, model, billing_provider, billing_base_url, billing_mode, input_tokens, output_tokens,
  cache_read_tokens, cache_write_tokens, reasoning_tokens, estimated_cost_usd, actual_cost_usd,
  cost_status, cost_source, first_seen, last_seen)
SELECT s.id, coalesce(s.model, 'unknown'), coalesce(s.billing_provider, ''),
  coalesce(s.billing_base_url, ''), coalesce(s.billing_mode, ''),
  max(coalesce(s.input_tokens, 0) - coalesce(sum(u.input_tokens), 0), 0),
  max(coalesce(s.output_tokens, 0) - coalesce(sum(u.output_tokens), 0), 0),
  max(coalesce(s.cache_read_tokens, 0) - coalesce(sum(u.cache_read_tokens), 0), 0),
  max(coalesce(s.cache_write_tokens, 0) - coalesce(sum(u.cache_write_tokens), 0), 0),
  max(coalesce(s.reasoning_tokens, 0) - coalesce(sum(u.reasoning_tokens), 0), 0),
  max(coalesce(s.estimated_cost_usd, 0) - coalesce(sum(u.estimated_cost_usd), 0), 0),
  max(coalesce(s.actual_cost_usd, 0) - coalesce(sum(u.actual_cost_usd), 0), 0),
  s.cost_status, s.cost_source, s.started_at, coalesce(s.ended_at, s.started_at)
FROM sessions s LEFT JOIN session_model_usage u ON u.session_id = s.id
WHERE coalesce(s.input_tokens, 0) + coalesce(s.output_tokens, 0) + coalesce(s.cache_read_tokens, 0)
  + coalesce(s.cache_write_tokens, 0) + coalesce(s.reasoning_tokens, 0) > 0
GROUP BY s.id, s.model, s.billing_provider, s.billing_base_url, s.billing_mode, s.input_tokens,
  s.output_tokens, s.cache_read_tokens, s.cache_write_tokens, s.reasoning_tokens,
  s.estimated_cost_usd, s.actual_cost_usd, s.cost_status, s.cost_source, s.started_at, s.ended_at
ON CONFLICT DO NOTHING;

-- name: drop_model_usage
DELETE FROM session_model_usage WHERE session_id = :id;

-- name: usage_of_session
SELECT * FROM full.session_model_usage WHERE session_id = :id;

-- name: noted_usage
SELECT session_id, day, model, source, input_tokens, output_tokens, cache_read_tokens,
  cache_write_tokens, reasoning_tokens, estimated_cost_usd, actual_cost_usd FROM tk_usage;

-- name: model_usage
SELECT u.session_id, date(min(coalesce(u.first_seen, s.started_at)), 'unixepoch', 'localtime'),
  u.model, max(s.source), u.task, sum(u.input_tokens), sum(u.output_tokens), sum(u.cache_read_tokens),
  sum(u.cache_write_tokens), sum(u.reasoning_tokens), sum(u.estimated_cost_usd),
  sum(u.actual_cost_usd)
FROM full.session_model_usage u JOIN sessions s ON s.id = u.session_id
GROUP BY u.session_id, u.model, u.task;

-- name: session_usage
SELECT id, date(started_at, 'unixepoch', 'localtime'), model, source,
  coalesce(CAST(input_tokens AS NUMERIC), 0), coalesce(CAST(output_tokens AS NUMERIC), 0),
  coalesce(CAST(cache_read_tokens AS NUMERIC), 0), coalesce(CAST(cache_write_tokens AS NUMERIC), 0),
  coalesce(CAST(reasoning_tokens AS NUMERIC), 0), coalesce(CAST(estimated_cost_usd AS NUMERIC), 0),
  coalesce(CAST(actual_cost_usd AS NUMERIC), 0)
FROM sessions;

-- name: usage_totals
SELECT coalesce(sum(coalesce(s.input_tokens, 0) + coalesce(s.output_tokens, 0)), 0),
  coalesce(sum(coalesce(s.actual_cost_usd, s.estimated_cost_usd, 0)), 0)
FROM full.sessions s
WHERE s.parent_session_id IS NULL AND s.message_count >= :least
  AND (:archived OR coalesce(s.archived, 0) = 0);

-- name: calls_of
SELECT s.api_call_count FROM full.sessions s WHERE s.id = :id;

-- name: route_of
SELECT model, billing_provider, billing_base_url, billing_mode FROM sessions WHERE id = :id;

-- name: fill_model
UPDATE sessions SET model = :model WHERE id = :id AND model IS NULL;

-- name: set_first_route
UPDATE sessions SET model = :model, billing_provider = :billing_provider,
  billing_base_url = :billing_base_url, billing_mode = :billing_mode
WHERE id = :id AND NOT EXISTS (
    SELECT 1 FROM full.sessions s WHERE s.id = :id AND s.api_call_count > 0)
  AND (model IS DISTINCT FROM :model OR billing_provider IS DISTINCT FROM :billing_provider);

-- name: dominant_route
SELECT u.model, u.billing_provider, u.billing_base_url, u.billing_mode, u.api_call_count
FROM full.session_model_usage u
WHERE u.session_id = :id AND u.task = '' AND u.model <> 'unknown' AND u.billing_provider <> ''
ORDER BY u.api_call_count DESC, u.input_tokens + u.output_tokens + u.cache_read_tokens
  + u.cache_write_tokens + u.reasoning_tokens DESC, u.last_seen DESC NULLS LAST
LIMIT 1;

-- ---------------------------------------------------------------- listing

-- name: sessions_after
SELECT session_id FROM messages WHERE {after:messages}
UNION SELECT session_id FROM tk_touched;

-- name: stored_activity
SELECT session_id, last_active FROM tk_activity
WHERE CAST(:at AS REAL) IS NULL OR (last_active, session_id) < (:at, :key)
ORDER BY last_active DESC, session_id DESC LIMIT :limit;

-- name: put_activity
INSERT INTO tk_activity(session_id, last_active) VALUES (:id, :at)
ON CONFLICT(session_id) DO UPDATE SET last_active = excluded.last_active;

-- name: drop_activity
DELETE FROM tk_activity WHERE session_id = :id;

-- name: forget_touched
DELETE FROM tk_touched;

-- name: newest_message_id
SELECT max(id) FROM messages;

-- ---------------------------------------------------------------- transfer

-- name: ids_oldest_first
SELECT id FROM sessions WHERE CAST(:source AS TEXT) IS NULL OR source = :source
ORDER BY started_at, id;

-- name: put_session
INSERT INTO sessions(
  id, source, user_id, model, model_config, system_prompt, parent_session_id, started_at, ended_at,
  end_reason, message_count, tool_call_count, input_tokens, output_tokens, cache_read_tokens,
  cache_write_tokens, reasoning_tokens, billing_provider, billing_base_url, billing_mode,
  estimated_cost_usd, actual_cost_usd, cost_status, cost_source, pricing_version, title)
VALUES (
  :id, :source, :user_id, :model, :model_config, :system_prompt, :parent_session_id, :started_at,
  :ended_at, :end_reason, coalesce(:message_count, CAST(0 AS INTEGER)), coalesce(:tool_call_count, CAST(0 AS INTEGER)),
  coalesce(:input_tokens, CAST(0 AS INTEGER)), coalesce(:output_tokens, CAST(0 AS INTEGER)), coalesce(:cache_read_tokens, CAST(0 AS INTEGER)),
  coalesce(:cache_write_tokens, CAST(0 AS INTEGER)), coalesce(:reasoning_tokens, CAST(0 AS INTEGER)), :billing_provider,
  :billing_base_url, :billing_mode, :estimated_cost_usd, :actual_cost_usd, :cost_status,
  :cost_source, :pricing_version, :title)
ON CONFLICT(id) DO UPDATE SET
  source = excluded.source, user_id = excluded.user_id, model = excluded.model,
  model_config = excluded.model_config, system_prompt = excluded.system_prompt,
  parent_session_id = excluded.parent_session_id, started_at = excluded.started_at,
  ended_at = excluded.ended_at, end_reason = excluded.end_reason,
  message_count = excluded.message_count, tool_call_count = excluded.tool_call_count,
  input_tokens = excluded.input_tokens, output_tokens = excluded.output_tokens,
  cache_read_tokens = excluded.cache_read_tokens, cache_write_tokens = excluded.cache_write_tokens,
  reasoning_tokens = excluded.reasoning_tokens, billing_provider = excluded.billing_provider,
  billing_base_url = excluded.billing_base_url, billing_mode = excluded.billing_mode,
  estimated_cost_usd = excluded.estimated_cost_usd, actual_cost_usd = excluded.actual_cost_usd,
  cost_status = excluded.cost_status, cost_source = excluded.cost_source,
  pricing_version = excluded.pricing_version, title = excluded.title;

-- name: forget_rewinds
DELETE FROM tk_rewound WHERE session_id = :id;

-- name: drop_session_exact
DELETE FROM tk_exact WHERE owner = 'session' AND key = :id;

-- name: drop_relation
DELETE FROM tk_relations WHERE session_id = :id;

-- name: side_of
SELECT f.pinned_at, f.archived_at, CASE WHEN f.titled IS NOT DISTINCT FROM s.title THEN f.title_source END, r.kind
FROM sessions s LEFT JOIN tk_flags f ON f.session_id = s.id
LEFT JOIN tk_relations r ON r.session_id = s.id WHERE s.id = :id;

-- name: put_flags
INSERT INTO tk_flags(session_id, pinned_at, archived_at, title_source, titled)
VALUES (:id, :pinned_at, :archived_at, :title_source, (SELECT title FROM sessions WHERE id = :id))
ON CONFLICT(session_id) DO UPDATE SET pinned_at = excluded.pinned_at,
  archived_at = excluded.archived_at, title_source = excluded.title_source, titled = excluded.titled;

-- name: adopt_parent
UPDATE sessions SET parent_session_id = :parent
WHERE id = :id AND parent_session_id IS NULL
  AND EXISTS (SELECT 1 FROM sessions p WHERE p.id = :parent);

-- name: mark_dirty
INSERT INTO tk_dirty(id) VALUES (:id) ON CONFLICT(id) DO NOTHING;
