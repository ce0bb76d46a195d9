-- Named queries of full-text search and of its indexes. Text that other programs wrote is read as bytes
-- where one row that is no UTF-8 must not stop the rest.

-- ---------------------------------------------------------------- filling our index

-- piece: message
id, session_id, role, content, tool_call_id, tool_calls, tool_name, timestamp, token_count,
  finish_reason, reasoning, reasoning_details, codex_reasoning_items

-- name: index_state
SELECT (SELECT CAST(value AS INTEGER) FROM tk_meta WHERE key = 'indexed'),
  (SELECT max(id) FROM messages), (SELECT count(*) FROM tk_dirty);

-- name: messages_after
SELECT m.id, {raw:m.role}, {raw:m.content}, {raw:m.tool_calls},
  {raw:m.tool_name},
  EXISTS (SELECT 1 FROM tk_offloaded o WHERE o.message_id = m.id),
  EXISTS (SELECT 1 FROM tk_hashes h WHERE h.id = m.id)
FROM messages m WHERE {after:m} ORDER BY m.id LIMIT :limit;

-- name: changed_messages
SELECT m.id, {raw:m.role}, {raw:m.content}, {raw:m.tool_calls},
  {raw:m.tool_name},
  EXISTS (SELECT 1 FROM tk_offloaded o WHERE o.message_id = m.id),
  EXISTS (SELECT 1 FROM tk_hashes h WHERE h.id = m.id)
FROM tk_dirty d CROSS JOIN messages m WHERE m.id = d.id ORDER BY d.id LIMIT :limit;

-- name: last_docs
SELECT coalesce((SELECT max(doc) FROM tk_docs WHERE doc < :names), 0),
  coalesce((SELECT max(doc) FROM tk_docs WHERE doc >= :names), CAST(:names AS INTEGER));

-- name: put_doc
INSERT INTO tk_docs(doc, message_id) VALUES (:doc, :message_id)
ON CONFLICT(message_id) DO UPDATE SET doc = excluded.doc;

-- name: clean
DELETE FROM tk_dirty WHERE id = :id;

-- name: clean_gone
DELETE FROM tk_dirty WHERE id NOT IN (SELECT id FROM messages);

-- name: forget_docs
DELETE FROM tk_docs;

-- name: clean_all
DELETE FROM tk_dirty;

-- ---------------------------------------------------------------- the state of the indexes

-- name: triggers_of_index
SELECT name FROM sqlite_master
WHERE type = 'trigger' AND tbl_name = 'messages' AND sql LIKE '%messages\_fts%' ESCAPE '\';

-- name: distrust_index
INSERT INTO state_meta(key, value) VALUES ('fts_stale', '1')
ON CONFLICT(key) DO UPDATE SET value = excluded.value;

-- name: emptied_index
-- Gives a row if the contract's index lacks the oldest message that must be in it (Hermes makes an empty index where it
-- finds none), or ours lacks all. The limits bound the look in a file that begins with many long messages.
SELECT 1 WHERE EXISTS (
  SELECT 1 FROM (
    SELECT id FROM (SELECT id, content FROM messages ORDER BY id LIMIT 16)
    WHERE length(content) <= 16384 AND instr(content, ';base64,') = 0 LIMIT 1
  ) WHERE id NOT IN (SELECT id FROM messages_fts_docsize)
) OR (EXISTS (SELECT 1 FROM tk_docs) AND NOT EXISTS (SELECT 1 FROM tk_search_docsize));

-- name: schema_entry
SELECT type FROM sqlite_master WHERE name = :name;

-- name: definition_of
SELECT sql FROM sqlite_master WHERE name = :name;

-- name: last_message_id
SELECT seq FROM sqlite_sequence WHERE name = 'messages';

-- name: lost_docs
-- Documents without an entry, and messages of tools without a document.
SELECT (SELECT count(*) FROM tk_docs d
        WHERE NOT EXISTS (SELECT 1 FROM tk_search_docsize z WHERE z.id = d.doc))
  + (SELECT count(*) FROM messages m
     WHERE m.id <= (SELECT CAST(value AS INTEGER) FROM tk_meta WHERE key = 'indexed')
       AND (m.tool_calls <> '' OR m.tool_name <> '')
       AND NOT EXISTS (SELECT 1 FROM tk_docs d WHERE d.message_id = m.id)
       AND NOT EXISTS (SELECT 1 FROM tk_dirty c WHERE c.id = m.id));

-- name: sample_of_docs
-- Some documents, with their messages as in `messages_after`.
SELECT m.id, {raw:m.role}, {raw:m.content}, {raw:m.tool_calls},
  {raw:m.tool_name},
  EXISTS (SELECT 1 FROM tk_offloaded o WHERE o.message_id = m.id), d.doc
FROM tk_docs d JOIN messages m ON m.id = d.message_id ORDER BY d.doc % 97, d.doc LIMIT 20;

-- ---------------------------------------------------------------- asking for candidates

-- name: index_notes
SELECT key, value FROM full.state_meta
WHERE key IN ('fts_stale', 'fts_rebuild_progress', 'fts_rebuild_high_water');

-- name: docs_newest
SELECT d.message_id FROM {matching:tk_search} AS f JOIN tk_docs d ON d.doc = f.id
WHERE f.id BETWEEN :first_doc AND :last_doc AND d.message_id BETWEEN :first AND :last
ORDER BY f.id DESC LIMIT :limit;

-- name: docs_oldest
SELECT d.message_id FROM {matching:tk_search} AS f JOIN tk_docs d ON d.doc = f.id
WHERE f.id BETWEEN :first_doc AND :last_doc AND d.message_id BETWEEN :first AND :last
ORDER BY f.id LIMIT :limit;

-- name: span_of_session
SELECT min(id), max(id) FROM messages WHERE session_id = :session_id;

-- name: scan_newest
SELECT m.id, {raw:m.role}, {raw:m.content}, {raw:m.tool_calls},
  {raw:m.tool_name}, 0
FROM messages m WHERE m.id BETWEEN :first AND :last ORDER BY m.id DESC LIMIT :limit;

-- name: scan_oldest
SELECT m.id, {raw:m.role}, {raw:m.content}, {raw:m.tool_calls},
  {raw:m.tool_name}, 0
FROM messages m WHERE m.id BETWEEN :first AND :last ORDER BY m.id LIMIT :limit;

-- name: scan_for
SELECT m.id, {raw:m.role}, {raw:m.content}, {raw:m.tool_calls},
  {raw:m.tool_name}, 0
FROM messages m WHERE m.id BETWEEN :first AND :last
  AND (instr(m.content, :needle) > 0 OR instr(m.tool_calls, :needle) > 0
       OR instr(m.tool_name, :needle) > 0 OR instr(m.tool_calls, :escaped) > 0
       OR (substr({raw:m.content}, 1, 1) = {nul} AND instr(m.content, :escaped) > 0))
ORDER BY m.id DESC LIMIT :limit;

-- ---------------------------------------------------------------- from candidates to hits

-- name: filter_candidates
-- With the text, if they are to be ranked: the row is at hand, and to find it again takes as long as to compare.
SELECT m.id, m.timestamp, {raw:s.source}, CASE WHEN :texts THEN {raw:
  coalesce(m.content, '') || CASE WHEN m.tool_calls IS NULL AND m.tool_name IS NULL THEN ''
  ELSE ' ' || coalesce(m.tool_calls, '') || ' ' || coalesce(m.tool_name, '') END} END
FROM ({ids:ids}) c JOIN full.messages m ON m.id = c.value
JOIN sessions s ON s.id = m.session_id
WHERE (:inactive OR coalesce(m.active, 1) = 1 OR m.compacted = 1)
  AND (CAST(:session_id AS TEXT) IS NULL OR m.session_id = :session_id)
  AND (CAST(:since AS REAL) IS NULL OR m.timestamp >= :since)
  AND (CAST(:until AS REAL) IS NULL OR m.timestamp < :until)
  AND (CAST(:roles AS TEXT) IS NULL OR m.role IN ({texts:roles}))
  AND (CAST(:sources AS TEXT) IS NULL OR s.source IN ({texts:sources}))
  AND (CAST(:not_sources AS TEXT) IS NULL
       OR s.source NOT IN ({texts:not_sources}))
  AND (CAST(:not_sessions AS TEXT) IS NULL
       OR m.session_id NOT IN ({texts:not_sessions}));

-- name: hits
SELECT m.id, m.session_id, s.source, s.model, s.started_at
FROM ({ids:ids}) c JOIN messages m ON m.id = c.value JOIN sessions s ON s.id = m.session_id;

-- name: message_with_neighbours
-- Neighbours are near, as a rule: looking through all of a session of 50,000 messages takes 7 ms, near by 0.05.
SELECT {message}
FROM messages WHERE id IN (
  :id,
  coalesce(
    (SELECT max(id) FROM messages WHERE id >= :id - 64 AND id < :id AND +session_id = :session_id),
    (SELECT max(+id) FROM messages WHERE session_id = :session_id AND +id < :id)),
  coalesce(
    (SELECT min(id) FROM messages WHERE id > :id AND id <= :id + 64 AND +session_id = :session_id),
    (SELECT min(+id) FROM messages WHERE session_id = :session_id AND +id > :id)))
ORDER BY id;

-- name: message_as_bytes
SELECT id, timestamp, {raw:role}, {raw:content}, {raw:tool_calls},
  {raw:tool_name}
FROM messages WHERE id = :id;
