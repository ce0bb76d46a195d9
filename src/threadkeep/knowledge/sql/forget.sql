-- The named queries that take things out of the knowledge store, and tidy up behind them.

-- ------------------------------------------------------------------ evidence and nodes

-- What a shell did is told with the pages that were looked at meanwhile, and five minutes before and after, without a
-- link to them. A command that ran for more than six hours is not thought of.
-- name: nodes_beside_visit
SELECT l.knowledge_node_id FROM browser_events AS v
JOIN events AS e ON e.timestamp BETWEEN v.timestamp - 21600000 AND v.timestamp + 21600000 AND e.source_kind = 'shell'
JOIN knowledge_node_events AS l ON l.event_id = e.id
WHERE v.id = :id GROUP BY l.knowledge_node_id
HAVING min(e.timestamp) <= max(v.timestamp) + 300000 AND max(e.timestamp) >= max(v.timestamp) - 300000

-- name: nodes_of_document
SELECT DISTINCT l.knowledge_node_id FROM memory_revisions AS r JOIN memory_chunks AS c ON c.revision_id = r.id
JOIN knowledge_node_memory_chunks AS l ON l.memory_chunk_id = c.id WHERE r.document_id = :id

-- name: nodes_of_revision
SELECT DISTINCT l.knowledge_node_id FROM memory_chunks AS c JOIN knowledge_node_memory_chunks AS l ON l.memory_chunk_id = c.id
WHERE c.revision_id = :id

-- A chunk goes with its revision, and that with all nodes of its other chunks.
-- name: nodes_of_chunk
SELECT DISTINCT l.knowledge_node_id FROM memory_chunks AS c JOIN memory_chunks AS beside ON beside.revision_id = c.revision_id
JOIN knowledge_node_memory_chunks AS l ON l.memory_chunk_id = beside.id WHERE c.id = :id

-- name: revision_of_node
SELECT DISTINCT c.revision_id FROM knowledge_node_memory_chunks AS l JOIN memory_chunks AS c ON c.id = l.memory_chunk_id
WHERE l.knowledge_node_id = :id

-- name: vectors_table
SELECT sql FROM sqlite_master WHERE type = 'table' AND name = 'knowledge_vectors'

-- name: has_module
SELECT 1 FROM pragma_module_list WHERE name = :name

-- name: drop_vector
DELETE FROM knowledge_vectors WHERE knowledge_node_id = :id

-- name: entities_of_event
SELECT entity_id FROM event_entities WHERE event_id = :id

-- name: entity_is_linked
SELECT 1 WHERE EXISTS (SELECT 1 FROM knowledge_node_entities WHERE entity_id = :id)
  OR EXISTS (SELECT 1 FROM event_entities WHERE entity_id = :id)

-- name: unlink_entity_from_nodes
DELETE FROM knowledge_node_entities WHERE entity_id = :id

-- name: unlink_entity_from_events
DELETE FROM event_entities WHERE entity_id = :id

-- name: drop_relationships
DELETE FROM relationships WHERE from_entity_id = :id OR to_entity_id = :id

-- ------------------------------------------------------------------ rows by their number

-- name: drop_event_entities
DELETE FROM event_entities WHERE event_id = :id

-- A run that another program stored has no row of ours yet; it must not come back either.
-- name: remember_forgotten_run
INSERT INTO tk_ci_runs (run_id, attempt, detailed) VALUES (:id, 1, 1) ON CONFLICT DO NOTHING

-- name: leave_snapshot
UPDATE events SET env_snapshot_id = NULL WHERE env_snapshot_id = :id

-- name: drop_bare_document
DELETE FROM memory_documents WHERE id = :id AND NOT EXISTS (SELECT 1 FROM memory_revisions WHERE document_id = :id)

-- name: unproject_document
UPDATE memory_documents SET projection_status = 'stale' WHERE id = :id AND active_revision_id IS NULL AND projection_status = 'ready'

-- name: document_of_revision
SELECT document_id FROM memory_revisions WHERE id = :id

-- name: revision_of_chunk
SELECT revision_id FROM memory_chunks WHERE id = :id

-- name: said_in_revision
SELECT redacted_content FROM memory_revisions WHERE id = :id AND redacted_content IS NOT NULL
UNION SELECT content FROM memory_chunks WHERE revision_id = :id

-- name: document_to_forget
SELECT uuid, repository, logical_path, updated_at FROM memory_documents WHERE id = :id

-- name: documents_forgotten_as
SELECT id FROM memory_documents WHERE source_kind = :harness AND uuid = :session_id

-- name: revisions_said
SELECT id FROM memory_revisions ORDER BY id

-- name: forgotten_digests
SELECT digest FROM tk_forgotten_lines

-- name: snapshot_of_event
SELECT env_snapshot_id FROM events WHERE id = :id

-- name: drop_unused_snapshot
DELETE FROM env_snapshots WHERE id = :id AND NOT EXISTS (SELECT 1 FROM events WHERE env_snapshot_id = :id)

-- ------------------------------------------------------------------ what belongs to a log

-- name: sessions_of_log
SELECT s.session_id, s.id FROM tk_sessions AS s
WHERE s.id IN (SELECT session FROM tk_entries WHERE log_id = :log) OR (s.harness = :harness AND s.session_id = :session_id)

-- name: log_has_others
SELECT 1 FROM tk_entries WHERE log_id = :log AND session != :session LIMIT 1

-- name: entry_sessions_of_log
SELECT line, session FROM tk_entries WHERE log_id = :log

-- name: delete_log_entries
DELETE FROM tk_entries WHERE log_id = :log

-- name: delete_log_records
DELETE FROM tk_records WHERE log_id = :log

-- name: delete_log_masks
DELETE FROM tk_masks WHERE log_id = :log

-- name: delete_log_unknown
DELETE FROM tk_unknown WHERE log_id = :log

-- name: delete_log
DELETE FROM tk_logs WHERE id = :log

-- name: number_of_segment
SELECT id FROM agentic_sessions WHERE session_id = :session_id AND harness = :harness AND segment_index = :index

-- A segment that grows keeps its start; one that lost its first lines does not.
-- name: move_segment
UPDATE agentic_sessions SET start_time = :start WHERE id = :id AND start_time != :start

-- name: number_of_event
SELECT id FROM events WHERE envelope_id = :envelope

-- name: legacy_by_key
SELECT id FROM claude_sessions WHERE session_id = :session_id AND segment_index = :index

-- name: project_of_log
SELECT project_dir, cwd, parent_session_id, is_subagent FROM agentic_sessions
WHERE harness = :harness AND source_file = :path ORDER BY segment_index LIMIT 1

-- name: tool_events_of_session
SELECT id FROM events
WHERE source_kind = 'claude-tool' AND session_id IN (SELECT id FROM sessions WHERE terminal = :terminal)

-- name: rewrite_tool_event
UPDATE events SET command = :command, stdout = :stdout, stderr = NULL, stdout_truncated = :truncated, exit_code = :exit_code,
  duration_ms = :duration, cwd = :cwd, git_branch = :git_branch, redaction_count = :masked
WHERE id = :id

-- name: renew_event_ticket
INSERT INTO enrichment_queue (event_id, status, max_retries, created_at, updated_at) VALUES (:event, 'pending', 5, :now, :now)
ON CONFLICT (event_id) DO UPDATE SET status = 'pending', retry_count = 0, error_message = NULL, updated_at = excluded.updated_at
WHERE enrichment_queue.status != 'processing'

-- name: unlearn_first_prompt
UPDATE tk_sessions SET first_prompt = '' WHERE id = :session AND first_prompt = substr(:prompt, 1, length(first_prompt))

-- What the log said and does not say any more; what others said stays.
-- name: unlearn_session
UPDATE tk_sessions SET
  title = CASE WHEN title = :title THEN '' ELSE title END,
  agent = CASE WHEN agent = :agent THEN '' ELSE agent END,
  slug = CASE WHEN slug = :slug THEN '' ELSE slug END
WHERE id = :session

-- name: delete_usage
DELETE FROM tk_usage WHERE harness = :harness AND key = :key AND session = :session AND at IS NOT DISTINCT FROM :at

-- ------------------------------------------------------------------ what belongs to a session

-- name: delete_session_usage
DELETE FROM tk_usage WHERE session = :session

-- name: delete_session_entries
DELETE FROM tk_entries WHERE session = :session

-- name: delete_retold
DELETE FROM tk_retold WHERE (harness, session_id) = (SELECT harness, session_id FROM tk_sessions WHERE id = :session)

-- name: own_lines_of_log
SELECT DISTINCT line FROM tk_entries WHERE log_id = :log AND kind != 'copy' AND id NOT IN (SELECT entry FROM tk_lone_copies)

-- name: delete_session
DELETE FROM tk_sessions WHERE id = :session

-- name: segments_of_session
SELECT id FROM agentic_sessions WHERE harness = :harness AND session_id = :session_id

-- name: legacy_of_session
SELECT id FROM claude_sessions WHERE session_id = :session_id

-- name: events_of_conversation
SELECT id FROM events WHERE session_id IN (SELECT id FROM sessions WHERE terminal = :session_id)

-- name: drop_empty_shell_session
DELETE FROM sessions WHERE terminal = :terminal AND NOT EXISTS (SELECT 1 FROM events WHERE session_id = sessions.id)

-- name: drop_offsets
DELETE FROM agentic_session_offsets WHERE session_id = :session_id OR path = :path

-- name: drop_parity
DELETE FROM claude_session_parity WHERE path = :path

-- name: drop_cursors
DELETE FROM agentic_cursor WHERE last_id = :session_id OR source_key = :key

-- name: count_session_entries
SELECT count(*) FROM tk_entries WHERE session = :session

-- ------------------------------------------------------------------ what to forget

-- piece: chosen
s.id, s.harness, s.session_id, s.parent_session_id, s.is_subagent, s.hidden, s.title, s.agent, s.model, s.cwd, s.project, s.git_branch,
s.slug, s.version, s.first_prompt, s.started_at, s.ended_at, s.entries, s.prompts, s.tool_calls, s.errors

-- name: put_forgotten
INSERT INTO tk_forgotten (harness, session_id, forgotten_at) VALUES (:harness, :session_id, :now) ON CONFLICT DO NOTHING

-- name: any_forgotten_named
SELECT 1 FROM tk_forgotten WHERE session_id = :session_id
  AND (CAST(:agents AS TEXT) IS NULL OR lower(harness) IN (SELECT lower(value) FROM ({texts:agents}) AS a))

-- name: forgotten_but_there
SELECT {chosen} FROM tk_forgotten AS f JOIN tk_sessions AS s ON s.harness = f.harness AND s.session_id = f.session_id
WHERE EXISTS (SELECT 1 FROM tk_entries WHERE session = s.id)
  OR EXISTS (SELECT 1 FROM tk_logs WHERE harness = s.harness AND session_id = s.session_id AND lines > 0)
  OR EXISTS (SELECT 1 FROM tk_forgotten WHERE harness = s.harness AND session_id = s.parent_session_id)
ORDER BY s.id

-- name: logs_without_entries
SELECT id FROM tk_logs AS l WHERE harness = :harness AND lines > 0 AND NOT EXISTS (SELECT 1 FROM tk_entries WHERE log_id = l.id)
ORDER BY id

-- name: put_forgotten_line
INSERT INTO tk_forgotten_lines (digest) VALUES (:digest) ON CONFLICT DO NOTHING

-- name: any_forgotten_line
SELECT 1 FROM tk_forgotten_lines LIMIT 1

-- name: is_forgotten_line
SELECT 1 FROM tk_forgotten_lines WHERE digest = :digest

-- name: logs_to_search
SELECT l.id FROM tk_logs AS l
WHERE l.lines > 0 AND (CAST(:agents AS TEXT) IS NULL OR lower(l.harness) IN (SELECT lower(value) FROM ({texts:agents}) AS a)) ORDER BY l.id

-- name: span_of_log
SELECT min(at), max(at) FROM tk_entries WHERE log_id = :log

-- name: event_between
SELECT id FROM events WHERE source_kind = 'shell'
  AND (CAST(:since AS INTEGER) IS NULL OR timestamp >= :since) AND (CAST(:until AS INTEGER) IS NULL OR timestamp < :until)

-- name: jobs_of_runs
SELECT id FROM workflow_jobs WHERE run_id IN ({ids:runs})

-- name: annotations_of_runs
SELECT a.id FROM workflow_annotations AS a JOIN workflow_jobs AS j ON j.id = a.job_id WHERE j.run_id IN ({ids:runs})

-- name: excerpts_of_runs
SELECT x.id FROM workflow_log_excerpts AS x JOIN workflow_jobs AS j ON j.id = x.job_id WHERE j.run_id IN ({ids:runs})

-- name: ci_answer_urls
SELECT url FROM tk_ci_answers

-- name: forget_ci_answer
DELETE FROM tk_ci_answers WHERE url = :name

-- name: drop_quiet_shell_sessions
DELETE FROM sessions WHERE NOT EXISTS (SELECT 1 FROM events WHERE session_id = sessions.id)
  AND (CAST(:since AS INTEGER) IS NULL OR start_time >= :since) AND (CAST(:until AS INTEGER) IS NULL OR start_time < :until)

-- name: delete_unknown_kind
DELETE FROM tk_unknown WHERE kind = :name

-- name: unknown_kinds
SELECT DISTINCT kind FROM tk_unknown

-- ------------------------------------------------------------------ cleaning up

-- name: want_cleaning
INSERT INTO tk_cleaning (id, next_log, last_entry) VALUES (1, NULL, NULL)
ON CONFLICT (id) DO UPDATE SET next_log = NULL, last_entry = NULL

-- name: cleaning
SELECT next_log, last_entry FROM tk_cleaning

-- name: clean_on
UPDATE tk_cleaning SET next_log = :next_log, last_entry = :last_entry

-- name: cleaned
DELETE FROM tk_cleaning WHERE next_log IS NOT NULL

-- name: count_logs_from
SELECT count(*) FROM tk_logs WHERE id >= :log AND lines > 0

-- name: next_log
SELECT min(id) FROM tk_logs WHERE id >= :log AND lines > 0

-- name: entries_to_index
SELECT id, line, key FROM tk_entries WHERE log_id = :log AND id <= :last AND kind != 'copy' ORDER BY line, part

-- name: delete_session_labels
DELETE FROM tk_labels WHERE (harness, session_id) = (SELECT harness, session_id FROM tk_sessions WHERE id = :session)

-- name: delete_labels_of_gone_messages
DELETE FROM tk_labels WHERE key <> '' AND NOT EXISTS (
  SELECT 1 FROM tk_sessions AS s JOIN tk_entries AS e ON e.session = s.id
  WHERE s.harness = tk_labels.harness AND s.session_id = tk_labels.session_id AND e.key = tk_labels.key
)
