-- Named queries about messengers: which conversation owns a session, hand-overs, and values by key.

-- piece: active_at
coalesce((SELECT max(a.at) FROM (
    SELECT s.last_activity_at AS at
    UNION ALL SELECT (SELECT max(m.timestamp) FROM messages m WHERE m.session_id = s.id)) a),
  s.started_at)

-- piece: plain_child
-- Neither branch nor delegate nor a tool's own run; settings that are no JSON say nothing.
CASE WHEN json_valid(s.model_config) THEN
    json_extract({json:s.model_config}, '$._branched_from') IS NULL
    AND json_extract({json:s.model_config}, '$._delegate_from') IS NULL
  ELSE true END AND coalesce(s.source, '') <> 'tool'

-- piece: goes_on
-- Ended by nobody's wish: an agent or a viewer that went away.
(s.ended_at IS NULL OR s.end_reason IN ('agent_close', 'ws_orphan_reap'))

-- piece: has_messages
(coalesce(s.message_count, 0) > 0 OR EXISTS (SELECT 1 FROM messages m WHERE m.session_id = s.id))

-- ---------------------------------------------------------------- values by key

-- name: state_value
SELECT value FROM full.state_meta WHERE key = :key;

-- name: put_state_value
INSERT INTO state_meta(key, value) VALUES (:key, :value)
ON CONFLICT(key) DO UPDATE SET value = excluded.value;

-- name: drop_state_value
DELETE FROM state_meta WHERE key = :key;

-- name: state_values
SELECT key, value FROM full.state_meta WHERE key LIKE :pattern ESCAPE '\';

-- ---------------------------------------------------------------- hand-over

-- name: request_handoff
UPDATE sessions SET handoff_state = 'pending', handoff_platform = :platform, handoff_error = NULL
WHERE id = :id AND (handoff_state IS NULL OR handoff_state IN ('completed', 'failed'));

-- name: claim_handoff
UPDATE sessions SET handoff_state = 'running' WHERE id = :id AND handoff_state = 'pending';

-- name: complete_handoff
UPDATE sessions SET handoff_state = 'completed', handoff_error = NULL WHERE id = :id;

-- name: fail_handoff
UPDATE sessions SET handoff_state = 'failed', handoff_error = :error WHERE id = :id;

-- name: handoff_of
SELECT s.handoff_state AS state, s.handoff_platform AS platform, s.handoff_error AS error
FROM full.sessions s WHERE s.id = :id;

-- name: pending_handoffs
SELECT s.* FROM full.sessions s WHERE s.handoff_state = 'pending' ORDER BY s.started_at;

-- ---------------------------------------------------------------- which conversation owns it

-- name: with_compressed_ancestors
WITH RECURSIVE chain(id) AS (
  SELECT id FROM sessions WHERE id = :id
  UNION
  SELECT p.id FROM chain JOIN sessions s ON s.id = chain.id
  JOIN sessions p ON p.id = s.parent_session_id
  WHERE p.end_reason = 'compression' AND {plain_child}
)
SELECT c.id FROM chain c JOIN sessions x ON x.id = c.id;

-- name: set_finalized
UPDATE sessions SET expiry_finalized = :finalized WHERE id = :id;

-- name: gateway_sessions
-- Of each conversation the newest session only.
SELECT s.*, {active_at} AS last_active
FROM full.sessions s
WHERE s.session_key IS NOT NULL
  AND s.started_at = (
    SELECT max(o.started_at) FROM full.sessions o WHERE o.session_key = s.session_key)
  AND (CAST(:platform AS TEXT) IS NULL OR lower(s.source) = lower(:platform))
  AND (NOT :active_only OR s.ended_at IS NULL)
ORDER BY last_active DESC;

-- name: sessions_of_origin
SELECT s.id, trim(coalesce(s.user_id, '')) FROM full.sessions s
WHERE lower(s.source) = lower(:platform) AND s.session_key IS NOT NULL AND s.chat_id = :chat_id
  AND s.ended_at IS NULL
  AND (CAST(:thread_id AS TEXT) IS NULL OR coalesce(s.thread_id, '') = :thread_id)
ORDER BY s.started_at DESC;

-- name: latest_of_key
-- What the user put behind him with a reset stays behind it.
SELECT s.*, {has_messages} AS _has_messages
FROM full.sessions s
WHERE s.session_key = :session_key AND s.source = :source AND {goes_on}
  AND NOT EXISTS (
    SELECT 1 FROM full.sessions b
    WHERE b.session_key = s.session_key AND b.source = s.source AND b.ended_at IS NOT NULL
      AND b.end_reason IN ({texts:resets})
      AND b.ended_at > coalesce(s.last_activity_at, s.started_at))
ORDER BY _has_messages DESC, coalesce(s.last_activity_at, s.started_at) DESC
LIMIT 1;

-- name: latest_of_peer
SELECT s.*, {has_messages} AS _has_messages
FROM full.sessions s
WHERE s.source = :source AND coalesce(s.user_id, '') = coalesce(:user_id, '')
  AND coalesce(s.chat_id, '') = :chat_id AND coalesce(s.chat_type, '') = :chat_type
  AND coalesce(s.thread_id, '') = coalesce(:thread_id, '')
  AND {goes_on} AND {has_messages}
  AND NOT EXISTS (
    SELECT 1 FROM full.sessions b
    WHERE b.source = s.source AND coalesce(b.user_id, '') = coalesce(s.user_id, '')
      AND coalesce(b.chat_id, '') = coalesce(s.chat_id, '')
      AND coalesce(b.chat_type, '') = coalesce(s.chat_type, '')
      AND coalesce(b.thread_id, '') = coalesce(s.thread_id, '')
      AND b.ended_at IS NOT NULL AND b.end_reason IN ({texts:resets})
      AND b.ended_at > coalesce(s.last_activity_at, s.started_at))
ORDER BY coalesce(s.last_activity_at, s.started_at) DESC
LIMIT 1;

-- ---------------------------------------------------------------- sessions that lost their key

-- name: unkeyed_sessions
SELECT s.id, s.source, s.user_id, s.started_at, s.parent_session_id, {active_at} AS last_active,
  (SELECT count(*) FROM messages m WHERE m.session_id = s.id) AS message_count
FROM full.sessions s
WHERE s.session_key IS NULL AND EXISTS (SELECT 1 FROM messages m WHERE m.session_id = s.id)
  AND {plain_child}
ORDER BY s.started_at;

-- name: keyed_parent
SELECT s.id, s.session_key FROM full.sessions s
WHERE s.id = :id AND s.session_key IS NOT NULL AND coalesce(s.source, '') = coalesce(:source, '');

-- name: keyed_before
SELECT k.id, k.session_key, k.last_active FROM (
  SELECT s.id, s.session_key, {active_at} AS last_active FROM full.sessions s
  WHERE s.session_key IS NOT NULL AND s.id <> :id AND coalesce(s.source, '') = coalesce(:source, '')
    AND (coalesce(s.user_id, '') = '' OR coalesce(:user_id, '') = '' OR s.user_id = :user_id)) k
WHERE k.last_active BETWEEN :first AND :last AND k.last_active < :before
ORDER BY k.last_active DESC LIMIT 2;

-- name: adopt_key
UPDATE sessions AS o SET
  session_key = d.session_key, chat_id = coalesce(o.chat_id, d.chat_id),
  chat_type = coalesce(o.chat_type, d.chat_type), thread_id = coalesce(o.thread_id, d.thread_id),
  user_id = coalesce(o.user_id, d.user_id), origin_json = coalesce(o.origin_json, d.origin_json),
  display_name = coalesce(o.display_name, d.display_name),
  parent_session_id = coalesce(o.parent_session_id, d.id)
FROM sessions d
WHERE o.id = :id AND d.id = :donor AND o.session_key IS NULL AND coalesce(d.session_key, '') <> ''
  AND coalesce(o.source, '') = coalesce(d.source, '');

-- name: retire_donor
-- For a reason that `latest_of_key` does not pass over, or the chat would go back to it.
UPDATE sessions SET ended_at = coalesce(ended_at, :now), end_reason = 'superseded_by_repair'
WHERE id = :id;

-- ---------------------------------------------------------------- routing

-- name: put_routing
INSERT INTO gateway_routing(scope, session_key, entry_json, updated_at)
VALUES (:scope, :key, :entry, :now)
ON CONFLICT(scope, session_key) DO UPDATE SET
  entry_json = excluded.entry_json, updated_at = excluded.updated_at;

-- name: routing_of_scope
SELECT session_key, entry_json FROM full.gateway_routing WHERE scope = :scope;

-- name: all_routing
SELECT scope, session_key, entry_json FROM full.gateway_routing;

-- name: drop_routing
DELETE FROM gateway_routing WHERE scope = :scope AND session_key = :key;

-- name: empty_scope
DELETE FROM gateway_routing WHERE scope = :scope;

-- ---------------------------------------------------------------- Telegram

-- name: indexes_of
SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL AND tbl_name = :table;

-- name: put_topic_mode
INSERT INTO telegram_dm_topic_mode(
  chat_id, user_id, enabled, activated_at, updated_at, has_topics_enabled,
  allows_users_to_create_topics, capability_checked_at)
VALUES (:chat_id, :user_id, 1, :now, :now, :has_topics, :may_create, :now)
ON CONFLICT(chat_id) DO UPDATE SET
  user_id = excluded.user_id, enabled = 1, updated_at = excluded.updated_at,
  has_topics_enabled = excluded.has_topics_enabled,
  allows_users_to_create_topics = excluded.allows_users_to_create_topics,
  capability_checked_at = excluded.capability_checked_at;

-- name: end_topic_mode
UPDATE telegram_dm_topic_mode SET enabled = 0, updated_at = :now WHERE chat_id = :chat_id;

-- name: topic_mode
SELECT enabled FROM full.telegram_dm_topic_mode WHERE chat_id = :chat_id AND user_id = :user_id;

-- name: put_topic
INSERT INTO telegram_dm_topic_bindings(
  chat_id, thread_id, user_id, session_key, session_id, managed_mode, linked_at, updated_at)
VALUES (:chat_id, :thread_id, :user_id, :session_key, :session_id, :managed_mode, :now, :now)
ON CONFLICT(chat_id, thread_id) DO UPDATE SET
  user_id = excluded.user_id, session_key = excluded.session_key,
  session_id = excluded.session_id, managed_mode = excluded.managed_mode,
  updated_at = excluded.updated_at;

-- name: topic
SELECT * FROM full.telegram_dm_topic_bindings WHERE chat_id = :chat_id AND thread_id = :thread_id;

-- name: topics_of_chat
SELECT * FROM full.telegram_dm_topic_bindings WHERE chat_id = :chat_id ORDER BY updated_at DESC;

-- name: topic_of_session
SELECT * FROM full.telegram_dm_topic_bindings WHERE session_id = :session_id;

-- name: drop_topic
DELETE FROM telegram_dm_topic_bindings WHERE chat_id = :chat_id AND thread_id = :thread_id;

-- name: drop_topics
DELETE FROM telegram_dm_topic_bindings WHERE chat_id = :chat_id;

-- name: telegram_without_topic
SELECT s.*, {active_at} AS last_active FROM full.sessions s
WHERE s.source = 'telegram' AND s.user_id = :user_id
  AND NOT EXISTS (SELECT 1 FROM full.telegram_dm_topic_bindings b WHERE b.session_id = s.id)
ORDER BY last_active DESC, s.started_at DESC LIMIT :limit;
