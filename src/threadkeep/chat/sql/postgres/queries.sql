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
       OR (archived_at IS NOT NULL) = (CAST(:archived AS INTEGER) = 1))
  AND (:ephemeral OR NOT json_valid(metadata_json)
       OR coalesce(json_extract({json:metadata_json}, '$.ephemeral'), '0') IN ('0', 'false'))
  AND (updated_at < coalesce(CAST(:updated AS INTEGER), 9223372036854775807)
       OR (updated_at = :updated AND (CAST(:id AS TEXT) IS NULL OR id < :id)))
ORDER BY updated_at DESC, id DESC LIMIT :limit;

-- ---------------------------------------------------------------- numbers of a stream

-- piece: raised
-- The next number: raised and read in one statement.
raised AS (
  INSERT INTO tk_streams AS s (stream_id, seq)
  VALUES (:stream_id, greatest(1, CAST(:number AS bigint)))
  ON CONFLICT (stream_id) DO UPDATE SET seq = greatest(s.seq + 1, excluded.seq) RETURNING seq)

-- piece: whole
-- Whether the last chunk that a recorder sent is there: the server crashed if it is not. Chunks are
-- committed in order, so that then those before it are there as well.
(CAST(:sent AS bigint) = 0 OR EXISTS (
  SELECT 1 FROM chat_events AS e
  WHERE e.stream_id = :stream_id AND e.seq = :sent AND e.checksum = :sum))

-- name: append_event
WITH {raised}
INSERT INTO chat_events(
  stream_id, seq, kind, message_id, part_id, data_json, created_at, checksum)
SELECT :stream_id, raised.seq, :kind, :message_id, :part_id, :data_json, :created_at, :checksum
FROM raised RETURNING seq;

-- name: append_chunk
WITH raised AS (
  UPDATE tk_streams AS s SET seq = s.seq + 1 FROM tk_recordings AS r
  WHERE r.message_id = :message_id AND r.run_id = :run_id AND s.stream_id = :stream_id
    AND s.seq + 1 = :seq AND {whole}
  RETURNING s.seq)
INSERT INTO chat_events(
  stream_id, seq, kind, message_id, part_id, data_json, created_at, checksum)
SELECT :stream_id, raised.seq, :kind, :message_id, :part_id, :data_json, :created_at, :checksum
FROM raised;

-- name: hold_numbers
SELECT 1 FROM tk_streams WHERE stream_id = :stream_id FOR UPDATE;

-- name: recording_run
SELECT run_id, {whole} FROM tk_recordings WHERE message_id = :message_id;

-- name: last_seq
SELECT coalesce((SELECT seq FROM tk_streams WHERE stream_id = :stream_id), 0);

-- name: put_event_at
WITH raised AS (
  INSERT INTO tk_streams AS s (stream_id, seq) VALUES (:stream_id, :seq)
  ON CONFLICT (stream_id) DO UPDATE SET seq = greatest(s.seq, excluded.seq) RETURNING seq)
INSERT INTO chat_events(
  stream_id, seq, kind, message_id, part_id, data_json, created_at, checksum)
SELECT :stream_id, :seq, :kind, :message_id, NULL, :data_json, :created_at, :checksum FROM raised;

-- name: delete_session
-- The counter first: a chunk that is on its way is either seen by what is deleted next, or refused.
WITH counter AS (DELETE FROM tk_streams WHERE stream_id = :id)
DELETE FROM chat_sessions WHERE id = :id;

-- ---------------------------------------------------------------- sizes

-- name: pages_by_table
SELECT relname, pg_total_relation_size(oid) FROM pg_class
WHERE relnamespace = CAST(current_schema() AS regnamespace) AND relkind = 'r'
ORDER BY 2 DESC, 1;
