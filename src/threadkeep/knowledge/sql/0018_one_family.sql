-- The rows of the family claude_* go to agentic_*, under new numbers. A row that is there already wins.

-- piece: harness
CASE
  WHEN old.source_file LIKE '%/.codex/%' OR old.source_file LIKE '%/CodingAssistant/codex/%' THEN 'codex'
  WHEN old.source_file LIKE '%/.cursor/%' THEN 'cursor'
  ELSE 'claude-code'
END

-- name: copy_sessions
INSERT OR IGNORE INTO agentic_sessions (
  session_id, harness, segment_index, model, agent, project_dir, cwd, git_branch, slug, title, parent_session_id,
  is_subagent, summary_text, tool_calls_json, user_prompts_json, source_file, snapshot_diffs_json,
  commit_messages_json, message_count, token_count, start_time, end_time, content_hash,
  last_enriched_content_hash, created_at, enriched, probe_tag
)
SELECT
  old.session_id, {harness}, old.segment_index, '', '', old.project_dir, old.cwd, old.git_branch, '', '',
  old.parent_session_id, old.is_subagent, old.summary_text, old.tool_calls_json, old.user_prompts_json,
  old.source_file, 'null', '[]', old.message_count, COALESCE(old.token_count, 0), old.start_time, old.end_time,
  old.content_hash, old.last_enriched_content_hash, old.created_at, old.enriched, old.probe_tag
FROM claude_sessions AS old
ORDER BY old.id;

-- name: copy_links
INSERT OR IGNORE INTO knowledge_node_agentic_sessions (knowledge_node_id, agentic_session_id)
SELECT link.knowledge_node_id, new.id
FROM knowledge_node_claude_sessions AS link
JOIN knowledge_nodes AS node ON node.id = link.knowledge_node_id
JOIN claude_sessions AS old ON old.id = link.claude_session_id
JOIN agentic_sessions AS new
  ON new.session_id = old.session_id AND new.segment_index = old.segment_index AND new.harness = {harness}
ORDER BY link.rowid;

-- What is done stays done: a second enrichment would make a second node.
-- name: copy_queue
INSERT OR IGNORE INTO agentic_enrichment_queue (
  session_id, status, priority, retry_count, max_retries, error_message, enqueued_at, updated_at
)
SELECT
  new.id, CASE ticket.status WHEN 'processing' THEN 'pending' ELSE ticket.status END, ticket.priority,
  ticket.retry_count, ticket.max_retries, ticket.error_message, ticket.created_at, ticket.updated_at
FROM claude_enrichment_queue AS ticket
JOIN claude_sessions AS old ON old.id = ticket.claude_session_id
JOIN agentic_sessions AS new
  ON new.session_id = old.session_id AND new.segment_index = old.segment_index AND new.harness = {harness}
WHERE ticket.status IN ('pending', 'processing', 'failed') AND new.enriched = 0
ORDER BY ticket.id;
