-- Memories: the Markdown notes that Claude keeps, by document, revision and section. Only files from version 20 on have them.

-- piece: document
d.id, d.uuid, d.repository, d.logical_path, d.source_path, d.current_revision_id, d.active_revision_id, d.state

-- ------------------------------------------------------------------ taking in

-- name: memory_document
SELECT {document} FROM memory_documents AS d
WHERE d.source_kind = :kind AND d.repository = :repository AND d.logical_path = :logical_path

-- name: memory_document_by_id
SELECT {document} FROM memory_documents AS d WHERE d.id = :id

-- name: memories_with_text
SELECT {document} FROM memory_documents AS d JOIN memory_revisions AS r ON r.id = d.current_revision_id
WHERE d.source_kind = :kind AND d.repository = :repository AND d.logical_path != :logical_path AND r.content_hash = :hash
  AND d.state IN ('active', 'unavailable') LIMIT 2

-- name: memories_looked_for
SELECT d.id, d.source_path, d.state, d.observed_at FROM memory_documents AS d
WHERE d.source_kind = :kind AND d.state IN ('active', 'unavailable') AND d.repository != :probe

-- name: add_memory
INSERT INTO memory_documents (uuid, source_kind, repository, logical_path, source_path, state, projection_status,
  observed_at, created_at, updated_at)
VALUES (:uuid, :kind, :repository, :logical_path, :source_path, 'active', 'pending', :now, :now, :now)

-- name: memory_is_seen
UPDATE memory_documents SET source_path = :source_path, state = 'active', tombstoned_at = NULL, observed_at = :now,
  updated_at = CASE WHEN state = 'active' AND source_path = :source_path THEN updated_at ELSE :now END
WHERE id = :id

-- name: memory_is_renamed
UPDATE memory_documents SET logical_path = :logical_path, source_path = :source_path, state = 'active', tombstoned_at = NULL,
  observed_at = :now, updated_at = :now
WHERE id = :id

-- name: memory_is_missed
UPDATE memory_documents SET state = 'unavailable', observed_at = :now, updated_at = :now WHERE id = :id

-- name: memory_is_gone
UPDATE memory_documents SET state = 'tombstoned', tombstoned_at = :now, active_revision_id = NULL, projection_status = 'stale',
  observed_at = :now, updated_at = :now, current_revision_id = :revision
WHERE id = :id

-- name: memory_revision
SELECT id, revision_number, content_hash, source_hash, redacted_content FROM memory_revisions WHERE id = :id

-- name: next_memory_revision
SELECT coalesce(max(revision_number), 0) + 1 FROM memory_revisions WHERE document_id = :document

-- name: add_memory_revision
INSERT INTO memory_revisions (document_id, revision_number, content_hash, source_hash, redacted_content, source_mtime_ms, source_size,
  change_kind, summary, chunker_name, chunker_version, chunker_config_json, enrichment_version, created_at)
VALUES (:document, :number, :hash, :hash, :text, :mtime_ms, :size, :change, :summary, :chunker, :chunker_version, :chunker_config, 1, :now)

-- name: add_memory_chunk
INSERT INTO memory_chunks (revision_id, ordinal, heading_path, start_offset, end_offset, content, content_hash, token_count, created_at)
VALUES (:revision, :ordinal, :heading_path, :start, :end, :content, :hash, :words, :now)

-- name: add_memory_ticket
INSERT INTO memory_enrichment_queue (revision_id, status, priority, retry_count, max_retries, enqueued_at, updated_at)
VALUES (:revision, 'pending', 5, 0, 5, :now, :now)

-- name: memory_has_revision
UPDATE memory_documents SET current_revision_id = :revision, projection_status = :status, last_error = NULL, updated_at = :now WHERE id = :id

-- name: memory_is_superseded
UPDATE memory_revisions SET redacted_content = NULL, summary = :summary, diff_text = :diff WHERE id = :id

-- Nothing is to be learned from what was superseded before its turn.
-- name: end_memory_tickets
UPDATE memory_enrichment_queue SET status = 'done', locked_at = NULL, locked_by = NULL, updated_at = :now
WHERE status = 'pending' AND revision_id IN (SELECT id FROM memory_revisions WHERE document_id = :document AND id != :revision)

-- name: prune_memory_revisions
DELETE FROM memory_revisions WHERE document_id = :document
  AND id NOT IN (SELECT current_revision_id FROM memory_documents WHERE id = :document AND current_revision_id IS NOT NULL)
  AND id NOT IN (SELECT active_revision_id FROM memory_documents WHERE id = :document AND active_revision_id IS NOT NULL)
  AND (created_at < :before OR revision_number <= (
    SELECT max(revision_number) - :most FROM memory_revisions WHERE document_id = :document))

-- name: nodes_of_memory
SELECT DISTINCT l.knowledge_node_id FROM knowledge_node_memory_chunks AS l JOIN memory_chunks AS c ON c.id = l.memory_chunk_id
JOIN memory_revisions AS r ON r.id = c.revision_id WHERE r.document_id = :document

-- ------------------------------------------------------------------ categories and links

-- name: drop_categories_by_name
DELETE FROM memory_document_categories WHERE document_id = :document AND source = 'filename' AND category IS DISTINCT FROM :category

-- name: drop_categories_by_model
DELETE FROM memory_document_categories WHERE document_id = :document AND source = 'model'

-- name: put_category
INSERT INTO memory_document_categories (document_id, category, source, confidence, model, enrichment_version, created_at, updated_at)
VALUES (:document, :category, :source, :confidence, :model, :version, :now, :now)
ON CONFLICT (document_id, category, source) DO UPDATE SET confidence = excluded.confidence, model = excluded.model,
  enrichment_version = excluded.enrichment_version, updated_at = excluded.updated_at

-- name: drop_memory_links
DELETE FROM memory_document_links WHERE source_document_id = :document

-- name: add_memory_link
INSERT INTO memory_document_links (source_document_id, source_revision_id, target_document_id, target_logical_path, anchor_text,
  resolution, created_at, updated_at)
VALUES (:document, :revision, :target, :path, :words, :resolution, :now, :now)

-- name: memories_named
SELECT id FROM memory_documents WHERE repository = :repository AND logical_path = :path AND state = 'active' LIMIT 2

-- name: links_awaiting
SELECT l.id, l.source_document_id FROM memory_document_links AS l JOIN memory_documents AS d ON d.id = l.source_document_id
WHERE d.repository = :repository AND l.target_logical_path = :path AND l.resolution IN ('unresolved', 'ambiguous')

-- name: link_is_resolved
UPDATE memory_document_links SET target_document_id = :target, resolution = :resolution, updated_at = :now WHERE id = :id

-- name: leads_back
WITH RECURSIVE way (id) AS (
  SELECT CAST(:target AS INTEGER) UNION
  SELECT l.target_document_id FROM way JOIN memory_document_links AS l ON l.source_document_id = way.id
  WHERE l.resolution = 'resolved' AND l.target_document_id IS NOT NULL
)
SELECT 1 FROM way WHERE id = :source

-- ------------------------------------------------------------------ publishing

-- name: memory_to_publish
SELECT r.id, r.document_id, r.content_hash, r.created_at, d.uuid, d.repository, d.logical_path, d.source_path,
  d.current_revision_id, d.active_revision_id
FROM memory_revisions AS r JOIN memory_documents AS d ON d.id = r.document_id WHERE r.id = :id

-- name: chunks_of_revision
SELECT id, heading_path, content FROM memory_chunks WHERE revision_id = :id ORDER BY ordinal

-- name: revision_is_learned
UPDATE memory_revisions SET summary = :summary, enrichment_model = :model, enrichment_version = :version, enriched_at = :now WHERE id = :id

-- name: memory_is_published
UPDATE memory_documents SET active_revision_id = :revision, projection_status = 'ready', last_error = NULL, updated_at = :now WHERE id = :id

-- name: memory_has_failed
UPDATE memory_documents SET projection_status = CASE WHEN active_revision_id IS NULL THEN 'failed' ELSE 'stale' END,
  last_error = :message, updated_at = :now
WHERE current_revision_id = :revision

-- ------------------------------------------------------------------ asking

-- What is asked of a document, in the words of the question.
-- piece: asked_memories
CASE WHEN CAST(:repository AS TEXT) IS NULL THEN d.repository != :probe ELSE d.repository = :repository END
  AND (CAST(:logical_path AS TEXT) IS NULL OR d.logical_path = :logical_path)
  AND (CAST(:uuid AS TEXT) IS NULL OR d.uuid = :uuid)
  AND (CAST(:since AS INTEGER) IS NULL OR d.updated_at >= :since)
  AND (CAST(:category AS TEXT) IS NULL OR EXISTS (
    SELECT 1 FROM memory_document_categories AS g WHERE g.document_id = d.id AND g.category = :category))

-- name: current_memories
SELECT d.id, d.uuid, d.repository, d.logical_path, d.source_path, d.state, d.projection_status, d.source_kind, r.revision_number,
  r.content_hash, c.id, c.ordinal, c.heading_path, r.source_mtime_ms, r.created_at, r.enriched_at, d.observed_at,
  (SELECT n.uuid FROM knowledge_node_memory_chunks AS l JOIN knowledge_nodes AS n ON n.id = l.knowledge_node_id
    WHERE l.memory_chunk_id = c.id ORDER BY n.id LIMIT 1), c.content
FROM memory_documents AS d JOIN memory_revisions AS r ON r.id = d.active_revision_id JOIN memory_chunks AS c ON c.revision_id = r.id
WHERE d.state = 'active' AND {asked_memories}
  AND (CAST(:text AS TEXT) IS NULL OR c.content LIKE :text ESCAPE '\' OR r.summary LIKE :text ESCAPE '\' OR r.diff_text LIKE :text ESCAPE '\')
ORDER BY d.updated_at DESC, d.id, c.ordinal LIMIT :limit OFFSET :offset

-- name: unpublished_memories
SELECT d.id, d.uuid, d.repository, d.logical_path, d.source_path, d.state, d.projection_status, d.source_kind, d.observed_at, d.updated_at,
  d.last_error
FROM memory_documents AS d
WHERE (d.state != 'active' OR d.active_revision_id IS NULL OR d.projection_status NOT IN ('ready', 'stale')) AND {asked_memories}
ORDER BY d.updated_at DESC, d.id LIMIT :limit OFFSET :offset

-- name: categories_of_memory
SELECT category, source, confidence, model, enrichment_version, created_at, updated_at FROM memory_document_categories
WHERE document_id = :document ORDER BY category, source

-- name: links_of_memory
SELECT l.target_logical_path, l.anchor_text, l.resolution, l.target_document_id FROM memory_document_links AS l
WHERE l.source_document_id = :document ORDER BY l.target_logical_path, l.id

-- name: memory_history
SELECT d.uuid, d.repository, d.logical_path, d.source_path, d.state, r.revision_number, r.content_hash, r.change_kind, r.summary,
  r.diff_text, r.source_mtime_ms, r.created_at, r.enriched_at
FROM memory_revisions AS r JOIN memory_documents AS d ON d.id = r.document_id
WHERE (CAST(:uuid AS TEXT) IS NULL OR d.uuid = :uuid) AND (CAST(:repository AS TEXT) IS NULL OR d.repository = :repository)
  AND (CAST(:logical_path AS TEXT) IS NULL OR d.logical_path = :logical_path)
ORDER BY r.revision_number DESC, r.id DESC LIMIT :limit

-- ------------------------------------------------------------------ health

-- name: memory_tickets
SELECT q.status, count(*) FROM memory_enrichment_queue AS q JOIN memory_revisions AS r ON r.id = q.revision_id
JOIN memory_documents AS d ON d.id = r.document_id WHERE d.repository != :probe GROUP BY q.status

-- name: memories_waiting
SELECT count(*), min(updated_at) FROM memory_documents
WHERE state = 'active' AND projection_status = 'pending' AND repository != :probe AND updated_at < :before

-- name: memory_chunks_without_node
SELECT count(*), min(r.created_at) FROM memory_documents AS d JOIN memory_revisions AS r ON r.id = d.active_revision_id
JOIN memory_chunks AS c ON c.revision_id = r.id
WHERE d.state = 'active' AND d.repository != :probe
  AND NOT EXISTS (SELECT 1 FROM knowledge_node_memory_chunks AS l WHERE l.memory_chunk_id = c.id)

-- ------------------------------------------------------------------ what is shown by default

-- Evidence that is good: real and settled. In files of older versions only probes are not.
-- piece: good_segment
a.probe_tag IS NULL AND (NOT :strict OR (a.end_time <= :settled AND (a.message_count > 0 OR length(trim(a.summary_text)) > 0)
      -- the journal of a workflow, in which subagents are counted and nobody speaks
      AND NOT (a.source_file LIKE '%journal.jsonl' AND a.source_file LIKE '%/subagents/%' AND a.source_file LIKE '%/workflows/%')))

-- piece: good_run
(NOT :strict OR r.conclusion IS NOT NULL OR lower(r.status) = 'completed')

-- piece: good_memory
d.state = 'active' AND d.repository != :probe

-- Nodes without evidence, and those with some that is good.
-- name: eligible_nodes
SELECT n.value FROM ({ids:ids}) AS n
WHERE EXISTS (SELECT 1 FROM knowledge_node_events AS l JOIN events AS e ON e.id = l.event_id
    WHERE l.knowledge_node_id = n.value AND e.probe_tag IS NULL)
  OR EXISTS (SELECT 1 FROM knowledge_node_browser_events AS l JOIN browser_events AS b ON b.id = l.browser_event_id
    WHERE l.knowledge_node_id = n.value AND b.probe_tag IS NULL)
  OR EXISTS (SELECT 1 FROM knowledge_node_agentic_sessions AS l JOIN agentic_sessions AS a ON a.id = l.agentic_session_id
    WHERE l.knowledge_node_id = n.value AND {good_segment})
  OR EXISTS (SELECT 1 FROM knowledge_node_workflow_runs AS l JOIN workflow_runs AS r ON r.id = l.run_id
    WHERE l.knowledge_node_id = n.value AND {good_run})
  OR EXISTS (SELECT 1 FROM knowledge_node_memory_chunks AS l JOIN memory_chunks AS c ON c.id = l.memory_chunk_id
    JOIN memory_documents AS d ON d.active_revision_id = c.revision_id WHERE l.knowledge_node_id = n.value AND {good_memory})
  OR NOT (
    EXISTS (SELECT 1 FROM knowledge_node_events AS l WHERE l.knowledge_node_id = n.value)
    OR EXISTS (SELECT 1 FROM knowledge_node_browser_events AS l WHERE l.knowledge_node_id = n.value)
    OR EXISTS (SELECT 1 FROM knowledge_node_agentic_sessions AS l WHERE l.knowledge_node_id = n.value)
    OR EXISTS (SELECT 1 FROM knowledge_node_workflow_runs AS l WHERE l.knowledge_node_id = n.value)
    OR EXISTS (SELECT 1 FROM knowledge_node_memory_chunks AS l WHERE l.knowledge_node_id = n.value))

-- ------------------------------------------------------------------ what nodes rest on, and how fresh that is

-- Node, table, row, time, kind, excerpt, session, harness, number of the slice.
-- name: evidence_packets
SELECT * FROM (
  SELECT l.knowledge_node_id AS node, 'events', e.id, e.timestamp AS at, coalesce(nullif(e.source_kind, ''), 'shell'), {raw:e.command},
    NULL, NULL, NULL
  FROM knowledge_node_events AS l JOIN events AS e ON e.id = l.event_id
  WHERE l.knowledge_node_id IN ({ids:ids}) AND (:everything OR e.probe_tag IS NULL)
  UNION ALL
  SELECT l.knowledge_node_id, 'agentic_sessions', a.id, a.end_time, '', {raw:substr(a.summary_text, 1, 2000)}, a.session_id, a.harness,
    a.segment_index
  FROM knowledge_node_agentic_sessions AS l JOIN agentic_sessions AS a ON a.id = l.agentic_session_id
  WHERE l.knowledge_node_id IN ({ids:ids}) AND (:everything OR {good_segment})
  UNION ALL
  SELECT l.knowledge_node_id, 'browser_events', b.id, b.timestamp, 'browser', {raw:b.domain || ' — ' || coalesce(nullif(b.title, ''), b.url)},
    NULL, NULL, NULL
  FROM knowledge_node_browser_events AS l JOIN browser_events AS b ON b.id = l.browser_event_id
  WHERE l.knowledge_node_id IN ({ids:ids}) AND (:everything OR b.probe_tag IS NULL)
  UNION ALL
  SELECT l.knowledge_node_id, 'workflow_runs', r.id, coalesce(r.completed_at, r.started_at, r.first_seen_at), 'workflow',
    {raw:r.repo || ' ' || coalesce(r.head_branch, '') || ': ' || coalesce(r.conclusion, r.status, '')}, NULL, NULL, NULL
  FROM knowledge_node_workflow_runs AS l JOIN workflow_runs AS r ON r.id = l.run_id
  WHERE l.knowledge_node_id IN ({ids:ids}) AND (:everything OR {good_run})
  UNION ALL
  SELECT l.knowledge_node_id, 'memory_chunks', c.id, r.source_mtime_ms, 'memory',
    {raw:d.repository || ' — ' || coalesce(nullif(c.heading_path, '') || ': ', '') || substr(c.content, 1, 2000)}, NULL, NULL, NULL
  FROM knowledge_node_memory_chunks AS l JOIN memory_chunks AS c ON c.id = l.memory_chunk_id JOIN memory_revisions AS r ON r.id = c.revision_id
  JOIN memory_documents AS d ON d.id = r.document_id
  WHERE l.knowledge_node_id IN ({ids:ids}) AND (:everything OR (d.active_revision_id = r.id AND {good_memory}))
) ORDER BY node, at DESC

-- name: rows_of_source
SELECT count(*), max(at) FROM (
  SELECT timestamp AS at FROM events WHERE :kind IN ('shell', 'claude-tool') AND source_kind = :kind AND probe_tag IS NULL
  UNION ALL
  SELECT timestamp FROM browser_events WHERE :kind = 'browser' AND probe_tag IS NULL
  UNION ALL
  SELECT coalesce(completed_at, started_at, first_seen_at) FROM workflow_runs WHERE :kind = 'workflow'
  UNION ALL
  SELECT d.updated_at FROM memory_documents AS d WHERE :kind = 'claude-auto-memory' AND d.state = 'active' AND d.repository != :probe
  UNION ALL
  SELECT end_time FROM agentic_sessions WHERE harness = :harness AND probe_tag IS NULL
)

-- name: health_of_source
SELECT last_event_ts, consecutive_failures, last_error_ts, probe_ok, probe_last_run_ts FROM source_health WHERE source = :source

-- name: alarms_about
SELECT DISTINCT invariant_id FROM capture_alarms
WHERE acked_at IS NULL AND resolved_at IS NULL AND json_valid(details_json) AND json_extract({json:details_json}, '$.source') = :source
ORDER BY 1
