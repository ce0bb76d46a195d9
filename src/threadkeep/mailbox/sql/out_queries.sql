-- piece: out
-- Whatever their length, nobody must hold more of them in memory than this.
o.id, o.seq, CASE WHEN length(o.in_reply_to) <= 4096 THEN o.in_reply_to END,
substr(CAST(o.timestamp AS TEXT), 1, 64), substr(CAST(o.deliver_after AS TEXT), 1, 64),
substr(CAST(o.kind AS TEXT), 1, 64),
CASE WHEN length(o.channel_type) <= 4096 THEN o.channel_type END,
CASE WHEN length(o.platform_id) <= 4096 THEN o.platform_id END,
CASE WHEN length(o.thread_id) <= 4096 THEN o.thread_id END,
CASE WHEN typeof(o.content) = 'text' AND length(CAST(o.content AS BLOB)) <= :cap THEN o.content END

-- ------------------------------------------------------------------ the container's own

-- name: insert_out
-- The next odd number after everything either side has said.
INSERT INTO messages_out (id, seq, in_reply_to, timestamp, deliver_after, kind, platform_id, channel_type,
  thread_id, content)
SELECT :id, (max(COALESCE((SELECT max(seq) FROM messages_out), 0), :seq_in, 0) + 1) / 2 * 2 + 1,
  :in_reply_to, :timestamp, :deliver_after, :kind, :platform_id, :channel_type, :thread_id, :content

-- name: newest_time
-- What was written last: what follows is written in the same form, as hosts sort it as text.
SELECT substr(CAST(timestamp AS TEXT), 1, 64) FROM messages_out ORDER BY seq DESC LIMIT 1

-- name: keep_hash
INSERT OR REPLACE INTO tk_row_hash (message_id, hash) VALUES (:id, :hash)

-- name: said_lately
-- In answer to the same message: two who ask may well get the same words.
SELECT o.seq FROM messages_out o
WHERE o.seq > (SELECT max(seq) FROM messages_out) - 200 AND datetime(o.timestamp) >= :since AND o.kind = :kind
  AND o.channel_type IS :channel_type AND o.platform_id IS :platform_id AND o.content = :content
  AND o.in_reply_to IS :in_reply_to AND (:in_reply_to IS NOT NULL OR o.thread_id IS :thread_id)
ORDER BY o.seq DESC LIMIT 1

-- name: claim
INSERT INTO processing_ack (message_id, status, status_changed) VALUES (:id, 'processing', :now)
ON CONFLICT (message_id) DO NOTHING

-- name: count_claim
INSERT INTO tk_claim (message_id, tries, claimed_at) VALUES (:id, :tries, :now)
ON CONFLICT (message_id) DO UPDATE SET tries = :tries, claimed_at = :now

-- name: tries
SELECT tries FROM tk_claim WHERE message_id = :id

-- name: ack
-- The first outcome wins.
INSERT INTO processing_ack (message_id, status, status_changed) VALUES (:id, :status, :now)
ON CONFLICT (message_id) DO UPDATE SET status = excluded.status, status_changed = excluded.status_changed
WHERE processing_ack.status = 'processing'

-- name: give_reason
INSERT INTO tk_claim (message_id, tries, claimed_at, reason) VALUES (:id, 0, :now, :reason)
ON CONFLICT (message_id) DO UPDATE SET reason = excluded.reason

-- name: ack_of
SELECT status, status_changed FROM processing_ack WHERE message_id = :id

-- name: release
DELETE FROM processing_ack WHERE message_id = :id AND status = 'processing'

-- name: uncount_claim
-- What is given back in peace was no try.
UPDATE tk_claim SET tries = max(tries - 1, 0) WHERE message_id = :id

-- name: release_all
DELETE FROM processing_ack WHERE status = 'processing'

-- name: drop_end
DELETE FROM processing_ack WHERE message_id = :id AND status <> 'processing'

-- name: forget_claims
DELETE FROM tk_claim WHERE message_id = :id

-- name: state_value
SELECT value FROM session_state WHERE key = :key

-- name: set_state
INSERT INTO session_state (key, value, updated_at) VALUES (:key, :value, :now)
ON CONFLICT (key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at

-- name: drop_state
DELETE FROM session_state WHERE key = :key

-- name: forget_conversations
DELETE FROM session_state WHERE key = 'sdk_session_id' OR key LIKE 'continuation:%'

-- name: set_tool
INSERT INTO container_state (id, current_tool, tool_declared_timeout_ms, tool_started_at, updated_at)
VALUES (1, :tool, :timeout_ms, :started_at, :now)
ON CONFLICT (id) DO UPDATE SET current_tool = excluded.current_tool,
  tool_declared_timeout_ms = excluded.tool_declared_timeout_ms,
  tool_started_at = excluded.tool_started_at, updated_at = excluded.updated_at

-- ------------------------------------------------------------------ what either side reads

-- name: out
SELECT {out} FROM messages_out o WHERE o.id = :id

-- name: out_by_seq
SELECT {out} FROM messages_out o WHERE o.seq = :seq

-- name: out_after
SELECT {out} FROM messages_out o WHERE o.seq > :after ORDER BY o.seq LIMIT :limit

-- name: out_newest
SELECT {out} FROM messages_out o ORDER BY o.seq DESC LIMIT :limit

-- name: claims
SELECT a.message_id, CAST(a.status_changed AS TEXT) FROM processing_ack a
WHERE a.status = 'processing' AND typeof(a.message_id) = 'text' AND length(a.message_id) <= 4096
LIMIT :limit

-- name: tool_state
SELECT current_tool, tool_declared_timeout_ms, tool_started_at FROM container_state WHERE id = 1

-- name: claim_of
SELECT CASE WHEN typeof(tries) = 'integer' THEN tries END, substr(CAST(reason AS TEXT), 1, 2000),
  CAST(claimed_at AS TEXT)
FROM tk_claim WHERE message_id = :id

-- ------------------------------------------------------------------ the host, when no container runs

-- name: release_claim
-- This claim only: the same message may have been claimed anew since it was read.
DELETE FROM processing_ack WHERE message_id = :id AND status = 'processing'
  AND CAST(status_changed AS TEXT) IS :claimed_at

-- name: out_replies
SELECT {out} FROM messages_out o WHERE o.in_reply_to = :id ORDER BY o.seq LIMIT :limit

-- ------------------------------------------------------------------ what the host takes over

-- piece: taken
CASE WHEN typeof(o.id) = 'text' AND length(o.id) <= 512 THEN o.id END, o.seq,
substr(CAST(o.channel_type AS TEXT), 1, 512), substr(CAST(o.platform_id AS TEXT), 1, 512),
substr(CAST(o.deliver_after AS TEXT), 1, 64), o.rowid

-- name: out_fresh
SELECT {taken} FROM messages_out o WHERE o.seq > :seq AND typeof(o.seq) = 'integer' ORDER BY o.seq LIMIT :limit

-- name: out_late
-- Written after we looked last, with a lower number or none: foreign programs may do that.
SELECT {taken} FROM messages_out o
WHERE o.rowid > :rowid AND (o.seq IS NULL OR typeof(o.seq) <> 'integer' OR o.seq <= :seq)
ORDER BY o.rowid LIMIT :limit

-- name: last_rowid
SELECT max(rowid) FROM messages_out

-- ------------------------------------------------------------------ pruning

-- name: delete_out
DELETE FROM messages_out WHERE id = :id

-- name: delete_out_hash
DELETE FROM tk_row_hash WHERE message_id = :id

-- name: delete_ack
DELETE FROM processing_ack WHERE message_id = :id AND status <> 'processing'

-- name: delete_claim
DELETE FROM tk_claim WHERE message_id = :id
