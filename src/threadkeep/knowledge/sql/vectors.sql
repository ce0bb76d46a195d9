-- Vectors: one for each node and message that has one, and the model they come from.

-- name: vector_model
SELECT model, dimensions, since, stamp, entries_done FROM tk_vector_model WHERE id = 1

-- name: set_vector_model
INSERT INTO tk_vector_model (id, model, dimensions, since, stamp) VALUES (1, :model, :dimensions, :now, :now)
ON CONFLICT (id) DO UPDATE SET model = :model, dimensions = :dimensions, since = :now,
  stamp = max(tk_vector_model.stamp + 1, :now), entries_done = 0

-- name: stamp_vectors
UPDATE tk_vector_model SET stamp = max(stamp + 1, :now) WHERE id = 1 RETURNING stamp

-- name: set_entries_done
UPDATE tk_vector_model SET entries_done = max(entries_done, :done) WHERE id = 1

-- name: last_entry
SELECT coalesce(max(id), 0) FROM tk_entries

-- name: drop_all_vectors
DELETE FROM tk_vectors

-- name: drop_all_vector_chunks
DELETE FROM tk_vector_chunks

-- name: count_vectors
SELECT kind, count(chunk), count(*) FROM tk_vectors GROUP BY kind

-- ---------------------------------------------------------------- chunks

-- name: vector_chunk_stamps
SELECT id, kind, stamp FROM tk_vector_chunks ORDER BY id

-- name: vector_chunk
SELECT ids, scales, numbers FROM tk_vector_chunks WHERE id = :id

-- name: last_vector_chunk
SELECT id, count, ids, scales, numbers FROM tk_vector_chunks WHERE kind = :kind ORDER BY id DESC LIMIT 1

-- name: add_vector_chunk
INSERT INTO tk_vector_chunks (kind, count, stamp, ids, scales, numbers)
VALUES (:kind, :count, :stamp, :ids, :scales, :numbers)

-- name: change_vector_chunk
UPDATE tk_vector_chunks SET count = :count, stamp = :stamp, ids = :ids, scales = :scales, numbers = :numbers
WHERE id = :id

-- name: drop_vector_chunk
DELETE FROM tk_vector_chunks WHERE id = :id

-- ---------------------------------------------------------------- who has one

-- CROSS JOIN keeps the order of the tables: from the few ids that are asked for to their rows.

-- name: put_vector
INSERT INTO tk_vectors (kind, id, mark, chunk) VALUES (:kind, :id, :mark, :chunk)
ON CONFLICT (kind, id) DO UPDATE SET mark = excluded.mark, chunk = excluded.chunk

-- name: places_of_nodes
SELECT v.id, v.chunk FROM ({ids:ids}) AS j
CROSS JOIN tk_vectors AS v
CROSS JOIN knowledge_nodes AS n
WHERE n.id = v.id AND v.mark = n.uuid || '/' || n.updated_at AND v.kind = 'node' AND v.id = j.value AND v.chunk IS NOT NULL

-- name: places_of_messages
SELECT v.id, v.chunk FROM ({ids:ids}) AS j
CROSS JOIN tk_vectors AS v
CROSS JOIN tk_entries AS e
WHERE e.id = v.id AND v.kind = 'message' AND v.id = j.value AND v.chunk IS NOT NULL

-- name: chunks_of_vectors
SELECT v.id, v.chunk FROM ({ids:ids}) AS j
CROSS JOIN tk_vectors AS v
WHERE v.kind = :kind AND v.id = j.value AND v.chunk IS NOT NULL

-- name: nodes_without_vector
SELECT n.id, n.uuid || '/' || n.updated_at, n.embed_text FROM knowledge_nodes AS n
LEFT JOIN tk_vectors AS v ON v.kind = 'node' AND v.id = n.id
WHERE n.id < :below AND n.created_at <= :made_before AND v.mark IS DISTINCT FROM n.uuid || '/' || n.updated_at
ORDER BY n.id DESC LIMIT :limit

-- name: messages_without_vector
SELECT e.id, e.session, e.key, e.log_id, e.line, e.part, e.role, e.kind, e.at, e.tool, e.error, e.hash
FROM tk_entries AS e
WHERE e.id < :below AND e.id > :above AND e.kind IN ('prompt', 'text', 'summary')
  AND NOT EXISTS (SELECT 1 FROM tk_vectors AS v WHERE v.kind = 'message' AND v.id = e.id)
ORDER BY e.id DESC LIMIT :limit

-- name: wanted_node_vectors
SELECT n.id, n.uuid || '/' || n.updated_at FROM ({ids:ids}) AS j
CROSS JOIN knowledge_nodes AS n
LEFT JOIN tk_vectors AS v ON v.kind = 'node' AND v.id = n.id
WHERE n.id = j.value AND v.mark IS DISTINCT FROM n.uuid || '/' || n.updated_at

-- name: wanted_message_vectors
SELECT e.id, '' FROM ({ids:ids}) AS j
CROSS JOIN tk_entries AS e
WHERE e.id = j.value AND e.kind != 'copy' AND NOT EXISTS (SELECT 1 FROM tk_vectors AS v WHERE v.kind = 'message' AND v.id = e.id)

-- name: vectors_of_no_node
SELECT v.id FROM tk_vectors AS v
WHERE v.kind = 'node' AND NOT EXISTS (
  SELECT 1 FROM knowledge_nodes AS n WHERE n.id = v.id AND v.mark = n.uuid || '/' || n.updated_at)

-- name: drop_vector_of_node
DELETE FROM tk_vectors WHERE kind = 'node' AND id = :id

-- name: old_vector_chunks
SELECT o.chunk, c.kind FROM tk_vector_old AS o JOIN tk_vector_chunks AS c ON c.id = o.chunk ORDER BY o.chunk

-- name: forget_old_vector_chunks
DELETE FROM tk_vector_old

-- ---------------------------------------------------------------- the contract's own table (768 numbers)

-- name: contract_vector_model
SELECT model FROM embed_model_meta WHERE id = 1

-- name: set_contract_vector_model
INSERT INTO embed_model_meta (id, model) VALUES (1, :model) ON CONFLICT (id) DO UPDATE SET model = excluded.model

-- name: put_contract_vector
INSERT INTO knowledge_vectors (knowledge_node_id, vec_knowledge, vec_command) VALUES (:id, :knowledge, :command)

-- name: contract_vectors_of_nobody
SELECT r.rowid FROM knowledge_vectors_rowids AS r
WHERE NOT EXISTS (SELECT 1 FROM knowledge_nodes AS n WHERE n.id = r.rowid)

-- name: nodes_without_contract_vector
SELECT n.id, n.uuid || '/' || n.updated_at, n.embed_text FROM knowledge_nodes AS n
WHERE n.id < :below AND n.created_at <= :made_before
  AND NOT EXISTS (SELECT 1 FROM knowledge_vectors_rowids AS r WHERE r.rowid = n.id)
ORDER BY n.id DESC LIMIT :limit

-- name: wanted_contract_vectors
SELECT n.id FROM ({ids:ids}) AS j
CROSS JOIN knowledge_nodes AS n
WHERE n.id = j.value AND NOT EXISTS (SELECT 1 FROM knowledge_vectors_rowids AS r WHERE r.rowid = n.id)

-- name: commands_of_nodes
SELECT l.knowledge_node_id, e.command FROM ({ids:ids}) AS j
CROSS JOIN knowledge_node_events AS l
CROSS JOIN events AS e WHERE e.id = l.event_id AND e.probe_tag IS NULL AND l.knowledge_node_id = j.value
ORDER BY l.knowledge_node_id, e.timestamp, e.id
