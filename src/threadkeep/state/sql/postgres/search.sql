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
