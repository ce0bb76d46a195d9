-- Queries that have to be other ones on PostgreSQL.

-- name: list_sessions
-- true and false of JSON are texts here, and no value of another type sorts behind every text.
SELECT id, agent, workspace_root, model_json, parent_id, parent_message_id, permissions_json,
  metadata_json, prompt_tokens, completion_tokens, reasoning_tokens, cache_read, cache_write,
  total_tokens, cost_usd, created_at, updated_at, archived_at, title, workspace_id, mode
FROM chat_sessions
WHERE (CAST(:agent AS TEXT) IS NULL OR agent = :agent)
  AND (CAST(:workspace AS TEXT) IS NULL OR coalesce(workspace_root, '') = :workspace)
  AND (CAST(:parent AS TEXT) IS NULL OR parent_id = :parent)
  AND (CAST(:title AS TEXT) IS NULL OR nullif(title, 'New Chat') LIKE :title ESCAPE '\')
  AND (CAST(:archived AS INTEGER) IS NULL
       OR (CASE WHEN archived_at IS NULL THEN 0 ELSE 1 END) = :archived)
  AND (:ephemeral OR NOT json_valid(metadata_json)
       OR coalesce(json_extract(metadata_json, '$.ephemeral'), '0') IN ('0', 'false'))
  AND (updated_at < coalesce(CAST(:updated AS INTEGER), 9223372036854775807)
       OR (updated_at = :updated AND (CAST(:id AS TEXT) IS NULL OR id < :id)))
ORDER BY updated_at DESC, id DESC LIMIT :limit;
