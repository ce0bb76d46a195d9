-- Nodes of knowledge with all that hangs on them: links to evidence, entities, ties between entities.

-- ------------------------------------------------------------------ nodes

-- name: insert_node
INSERT INTO knowledge_nodes (id, uuid, content, embed_text, node_type, outcome, tags, enrichment_model, enrichment_version, created_at, updated_at)
VALUES (:id, :uuid, :content, :embed_text, :node_type, :outcome, :tags, :model, :version, :now, :now)

-- name: number_above_vectors
SELECT max(coalesce((SELECT max(id) FROM knowledge_nodes), 0), coalesce((SELECT max(rowid) FROM knowledge_vectors_rowids), 0)) + 1

-- A phrase of the summary finds the few rows that may be the same; comparing all would read the whole table.
-- name: same_node
SELECT n.id FROM {matching:knowledge_fts} AS f JOIN knowledge_nodes AS n ON n.id = f.id
WHERE n.node_type = :node_type AND n.embed_text = :embed_text AND n.content = :content
ORDER BY n.id

-- name: same_node_slowly
SELECT id FROM knowledge_nodes WHERE content = :content AND embed_text = :embed_text AND node_type = :node_type ORDER BY id

-- The same words by another author: the row stays, and says who wrote it last.
-- name: rename_author
UPDATE knowledge_nodes SET enrichment_model = :model, enrichment_version = :version, updated_at = :now
WHERE id = :id AND (enrichment_model, enrichment_version) IS DISTINCT FROM (:model, :version)

-- name: is_that_node
SELECT 1 FROM knowledge_nodes WHERE id = :id AND content = :content AND embed_text = :embed_text

-- name: link_revision
INSERT INTO knowledge_node_memory_chunks (knowledge_node_id, memory_chunk_id)
SELECT CAST(:node AS INTEGER), id FROM memory_chunks WHERE revision_id = :row ON CONFLICT DO NOTHING

-- ------------------------------------------------------------------ what a node takes the place of

-- The tables of links have no index by evidence. There are many commands, so that a look for nothing is saved.
-- name: any_told_event
SELECT 1 FROM events WHERE id IN ({ids:ids}) AND enriched = 1 LIMIT 1

-- name: told_of_revision
SELECT DISTINCT l.knowledge_node_id FROM knowledge_node_memory_chunks AS l JOIN memory_chunks AS c ON c.id = l.memory_chunk_id
WHERE c.revision_id IN ({ids:ids})

-- Where a hash is missing, the last one that was learned from stays.
-- name: learned_all
UPDATE agentic_sessions SET last_enriched_content_hash = content_hash WHERE id = :id AND content_hash IS NOT NULL

-- name: set_learned_hash
UPDATE agentic_sessions SET last_enriched_content_hash = :hash WHERE id = :id AND CAST(:hash AS TEXT) IS NOT NULL

-- ------------------------------------------------------------------ nodes that rules have written

-- One that was tried since then waits: else a few that a model cannot write would keep it from all others.
-- name: nodes_by_author
SELECT id FROM knowledge_nodes WHERE enrichment_model = :model
  AND NOT EXISTS (SELECT 1 FROM tk_model_tried AS t WHERE t.node = knowledge_nodes.id AND t.at >= :tried_before)
ORDER BY id DESC LIMIT :limit

-- name: node_is_tried
INSERT INTO tk_model_tried (node, at) VALUES (:id, :now) ON CONFLICT (node) DO UPDATE SET at = excluded.at

-- name: forget_tries
DELETE FROM tk_model_tried WHERE at < :before OR at > :now

-- ------------------------------------------------------------------ entities

-- name: put_entity
INSERT INTO entities (type, name, canonical, first_seen, last_seen, created_at) VALUES (:type, :name, :canonical, :now, :now, :now)
ON CONFLICT (type, canonical) DO UPDATE SET last_seen = max(entities.last_seen, excluded.last_seen),
  name = CASE WHEN entities.name LIKE '%.claude/worktrees/%' THEN excluded.name ELSE entities.name END
RETURNING id

-- name: texts_of_events
SELECT id, command, cwd, git_repo, stdout, stderr FROM events WHERE id IN ({ids:ids}) AND probe_tag IS NULL

-- The terminal of an agent's calls is its session.
-- name: calls_in_segments
SELECT e.id FROM agentic_sessions AS a JOIN tk_terminals AS t ON t.terminal = a.session_id JOIN events AS e ON e.session_id = t.session_id
WHERE a.id IN ({ids:ids}) AND e.timestamp BETWEEN a.start_time AND a.end_time AND e.source_kind = 'claude-tool' AND e.probe_tag IS NULL

-- name: named_by_events
SELECT DISTINCT entity_id FROM event_entities WHERE event_id IN ({ids:ids})

-- name: unname_events
DELETE FROM event_entities WHERE event_id IN ({ids:ids})

-- name: put_event_entity
INSERT INTO event_entities (event_id, entity_id, role, created_at) VALUES (:event, :entity, :role, :now) ON CONFLICT DO NOTHING

-- ------------------------------------------------------------------ ties

-- name: put_tie
INSERT INTO relationships (from_entity_id, to_entity_id, relationship, weight, evidence_count, first_seen, last_seen)
VALUES (:source, :target, :kind, 1.0, 1, :now, :now)
ON CONFLICT (from_entity_id, to_entity_id, relationship) DO UPDATE SET last_seen = max(relationships.last_seen, excluded.last_seen)

-- name: strength_of_tie
SELECT evidence_count FROM relationships WHERE from_entity_id = :source AND to_entity_id = :target AND relationship = :kind

-- Other programs may have verbs of their own; those are not ours to count.
-- name: ties_of_node
SELECT r.from_entity_id, r.to_entity_id, r.relationship FROM knowledge_node_entities AS a
CROSS JOIN relationships AS r
CROSS JOIN knowledge_node_entities AS b
WHERE a.knowledge_node_id = :id AND r.from_entity_id = a.entity_id
  AND b.knowledge_node_id = a.knowledge_node_id AND b.entity_id = r.to_entity_id AND r.relationship IN ('part_of', 'used_in', 'occurred_in')

-- From the more special end, which fewer nodes mention.
-- name: some_ties
SELECT from_entity_id, to_entity_id, relationship FROM relationships WHERE relationship IN ('part_of', 'used_in', 'occurred_in')
ORDER BY random() LIMIT :limit

-- name: count_tie
SELECT count(*) FROM knowledge_node_entities AS a
CROSS JOIN knowledge_node_entities AS b
WHERE b.knowledge_node_id = a.knowledge_node_id AND b.entity_id = :target AND a.entity_id = :source

-- name: weigh_tie
UPDATE relationships SET evidence_count = :count, weight = :weight
WHERE from_entity_id = :source AND to_entity_id = :target AND relationship = :kind

-- name: drop_tie
DELETE FROM relationships WHERE from_entity_id = :source AND to_entity_id = :target AND relationship = :kind

-- ------------------------------------------------------------------ what belongs to a run of CI

-- name: run_to_link
SELECT repo, head_sha, coalesce(started_at, first_seen_at) FROM workflow_runs WHERE id = :id

-- A commit may be named by the beginning of its id.
-- name: events_of_commit
SELECT id, cwd FROM events
WHERE (git_commit = :sha OR (length(git_commit) >= 7 AND substr(:sha, 1, length(git_commit)) = git_commit)) AND probe_tag IS NULL
ORDER BY timestamp, id LIMIT :limit

-- name: pushes_around
SELECT id FROM events
WHERE timestamp BETWEEN :since AND :until AND command LIKE '%git push%' AND probe_tag IS NULL
  AND (git_repo IS NULL OR lower(git_repo) = lower(:repo) OR lower(git_repo) = lower(:name))
ORDER BY timestamp, id LIMIT :limit

-- name: segments_around
SELECT id, cwd, project_dir FROM agentic_sessions
WHERE start_time <= :until AND end_time >= :since AND probe_tag IS NULL ORDER BY abs(start_time - :at), id

-- name: words_of_node
SELECT id, {raw:embed_text}, {raw:content} FROM knowledge_nodes WHERE id = :id

-- name: words_of_nodes
SELECT id, {raw:embed_text}, {raw:content} FROM knowledge_nodes ORDER BY id
