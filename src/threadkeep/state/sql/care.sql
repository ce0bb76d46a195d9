-- Named queries of what is deleted, archived, kept.

-- piece: no_message
NOT EXISTS (SELECT 1 FROM messages m WHERE m.session_id = s.id)

-- piece: active_at
coalesce((SELECT max(a.at) FROM (
    SELECT s.last_activity_at AS at
    UNION ALL SELECT (SELECT max(m.timestamp) FROM messages m WHERE m.session_id = s.id)) a),
  s.started_at)

-- name: empty_session
SELECT s.id FROM sessions s
WHERE s.id = :id AND s.title IS NULL AND {no_message}
  AND NOT EXISTS (SELECT 1 FROM sessions c WHERE c.parent_session_id = s.id);

-- name: empty_sessions
SELECT s.id FROM full.sessions s
WHERE s.message_count = 0 AND s.ended_at IS NOT NULL AND s.archived = 0;

-- name: ghost_sessions
SELECT s.id FROM sessions s
WHERE s.source = 'tui' AND s.title IS NULL AND s.ended_at IS NOT NULL AND s.started_at < :cutoff
  AND {no_message};

-- name: never_active
-- Pinned and archived ones were kept on purpose.
SELECT s.id, s.session_key, s.source, s.chat_id, s.chat_type, s.user_id, s.started_at
FROM full.sessions s
WHERE s.session_key IS NOT NULL AND s.ended_at IS NULL AND s.title IS NULL
  AND s.last_activity_at IS NULL AND s.started_at < :cutoff
  AND coalesce(s.message_count, 0) = 0 AND coalesce(s.tool_call_count, 0) = 0
  AND coalesce(s.api_call_count, 0) = 0 AND coalesce(s.input_tokens, 0) = 0
  AND coalesce(s.output_tokens, 0) = 0 AND coalesce(s.pinned, 0) = 0
  AND coalesce(s.archived, 0) = 0 AND {no_message}
ORDER BY s.started_at;

-- ---------------------------------------------------------------- selected by filters

-- name: selected_sessions
-- All sessions lie between '' and what sorts behind every text. For one, both are its id.
-- :state 0 takes those that ended, 1 also those that were abandoned after a message, 2 all, 3 the open ones: one that
-- never had a message may have begun a moment ago.
SELECT f.id, f.source, f.title, f.model, f.started_at, f.last_active, f.ended_at, f.message_count,
  f.archived, f.end_reason, f.input_tokens, f.output_tokens, f.tool_call_count,
  f.estimated_cost_usd, f.actual_cost_usd, f.billing_provider, f.git_branch, f.cwd, f.pinned
FROM (
  SELECT s.*, {active_at} AS last_active FROM full.sessions s
  WHERE s.id BETWEEN :first AND coalesce(:last, {behind})
    AND CASE CAST(:state AS INTEGER) WHEN 0 THEN s.ended_at IS NOT NULL WHEN 3 THEN s.ended_at IS NULL
      WHEN 1 THEN s.ended_at IS NOT NULL OR NOT {no_message} ELSE true END
    AND (CAST(:source AS TEXT) IS NULL OR s.source = :source)
    AND (CAST(:started_before AS REAL) IS NULL OR s.started_at < :started_before)
    AND (CAST(:started_after AS REAL) IS NULL OR s.started_at >= :started_after)
    AND (CAST(:title_like AS TEXT) IS NULL
         OR lower(coalesce(s.title, '')) LIKE :title_like ESCAPE '\')
    AND (CAST(:model_like AS TEXT) IS NULL
         OR lower(coalesce(s.model, '')) LIKE :model_like ESCAPE '\')
    AND (CAST(:branch_like AS TEXT) IS NULL
         OR lower(coalesce(s.git_branch, '')) LIKE :branch_like ESCAPE '\')
    AND (CAST(:end_reason AS TEXT) IS NULL OR s.end_reason = :end_reason)
    AND (CAST(:cwd_prefix AS TEXT) IS NULL OR s.cwd = :cwd_prefix
         OR s.cwd LIKE :below ESCAPE '\' OR s.cwd LIKE :below_windows ESCAPE '\')
    AND (CAST(:min_messages AS INTEGER) IS NULL OR s.message_count >= :min_messages)
    AND (CAST(:max_messages AS INTEGER) IS NULL OR s.message_count <= :max_messages)
    AND (CAST(:archived AS INTEGER) IS NULL OR s.archived = :archived)
    AND (CAST(:provider AS TEXT) IS NULL OR lower(coalesce(s.billing_provider, '')) = :provider)
    AND (CAST(:user_id AS TEXT) IS NULL OR s.user_id = :user_id)
    AND (CAST(:chat_id AS TEXT) IS NULL OR s.chat_id = :chat_id)
    AND (CAST(:chat_type AS TEXT) IS NULL OR s.chat_type = :chat_type)
    AND (CAST(:min_tokens AS INTEGER) IS NULL
         OR coalesce(s.input_tokens, 0) + coalesce(s.output_tokens, 0) >= :min_tokens)
    AND (CAST(:max_tokens AS INTEGER) IS NULL
         OR coalesce(s.input_tokens, 0) + coalesce(s.output_tokens, 0) <= :max_tokens)
    AND (CAST(:min_cost AS REAL) IS NULL
         OR coalesce(s.actual_cost_usd, s.estimated_cost_usd, 0) >= :min_cost)
    AND (CAST(:max_cost AS REAL) IS NULL
         OR coalesce(s.actual_cost_usd, s.estimated_cost_usd, 0) <= :max_cost)
    AND (CAST(:min_tool_calls AS INTEGER) IS NULL
         OR coalesce(s.tool_call_count, 0) >= :min_tool_calls)
    AND (CAST(:max_tool_calls AS INTEGER) IS NULL
         OR coalesce(s.tool_call_count, 0) <= :max_tool_calls)
) AS f
WHERE (CAST(:last_active_before AS REAL) IS NULL OR f.last_active < :last_active_before)
  AND (CAST(:last_active_after AS REAL) IS NULL OR f.last_active >= :last_active_after)
ORDER BY f.last_active, f.started_at, f.id;

-- name: pinned_sessions
SELECT s.id FROM full.sessions s WHERE s.pinned <> 0;

-- name: is_pinned
SELECT 1 FROM full.sessions s WHERE s.id = :id AND s.pinned <> 0;

-- name: stale_sessions
-- A chain of compressions is as old as its last session, which stands for it.
SELECT s.id FROM full.sessions s
WHERE s.archived = 0 AND coalesce(s.end_reason, '') <> 'compression' AND {active_at} < :cutoff
ORDER BY s.started_at;

-- name: stranded_continuations
UPDATE sessions SET ended_at = :now, end_reason = 'orphaned_compression'
WHERE ended_at IS NULL AND end_reason IS NULL AND started_at < :cutoff
  AND coalesce((SELECT f.api_call_count FROM full.sessions f WHERE f.id = sessions.id), 0) = 0
  AND EXISTS (SELECT 1 FROM sessions p WHERE p.id = sessions.parent_session_id
    AND p.end_reason = 'compression' AND p.ended_at IS NOT NULL)
  AND EXISTS (SELECT 1 FROM messages m WHERE m.session_id = sessions.id);

-- name: sessions_to_retag
SELECT f.id FROM full.sessions f
WHERE f.source = 'cli' AND (f.cwd = :folder OR f.cwd LIKE :below ESCAPE '\');

-- name: retag_sessions
UPDATE sessions SET source = 'kanban'
WHERE id IN (SELECT f.id FROM full.sessions f
  WHERE f.source = 'cli' AND (f.cwd = :folder OR f.cwd LIKE :below ESCAPE '\'));
