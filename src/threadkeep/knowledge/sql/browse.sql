-- What surfaces read: lists of sessions, windows of a transcript, sums, and views of memory.

-- piece: session
s.id, s.harness, s.session_id, s.parent_session_id, s.is_subagent, s.hidden, s.title, s.agent, s.model, s.cwd, s.project, s.git_branch,
s.slug, s.version, s.first_prompt, s.started_at, s.ended_at, s.entries, s.prompts, s.tool_calls, s.errors

-- piece: entry
e.id, e.session, e.key, e.log_id, e.line, e.part, e.role, e.kind, e.at, e.tool, e.error, e.hash

-- piece: shown
s.hidden = 0 AND s.is_subagent = 0 AND s.entries > 0

-- From which size of a request on providers charge more (see prices.STEPS).
-- piece: step
CASE WHEN u.input + u.cache_read + u.cache_write <= 32000 THEN 0 WHEN u.input + u.cache_read + u.cache_write <= 100000 THEN 32000
  WHEN u.input + u.cache_read + u.cache_write <= 128000 THEN 100000 WHEN u.input + u.cache_read + u.cache_write <= 199999 THEN 128000
  WHEN u.input + u.cache_read + u.cache_write <= 200000 THEN 199999 WHEN u.input + u.cache_read + u.cache_write <= 256000 THEN 200000
  WHEN u.input + u.cache_read + u.cache_write <= 272000 THEN 256000 WHEN u.input + u.cache_read + u.cache_write <= 512000 THEN 272000
  WHEN u.input + u.cache_read + u.cache_write <= 524288 THEN 512000 ELSE 524288 END

-- piece: spent
count(*), sum(u.input), sum(u.output), sum(u.cache_read), sum(u.cache_write), sum(u.cache_write_1h), sum(u.reasoning)

-- ------------------------------------------------------------------ lists

-- name: browse_sums
SELECT u.session, u.harness, u.model, {step}, max(u.at), {spent}
FROM ({ids:ids}) AS i CROSS JOIN tk_usage AS u WHERE u.session = i.value GROUP BY u.session, u.harness, u.model, 4

-- name: browse_children
SELECT s.harness, s.parent_session_id, count(*) FROM ({texts:ids}) AS i CROSS JOIN tk_sessions AS s
WHERE s.parent_session_id = i.value AND s.entries > 0 GROUP BY s.harness, s.parent_session_id

-- name: browse_matches
SELECT e.session, max(e.id), count(*) FROM (
  SELECT id FROM {matching:tk_entry_words} ORDER BY id DESC LIMIT :limit
) AS f CROSS JOIN tk_entries AS e WHERE e.id = f.id GROUP BY e.session

-- name: browse_having
SELECT i.value FROM ({ids:ids}) AS i WHERE EXISTS (
  SELECT 1 FROM tk_entries AS e CROSS JOIN {matching:tk_entry_words} AS f WHERE f.id = e.id AND e.session = i.value)

-- name: browse_ended_badly
SELECT i.value FROM ({ids:ids}) AS i
WHERE (SELECT e.error FROM tk_entries AS e WHERE e.session = i.value AND e.kind = 'tool_result' ORDER BY e.id DESC LIMIT 1) = 1

-- name: browse_newer
SELECT s.harness, s.session_id FROM tk_sessions AS s
WHERE {shown} AND (s.ended_at, s.id) > (:at, :id) ORDER BY s.ended_at NULLS FIRST, s.id LIMIT 1

-- name: browse_older
SELECT s.harness, s.session_id FROM tk_sessions AS s
WHERE {shown} AND (s.ended_at, s.id) < (:at, :id) ORDER BY s.ended_at DESC NULLS LAST, s.id DESC LIMIT 1

-- ------------------------------------------------------------------ one session

-- name: browse_session
SELECT {session} FROM tk_sessions AS s WHERE s.harness = :harness AND s.session_id = :session_id

-- name: browse_log_path
SELECT path FROM tk_logs WHERE harness = :harness AND session_id = :session_id ORDER BY lines DESC, id LIMIT 1

-- name: browse_log_of_entries
SELECT l.path FROM tk_entries AS e JOIN tk_logs AS l ON l.id = e.log_id WHERE e.session = :session LIMIT 1

-- In no order: SQLite would walk all entries in the order of their logs, 120 ms instead of 20 in a large file.
-- name: browse_outline
SELECT {entry} FROM tk_entries AS e WHERE e.session = :session

-- name: browse_newest_of
SELECT max(id) FROM tk_entries WHERE session = :session

-- name: browse_documents
SELECT l.id FROM ({ids:ids}) AS i CROSS JOIN tk_logs AS l WHERE l.id = i.value AND l.item <> ''

-- name: browse_usage_of_session
SELECT u.at, u.harness, u.model, u.input, u.output, u.cache_read, u.cache_write, u.cache_write_1h
FROM tk_usage AS u WHERE u.session = :session ORDER BY u.at NULLS FIRST

-- name: browse_matches_within
SELECT e.id FROM {matching:tk_entry_words} AS f CROSS JOIN tk_entries AS e
WHERE e.id = f.id AND f.id BETWEEN :first AND :last AND e.session = :session LIMIT :limit

-- ------------------------------------------------------------------ what is new

-- name: browse_changed
SELECT DISTINCT s.harness, s.session_id FROM (SELECT session FROM tk_entries WHERE id > :mark ORDER BY id DESC LIMIT :limit) AS e
JOIN tk_sessions AS s ON s.id = e.session

-- ------------------------------------------------------------------ a day

-- name: browse_messages_since
SELECT count(*) FROM tk_sessions AS s CROSS JOIN tk_entries AS e
WHERE e.session = s.id AND s.ended_at >= :since AND e.at >= :since AND e.kind IN ('prompt', 'text')

-- name: browse_commands_since
SELECT count(*) FROM events WHERE timestamp >= :since AND probe_tag IS NULL AND source_kind = 'shell'

-- name: browse_pages_since
SELECT count(*) FROM browser_events WHERE timestamp >= :since AND probe_tag IS NULL

-- name: browse_runs_since
SELECT count(*) FROM workflow_runs WHERE coalesce(started_at, first_seen_at) >= :since

-- ------------------------------------------------------------------ memory

-- piece: node
n.id, n.uuid, n.content, n.outcome, n.tags, n.created_at, n.enrichment_model, n.embed_text

-- name: browse_nodes
SELECT {node} FROM knowledge_nodes AS n
WHERE n.id < :before AND (CAST(:outcomes AS TEXT) IS NULL OR n.outcome IN ({texts:outcomes})) ORDER BY n.id DESC LIMIT :limit

-- name: browse_nodes_by_time
SELECT {node} FROM knowledge_nodes AS n LEFT JOIN tk_things AS t ON t.kind = 'node' AND t.row = n.id
WHERE (coalesce(t.at, n.created_at), n.id) < (:at, :before)
  AND (CAST(:outcomes AS TEXT) IS NULL OR n.outcome IN ({texts:outcomes}))
ORDER BY coalesce(t.at, n.created_at) DESC, n.id DESC LIMIT :limit

-- name: node_time
SELECT coalesce(t.at, n.created_at) FROM knowledge_nodes AS n LEFT JOIN tk_things AS t ON t.kind = 'node' AND t.row = n.id
WHERE n.id = :id

-- name: browse_nodes_with_words
SELECT {node} FROM (SELECT id FROM {matching:knowledge_fts} WHERE id < :before ORDER BY id DESC) AS f
CROSS JOIN knowledge_nodes AS n
WHERE n.id = f.id AND (CAST(:outcomes AS TEXT) IS NULL OR n.outcome IN ({texts:outcomes})) LIMIT :limit

-- name: browse_node
SELECT {node} FROM knowledge_nodes AS n WHERE n.id = :id

-- name: browse_nodes_by_id
SELECT {node} FROM ({ids:ids}) AS i CROSS JOIN knowledge_nodes AS n WHERE n.id = i.value ORDER BY n.id DESC

-- What nodes rest on: the node, the kind and number of the evidence, when and where it was, and whether it is a probe.
-- name: browse_grounds
SELECT l.knowledge_node_id, 'command', e.id, e.timestamp, coalesce(nullif(e.git_repo, ''), e.cwd), e.cwd, e.probe_tag IS NOT NULL
FROM ({ids:ids}) AS i CROSS JOIN knowledge_node_events AS l JOIN events AS e ON e.id = l.event_id WHERE l.knowledge_node_id = i.value
UNION ALL
SELECT l.knowledge_node_id, 'segment', a.id, a.end_time, a.cwd, a.cwd, a.probe_tag IS NOT NULL
FROM ({ids:ids}) AS i CROSS JOIN knowledge_node_agentic_sessions AS l
JOIN agentic_sessions AS a ON a.id = l.agentic_session_id WHERE l.knowledge_node_id = i.value
UNION ALL
SELECT l.knowledge_node_id, 'page', b.id, b.timestamp, NULL, NULL, b.probe_tag IS NOT NULL
FROM ({ids:ids}) AS i CROSS JOIN knowledge_node_browser_events AS l
JOIN browser_events AS b ON b.id = l.browser_event_id WHERE l.knowledge_node_id = i.value
UNION ALL
SELECT l.knowledge_node_id, 'ci', r.id, coalesce(r.completed_at, r.started_at, r.first_seen_at), r.repo, NULL, false
FROM ({ids:ids}) AS i CROSS JOIN knowledge_node_workflow_runs AS l JOIN workflow_runs AS r ON r.id = l.run_id WHERE l.knowledge_node_id = i.value
UNION ALL
SELECT l.knowledge_node_id, 'lesson', k.id, k.last_seen_at, k.repo, NULL, false
FROM ({ids:ids}) AS i CROSS JOIN knowledge_node_lessons AS l JOIN lessons AS k ON k.id = l.lesson_id WHERE l.knowledge_node_id = i.value
UNION ALL
SELECT l.knowledge_node_id, 'memory', c.id, r.source_mtime_ms, d.repository, NULL, d.repository = 'hippo/__hippo_probe__'
FROM ({ids:ids}) AS i JOIN knowledge_node_memory_chunks AS l ON l.knowledge_node_id = i.value
JOIN memory_chunks AS c ON c.id = l.memory_chunk_id JOIN memory_revisions AS r ON r.id = c.revision_id
JOIN memory_documents AS d ON d.id = r.document_id

-- name: browse_names_in_nodes
SELECT k.knowledge_node_id, e.name FROM ({ids:ids}) AS i CROSS JOIN knowledge_node_entities AS k
JOIN entities AS e ON e.id = k.entity_id WHERE k.knowledge_node_id = i.value ORDER BY k.knowledge_node_id, e.type, e.name

-- piece: entity
e.id, e.type, e.name, e.canonical, (SELECT count(*) FROM knowledge_node_entities AS k WHERE k.entity_id = e.id), e.first_seen, e.last_seen

-- name: browse_entities
SELECT {entity} FROM entities AS e
WHERE (CAST(:type AS TEXT) IS NULL OR e.type = :type)
  AND (CAST(:text AS TEXT) IS NULL OR e.name LIKE :text ESCAPE '\' OR e.canonical LIKE :text ESCAPE '\')
ORDER BY 5 DESC, e.last_seen DESC, e.id LIMIT :limit

-- name: browse_entities_by_id
SELECT {entity} FROM ({ids:ids}) AS i CROSS JOIN entities AS e WHERE e.id = i.value

-- name: browse_last_mentioned
SELECT i.value, (SELECT max(m.at) FROM (
  SELECT coalesce(t.at, n.created_at) AS at FROM knowledge_node_entities AS k
  JOIN knowledge_nodes AS n ON n.id = k.knowledge_node_id
  LEFT JOIN tk_things AS t ON t.kind = 'node' AND t.row = n.id
  WHERE k.entity_id = i.value ORDER BY k.knowledge_node_id DESC LIMIT :nodes
) AS m) FROM ({ids:ids}) AS i

-- name: browse_entities_of_node
SELECT {entity} FROM knowledge_node_entities AS l JOIN entities AS e ON e.id = l.entity_id WHERE l.knowledge_node_id = :id
ORDER BY e.type, e.name

-- name: browse_nodes_of_entity
SELECT knowledge_node_id FROM knowledge_node_entities WHERE entity_id = :id ORDER BY knowledge_node_id DESC LIMIT :limit

-- name: browse_neighbours
SELECT b.entity_id, count(*) FROM (
  SELECT knowledge_node_id AS node FROM knowledge_node_entities WHERE entity_id = :id ORDER BY knowledge_node_id DESC LIMIT :nodes
) AS a CROSS JOIN knowledge_node_entities AS b WHERE b.knowledge_node_id = a.node AND b.entity_id <> :id
GROUP BY b.entity_id ORDER BY 2 DESC, 1 LIMIT :limit

-- name: browse_ties
SELECT r.from_entity_id, r.to_entity_id, r.relationship, r.evidence_count FROM ({ids:ids}) AS i
CROSS JOIN relationships AS r WHERE r.from_entity_id = i.value AND r.to_entity_id IN ({ids:ids})
ORDER BY r.evidence_count DESC, r.id LIMIT :limit

-- name: browse_ties_of
SELECT from_entity_id, to_entity_id, relationship, evidence_count FROM relationships WHERE from_entity_id = :id
UNION ALL
SELECT from_entity_id, to_entity_id, relationship, evidence_count FROM relationships WHERE to_entity_id = :id
ORDER BY 4 DESC LIMIT :limit

-- The newest nodes only: the pairs of all would take seconds in a large file.
-- name: browse_together
SELECT a.entity_id, b.entity_id, count(*) FROM (SELECT id FROM knowledge_nodes ORDER BY id DESC LIMIT :nodes) AS n
CROSS JOIN knowledge_node_entities AS a
CROSS JOIN knowledge_node_entities AS b WHERE b.knowledge_node_id = n.id AND b.entity_id > a.entity_id
  AND b.entity_id IN ({ids:ids}) AND a.knowledge_node_id = n.id AND a.entity_id IN ({ids:ids})
GROUP BY a.entity_id, b.entity_id ORDER BY 3 DESC, 1, 2 LIMIT :limit

-- name: browse_projects
SELECT s.project, count(*), max(s.ended_at) FROM tk_sessions AS s WHERE {shown} AND s.project <> ''
GROUP BY s.project ORDER BY 3 DESC, 1

-- name: browse_folder_of_project
SELECT s.cwd FROM tk_sessions AS s WHERE {shown} AND s.project = :project ORDER BY s.ended_at DESC NULLS LAST, s.id DESC LIMIT 1

-- name: browse_agents_of_projects
SELECT DISTINCT s.project, s.harness FROM tk_sessions AS s WHERE {shown} AND s.project <> '' ORDER BY s.project, s.harness
