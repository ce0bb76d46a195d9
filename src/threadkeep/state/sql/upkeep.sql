-- Named queries of upkeep: retention, offloading, sizes, checks.

-- ---------------------------------------------------------------- retention

-- piece: message
id, session_id, role, content, tool_call_id, tool_calls, tool_name, timestamp, token_count,
  finish_reason, reasoning, reasoning_details, codex_reasoning_items

-- piece: m_message
m.id, m.session_id, m.role, m.content, m.tool_call_id, m.tool_calls, m.tool_name, m.timestamp,
  m.token_count, m.finish_reason, m.reasoning, m.reasoning_details, m.codex_reasoning_items

-- name: live_docs
SELECT count(*) FROM tk_docs;

-- name: has_side_index
SELECT 1 FROM sqlite_master WHERE name = 'tk_search_docsize';

-- ---------------------------------------------------------------- usage of others

-- name: forget_spent
DELETE FROM tk_spent WHERE session_id = :id;

-- name: note_spent
INSERT INTO tk_spent(session_id, day, model, source, input_tokens, output_tokens, cache_read_tokens,
  cache_write_tokens, reasoning_tokens, estimated_cost_usd, actual_cost_usd)
SELECT id, coalesce(date(started_at, 'unixepoch', 'localtime'), ''), CAST(coalesce(model, '') AS TEXT),
  CAST(source AS TEXT), i, o, cr, cw, r, e, a
FROM (
  SELECT s.id, s.started_at, s.model, s.source,
    CAST(coalesce(s.input_tokens, 0) - coalesce(sum(u.input_tokens), 0) AS INTEGER) AS i,
    CAST(coalesce(s.output_tokens, 0) - coalesce(sum(u.output_tokens), 0) AS INTEGER) AS o,
    CAST(coalesce(s.cache_read_tokens, 0) - coalesce(sum(u.cache_read_tokens), 0) AS INTEGER) AS cr,
    CAST(coalesce(s.cache_write_tokens, 0) - coalesce(sum(u.cache_write_tokens), 0) AS INTEGER) AS cw,
    CAST(coalesce(s.reasoning_tokens, 0) - coalesce(sum(u.reasoning_tokens), 0) AS INTEGER) AS r,
    CAST(coalesce(s.estimated_cost_usd, 0) - coalesce(sum(u.estimated_cost_usd), 0) AS REAL) AS e,
    CAST(coalesce(s.actual_cost_usd, 0) - coalesce(sum(u.actual_cost_usd), 0) AS REAL) AS a
  FROM sessions s LEFT JOIN tk_usage u ON u.session_id = s.id
  WHERE s.id = :id AND typeof(s.id) = 'text'
  GROUP BY s.id, s.started_at, s.model, s.source, s.input_tokens, s.output_tokens, s.cache_read_tokens,
    s.cache_write_tokens, s.reasoning_tokens, s.estimated_cost_usd, s.actual_cost_usd
)
WHERE i <> 0 OR o <> 0 OR cr <> 0 OR cw <> 0 OR r <> 0 OR abs(e) > 1e-9 OR abs(a) > 1e-9;

-- ---------------------------------------------------------------- offloading

-- name: offloaded_between
SELECT message_id, field, pieces FROM tk_offloaded WHERE message_id BETWEEN :first AND :last;

-- name: get_blob
SELECT codec, data FROM tk_blobs WHERE hash = :hash;

-- name: put_blob
INSERT INTO tk_blobs(hash, codec, size, data) VALUES (:hash, :codec, :size, :data)
ON CONFLICT(hash) DO NOTHING;

-- name: drop_offloaded
DELETE FROM tk_offloaded WHERE message_id = :message_id AND field = :field;

-- name: long_messages
SELECT m.id FROM messages m JOIN sessions s ON s.id = m.session_id
WHERE m.id > :after AND s.ended_at IS NOT NULL
  AND (length(m.content) >= CAST(:min_chars AS INTEGER) OR length(m.tool_calls) >= :min_chars
    OR length(m.reasoning) >= :min_chars OR length(m.reasoning_details) >= :min_chars
    OR length(m.codex_reasoning_items) >= :min_chars)
  AND (CAST(:cutoff AS REAL) IS NULL
    OR coalesce((SELECT max(n.timestamp) FROM messages n WHERE n.session_id = s.id), s.started_at)
      < :cutoff)
ORDER BY m.id LIMIT :limit;

-- name: session_has_ended
SELECT 1 FROM sessions WHERE id = :id AND ended_at IS NOT NULL;

-- name: hash_of_message
SELECT hash FROM tk_hashes WHERE id = :id;

-- name: exact_of_message
SELECT field, kind, value FROM tk_exact WHERE owner = 'message' AND key = :id;

-- name: rewrite_message
UPDATE messages SET content = :content, tool_calls = :tool_calls, reasoning = :reasoning,
  reasoning_details = :reasoning_details, codex_reasoning_items = :codex_reasoning_items
WHERE id = :id;

-- name: offloaded_messages
SELECT DISTINCT o.message_id FROM tk_offloaded o JOIN messages m ON m.id = o.message_id
WHERE o.message_id > :after AND (CAST(:session_id AS TEXT) IS NULL OR m.session_id = :session_id)
ORDER BY o.message_id LIMIT :limit;

-- name: all_pieces
SELECT pieces FROM tk_offloaded
UNION ALL SELECT value FROM tk_exact WHERE kind = 'cut'
UNION ALL SELECT exact FROM tk_rewound WHERE exact IS NOT NULL;

-- name: all_blobs
SELECT hash FROM tk_blobs;

-- name: drop_blob
DELETE FROM tk_blobs WHERE hash = :hash;

-- ---------------------------------------------------------------- sizes

-- name: has_dbstat
SELECT count(*) FROM pragma_module_list WHERE name = 'dbstat';

-- name: pages_by_tree
SELECT d.name, coalesce(m.tbl_name, d.name), coalesce(m.type, 'table'), d.pgsize
FROM dbstat d LEFT JOIN sqlite_master m ON m.name = d.name WHERE d.aggregate = 1;

-- name: payload_by_column
SELECT count(*), coalesce(sum({size:content}), 0),
  coalesce(sum({size:tool_calls}), 0),
  coalesce(sum({size:reasoning}), 0),
  coalesce(sum({size:reasoning_details}), 0),
  coalesce(sum({size:codex_reasoning_items}), 0)
FROM messages;

-- name: session_payload
SELECT count(*), coalesce(sum({size:system_prompt}), 0),
  coalesce(sum({size:model_config}), 0)
FROM sessions;

-- name: has_text_index
SELECT 1 FROM sqlite_master WHERE name = 'messages_fts_data';

-- name: text_index_bytes
SELECT coalesce(sum(length(block)), 0) FROM messages_fts_data;

-- name: side_index_bytes
SELECT coalesce(sum(length(block)), 0) FROM tk_search_data;

-- name: blob_sizes
SELECT count(*), coalesce(sum(size), 0), coalesce(sum(length(data)), 0) FROM tk_blobs;

-- name: side_counts
SELECT (SELECT count(*) FROM tk_rewound), (SELECT count(*) FROM tk_offloaded);

-- name: largest_sessions
SELECT m.session_id, max(s.title), max(s.source), count(*), sum(
  coalesce({size:m.content}, 0) + coalesce({size:m.tool_calls}, 0)
  + coalesce({size:m.reasoning}, 0)
  + coalesce({size:m.reasoning_details}, 0)
  + coalesce({size:m.codex_reasoning_items}, 0)) AS bytes
FROM messages m JOIN sessions s ON s.id = m.session_id
GROUP BY m.session_id ORDER BY bytes DESC, m.session_id LIMIT :limit;

-- ---------------------------------------------------------------- checks

-- name: hashed_messages
SELECT {m_message}, h.hash
FROM messages m LEFT JOIN tk_hashes h ON h.id = m.id
WHERE m.id > :after ORDER BY m.id LIMIT :limit;

-- name: next_message_id
SELECT min(id) FROM messages WHERE id > :after;

-- name: hashed_sessions
SELECT s.id, s.source, s.user_id, s.model_config, s.system_prompt, s.parent_session_id, s.started_at,
  s.title, h.hash
FROM sessions s LEFT JOIN tk_session_hashes h ON h.session_id = s.id
WHERE s.id > :after ORDER BY s.id LIMIT :limit;

-- name: next_session_id
SELECT min(id) FROM sessions WHERE id > :after;

-- name: lost_messages
SELECT h.id FROM tk_hashes h LEFT JOIN messages m ON m.id = h.id WHERE m.id IS NULL LIMIT :limit;

-- name: lost_sessions
SELECT h.session_id FROM tk_session_hashes h LEFT JOIN sessions s ON s.id = h.session_id
WHERE s.id IS NULL LIMIT :limit;

-- name: messages_without_hash
SELECT m.id FROM messages m LEFT JOIN tk_hashes h ON h.id = m.id
WHERE m.id > :after AND h.id IS NULL ORDER BY m.id LIMIT :limit;

-- name: sessions_without_hash
SELECT s.id FROM sessions s LEFT JOIN tk_session_hashes h ON h.session_id = s.id
WHERE s.id > :after AND h.session_id IS NULL ORDER BY s.id LIMIT :limit;

-- name: messages_without_session
SELECT m.id, m.session_id FROM messages m LEFT JOIN sessions s ON s.id = m.session_id
WHERE s.id IS NULL LIMIT :limit;

-- name: sessions_without_parent
SELECT c.id, c.parent_session_id FROM sessions c LEFT JOIN sessions p ON p.id = c.parent_session_id
WHERE c.parent_session_id IS NOT NULL AND p.id IS NULL LIMIT :limit;

-- name: exact_with_columns
-- An offloaded column shows a marker, not the readable form of the value: nothing to compare. Nor is there in a
-- message without a fingerprint: another program changed it.
SELECT e.owner, e.key, e.field, e.kind, e.value, e.hash, m.id IS NOT NULL OR s.id IS NOT NULL,
  o.field IS NULL AND h.id IS NOT NULL, CASE e.field
    WHEN 'role' THEN m.role WHEN 'content' THEN m.content WHEN 'tool_call_id' THEN m.tool_call_id
    WHEN 'tool_name' THEN m.tool_name WHEN 'finish_reason' THEN m.finish_reason
    WHEN 'reasoning' THEN m.reasoning END
FROM tk_exact e
LEFT JOIN messages m ON m.id = CASE e.owner WHEN 'message' THEN CAST(e.key AS INTEGER) END
LEFT JOIN sessions s ON e.owner = 'session' AND s.id = e.key
LEFT JOIN tk_offloaded o
  ON o.message_id = CASE e.owner WHEN 'message' THEN CAST(e.key AS INTEGER) END AND o.field = e.field
LEFT JOIN tk_hashes h ON h.id = CASE e.owner WHEN 'message' THEN CAST(e.key AS INTEGER) END;

-- name: offloaded_with_columns
SELECT o.message_id, o.field, o.pieces, m.id IS NOT NULL, h.id IS NOT NULL, CASE o.field
    WHEN 'content' THEN m.content WHEN 'tool_calls' THEN m.tool_calls
    WHEN 'reasoning' THEN m.reasoning WHEN 'reasoning_details' THEN m.reasoning_details
    WHEN 'codex_reasoning_items' THEN m.codex_reasoning_items END
FROM tk_offloaded o LEFT JOIN messages m ON m.id = o.message_id
LEFT JOIN tk_hashes h ON h.id = o.message_id;

-- name: has_blob
SELECT 1 FROM tk_blobs WHERE hash = :hash;

-- name: blobs_with_data
SELECT hash, codec, data FROM tk_blobs;

-- name: hashed_rewound
SELECT {message}, hash
FROM tk_rewound WHERE id > :after ORDER BY id LIMIT :limit;

-- name: next_rewound_id
SELECT min(id) FROM tk_rewound WHERE id > :after;

-- name: lost_rewound
-- They have no fingerprints of their own that could outlive them.
SELECT id FROM tk_rewound WHERE false LIMIT :limit;
