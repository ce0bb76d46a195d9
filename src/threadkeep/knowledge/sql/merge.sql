-- What a merge does beside putting rows in; see merging.py.

-- name: size_of_slice
SELECT end_time, message_count FROM agentic_sessions WHERE id = :id

-- A slice that has grown over there, of a conversation whose log is not captured here: that one knows better.
-- name: take_over_growth
UPDATE agentic_sessions SET end_time = :end_time, message_count = :message_count, token_count = :token_count, summary_text = :summary_text,
  tool_calls_json = :tool_calls_json, user_prompts_json = :user_prompts_json, commit_messages_json = :commit_messages_json,
  snapshot_diffs_json = :snapshot_diffs_json, title = :title, model = :model, agent = :agent, cwd = :cwd, content_hash = :content_hash
WHERE id = :id AND content_hash IS NOT :content_hash
  AND NOT EXISTS (SELECT 1 FROM tk_logs AS l
    WHERE l.harness = :harness AND l.session_id = :session_id AND l.reader <> 'hippo-notes')

-- name: take_over_learning
-- A node tells of this very text already, or at least of an older one where ours was never learned from.
UPDATE agentic_sessions SET
  last_enriched_content_hash = coalesce(:learned, last_enriched_content_hash),
  enriched = max(enriched, :enriched)
WHERE id = :id AND content_hash = :hash AND last_enriched_content_hash IS NOT content_hash
  AND (coalesce(:learned, last_enriched_content_hash) IS NOT last_enriched_content_hash OR enriched < :enriched)

-- name: raise_health
-- Errors and probes are told with their words and numbers: those stay as they are here.
UPDATE source_health SET
  last_event_ts = nullif(max(coalesce(last_event_ts, -1), coalesce(:event, -1)), -1),
  last_success_ts = nullif(max(coalesce(last_success_ts, -1), coalesce(:success, -1)), -1),
  last_heartbeat_ts = nullif(max(coalesce(last_heartbeat_ts, -1), coalesce(:heartbeat, -1)), -1)
WHERE source = :source AND (
  coalesce(:event, -1) > coalesce(last_event_ts, -1) OR coalesce(:success, -1) > coalesce(last_success_ts, -1)
  OR coalesce(:heartbeat, -1) > coalesce(last_heartbeat_ts, -1)
)

-- name: harnesses
SELECT DISTINCT harness FROM agentic_sessions

-- name: forgotten
SELECT harness, session_id FROM tk_forgotten

-- name: segments_of_conversation
SELECT id FROM agentic_sessions WHERE session_id = :session_id AND harness = :harness

-- name: legacys_of_conversation
-- There was no harness yet.
SELECT id FROM claude_sessions WHERE session_id = :session_id

-- name: events_of_conversation
SELECT id FROM events WHERE session_id IN (SELECT id FROM sessions WHERE terminal = :session_id)
