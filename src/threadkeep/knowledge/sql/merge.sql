-- What a merge does beside putting rows in; see merging.py.

-- name: size_of_slice
SELECT end_time, message_count FROM agentic_sessions WHERE id = :id

-- A slice that has grown over there, of a conversation whose log is not captured here: that one knows better.
-- name: take_over_growth
UPDATE agentic_sessions SET end_time = :end_time, message_count = :message_count, token_count = :token_count, summary_text = :summary_text,
  tool_calls_json = :tool_calls_json, user_prompts_json = :user_prompts_json, commit_messages_json = :commit_messages_json,
  snapshot_diffs_json = :snapshot_diffs_json, title = :title, model = :model, agent = :agent, cwd = :cwd, content_hash = :content_hash
WHERE id = :id AND content_hash IS DISTINCT FROM :content_hash
  AND NOT EXISTS (SELECT 1 FROM tk_logs AS l
    WHERE l.harness = :harness AND l.session_id = :session_id AND l.reader <> 'hippo-notes')

-- name: take_over_learning
-- A node tells of this very text already, or at least of an older one where ours was never learned from.
UPDATE agentic_sessions SET
  last_enriched_content_hash = coalesce(:learned, last_enriched_content_hash),
  enriched = max(enriched, :enriched)
WHERE id = :id AND content_hash = :hash AND last_enriched_content_hash IS DISTINCT FROM content_hash
  AND (coalesce(:learned, last_enriched_content_hash) IS DISTINCT FROM last_enriched_content_hash OR enriched < :enriched)

-- name: raise_health
-- Errors and probes are told with their words and numbers: those stay as they are here.
UPDATE source_health SET
  last_event_ts = nullif(max(coalesce(last_event_ts, -1), coalesce(CAST(:event AS INTEGER), -1)), -1),
  last_success_ts = nullif(max(coalesce(last_success_ts, -1), coalesce(CAST(:success AS INTEGER), -1)), -1),
  last_heartbeat_ts = nullif(max(coalesce(last_heartbeat_ts, -1), coalesce(CAST(:heartbeat AS INTEGER), -1)), -1)
WHERE source = :source AND (
  coalesce(CAST(:event AS INTEGER), -1) > coalesce(last_event_ts, -1) OR coalesce(CAST(:success AS INTEGER), -1) > coalesce(last_success_ts, -1)
  OR coalesce(CAST(:heartbeat AS INTEGER), -1) > coalesce(last_heartbeat_ts, -1)
)

-- name: take_over_revision
-- A body goes when another revision follows, and what changed is told then; what a model said comes later, too.
UPDATE memory_revisions SET
  redacted_content = CASE WHEN CAST(:redacted_content AS TEXT) IS NULL THEN NULL ELSE redacted_content END,
  summary = coalesce(:summary, summary), diff_text = coalesce(:diff_text, diff_text),
  enrichment_model = coalesce(:enrichment_model, enrichment_model), enriched_at = :enriched_at
WHERE id = :id AND (coalesce(CAST(:enriched_at AS INTEGER), 0) > coalesce(enriched_at, 0) OR (CAST(:redacted_content AS TEXT) IS NULL AND redacted_content IS NOT NULL))

-- name: take_over_link
UPDATE memory_document_links SET target_document_id = :target_document_id, resolution = :resolution, anchor_text = :anchor_text,
  updated_at = :updated_at
WHERE id = :id AND updated_at < :updated_at

-- ------------------------------------------------------------------ memory: one node for each document

-- name: memories
SELECT * FROM memory_documents ORDER BY id

-- name: memory_here
SELECT updated_at, uuid, active_revision_id FROM memory_documents WHERE id = :id

-- name: nodes_of_memory
SELECT l.knowledge_node_id, c.revision_id, c.id
FROM memory_revisions AS r JOIN memory_chunks AS c ON c.revision_id = r.id
JOIN knowledge_node_memory_chunks AS l ON l.memory_chunk_id = c.id
WHERE r.document_id = :id ORDER BY l.knowledge_node_id, c.id

-- name: one_node
SELECT * FROM knowledge_nodes WHERE id = :id

-- The path goes with it if it was renamed there, unless another document has that path here.
-- name: take_over_memory
UPDATE memory_documents SET repository = :repository, logical_path = :logical_path, source_path = :source_path,
  state = :state, projection_status = :projection_status, last_error = :last_error, observed_at = :observed_at,
  tombstoned_at = :tombstoned_at, updated_at = :updated_at, current_revision_id = :current, active_revision_id = :active
WHERE id = :id AND NOT EXISTS (SELECT 1 FROM memory_documents AS o WHERE o.id != :id
  AND o.source_kind = memory_documents.source_kind AND o.repository = :repository AND o.logical_path = :logical_path)

-- What the model said last takes the place of what it said before.
-- name: drop_old_categories
DELETE FROM memory_document_categories WHERE document_id = :id AND source = 'model' AND updated_at < (
  SELECT max(updated_at) FROM memory_document_categories WHERE document_id = :id AND source = 'model')

-- name: finish_ticket
UPDATE memory_enrichment_queue SET status = 'done', error_message = NULL, locked_at = NULL, locked_by = NULL, updated_at = :now
WHERE revision_id = :revision AND status IN ('pending', 'processing', 'failed')

-- name: link_memory
INSERT INTO knowledge_node_memory_chunks (knowledge_node_id, memory_chunk_id) VALUES (:node, :chunk) ON CONFLICT DO NOTHING

-- name: harnesses
SELECT DISTINCT harness FROM agentic_sessions

-- name: forgotten
SELECT harness, session_id FROM tk_forgotten
