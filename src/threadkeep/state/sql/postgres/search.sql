-- Queries that have to be other ones on PostgreSQL.

-- name: message_with_neighbours
-- Its planner needs no hint which index is the better one.
SELECT id, session_id, role, content, tool_call_id, tool_calls, tool_name, timestamp, token_count,
  finish_reason, reasoning, reasoning_details, codex_reasoning_items
FROM messages WHERE id IN (
  :id,
  (SELECT max(id) FROM messages WHERE session_id = :session_id AND id < :id),
  (SELECT min(id) FROM messages WHERE session_id = :session_id AND id > :id))
ORDER BY id;

-- name: definition_of
-- The contract's index is kept in plain rows.
SELECT 'postings' WHERE :name = 'messages_fts';

-- name: lost_docs
-- Messages of tools without a document.
SELECT count(*) FROM messages m
WHERE m.id <= (SELECT CAST(value AS INTEGER) FROM tk_meta WHERE key = 'indexed')
  AND (m.tool_calls <> '' OR m.tool_name <> '')
  AND NOT EXISTS (SELECT 1 FROM tk_docs d WHERE d.message_id = m.id)
  AND NOT EXISTS (SELECT 1 FROM tk_dirty c WHERE c.id = m.id);

-- name: last_message_id
-- Numbers of several members come from one sequence: what one has seen is behind none of its own.
SELECT CAST(value AS INTEGER) FROM tk_meta WHERE key = 'indexed';
