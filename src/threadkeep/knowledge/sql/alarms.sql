-- Alarms, and the ground that health is judged by.

-- piece: alarm
id, invariant_id, raised_at, details_json, acked_at, ack_note, resolved_at, clean_ticks

-- name: unresolved_alarms
SELECT {alarm} FROM capture_alarms WHERE resolved_at IS NULL ORDER BY id

-- name: alarms_resolved_after
SELECT {alarm} FROM capture_alarms WHERE resolved_at > :after ORDER BY id

-- name: active_alarms
SELECT {alarm} FROM capture_alarms WHERE resolved_at IS NULL AND acked_at IS NULL ORDER BY raised_at DESC, id DESC LIMIT :limit

-- name: all_alarms
SELECT {alarm} FROM capture_alarms ORDER BY raised_at DESC, id DESC LIMIT :limit

-- name: alarm_by_id
SELECT {alarm} FROM capture_alarms WHERE id = :id

-- name: raise_alarm
INSERT INTO capture_alarms (invariant_id, raised_at, details_json, clean_ticks) VALUES (:invariant, :now, :details, 0)

-- name: set_clean_ticks
UPDATE capture_alarms SET clean_ticks = :ticks WHERE id = :id

-- name: resolve_alarm
UPDATE capture_alarms SET clean_ticks = :ticks, resolved_at = :now WHERE id = :id

-- name: reopen_alarm
UPDATE capture_alarms SET resolved_at = NULL, clean_ticks = 0, details_json = :details,
  acked_at = CASE WHEN ack_note IS NOT DISTINCT FROM :pruned THEN NULL ELSE acked_at END, ack_note = NULLIF(ack_note, :pruned)
WHERE id = :id

-- name: refresh_alarm
UPDATE capture_alarms SET details_json = :details WHERE id = :id

-- name: ack_alarm
UPDATE capture_alarms SET acked_at = :now, ack_note = :note WHERE id = :id AND acked_at IS NULL

-- name: prune_alarms
UPDATE capture_alarms SET acked_at = :now, ack_note = :note WHERE resolved_at IS NOT NULL AND acked_at IS NULL

-- ------------------------------------------------------------------ what the watchdog remembers

-- name: watchdog_memory
SELECT memory FROM tk_watchdog WHERE id = 1

-- name: put_watchdog_memory
INSERT INTO tk_watchdog (id, memory, updated_at) VALUES (1, :memory, :now)
ON CONFLICT (id) DO UPDATE SET memory = excluded.memory, updated_at = excluded.updated_at

-- name: deep_checks
SELECT path, checked_at, took_ms, problems FROM tk_deep_checks

-- name: put_deep_check
INSERT INTO tk_deep_checks (path, checked_at, took_ms, problems) VALUES (:path, :now, :took, :problems)
ON CONFLICT (path) DO UPDATE SET checked_at = excluded.checked_at, took_ms = excluded.took_ms, problems = excluded.problems

-- ------------------------------------------------------------------ the ground

-- name: last_captured
SELECT max(captured_at) FROM tk_logs

-- name: last_typed
SELECT max(e.timestamp - e.duration_ms) FROM (
  SELECT timestamp, duration_ms FROM events WHERE source_kind = 'shell' AND probe_tag IS NULL ORDER BY timestamp DESC LIMIT 20
) AS e

-- name: last_tool_event
SELECT max(timestamp) FROM events WHERE source_kind = 'claude-tool' AND probe_tag IS NULL AND timestamp >= :since

-- name: last_tool_call
SELECT max(e.at) FROM (
  SELECT at, session, kind FROM tk_entries ORDER BY id DESC LIMIT 500
) AS e JOIN tk_sessions AS s ON s.id = e.session
WHERE s.harness = 'claude-code' AND e.kind = 'tool_call' AND e.at BETWEEN :since AND :until

-- name: node_marks
SELECT count(*), coalesce(max(id), 0) FROM knowledge_nodes

-- name: duplicate_groups
-- Most segments have one node: only those with several are read. With 5,000 nodes that is 3 ms and not 0.4 s.
SELECT count(*) FROM (
  SELECT 1 FROM knowledge_node_agentic_sessions AS l JOIN knowledge_nodes AS n ON n.id = l.knowledge_node_id
  WHERE l.agentic_session_id IN (SELECT agentic_session_id FROM knowledge_node_agentic_sessions GROUP BY 1 HAVING count(*) > 1)
  GROUP BY l.agentic_session_id, n.node_type, n.content, n.embed_text HAVING count(*) > 1
)

-- name: twin_nodes
SELECT l.agentic_session_id, json_group_array(n.id) FROM knowledge_node_agentic_sessions AS l
JOIN knowledge_nodes AS n ON n.id = l.knowledge_node_id
GROUP BY l.agentic_session_id, n.node_type, n.content, n.embed_text HAVING count(*) > 1

-- name: entries_without_words
SELECT count(*) FROM tk_entries WHERE hash != :empty AND kind != 'copy' AND id NOT IN (SELECT id FROM tk_entry_words_docsize)

-- name: nodes_unindexed
SELECT count(*) FROM knowledge_nodes WHERE id NOT IN (SELECT id FROM knowledge_fts_docsize)

-- name: nodes_differing
SELECT count(*) FROM knowledge_nodes AS n JOIN knowledge_fts_content AS f ON f.id = n.id
WHERE f.c1 IS DISTINCT FROM n.embed_text OR f.c2 IS DISTINCT FROM n.content

-- name: words_without_nodes
SELECT count(*) FROM knowledge_fts_content WHERE id NOT IN (SELECT id FROM knowledge_nodes)

-- name: archive_blocks
SELECT id FROM tk_blocks ORDER BY id

-- ------------------------------------------------------------------ vectors

-- name: count_nodes_without_vector
SELECT count(*) FROM knowledge_nodes AS n LEFT JOIN tk_vectors AS v ON v.kind = 'node' AND v.id = n.id
WHERE n.created_at <= :before AND v.mark IS DISTINCT FROM n.uuid || '/' || n.updated_at
