-- piece: mail
m.id, m.seq, m.kind, m.timestamp, m.status, m.process_after, m.recurrence, m.series_id, m.tries,
m.trigger, m.channel_type, m.platform_id, m.thread_id, m.content, m.source_session_id, m.on_wake

-- piece: due
(m.process_after IS NULL OR datetime(m.process_after) <= :now)

-- piece: unanswered
NOT EXISTS (SELECT 1 FROM outbound.processing_ack a WHERE a.message_id = m.id)

-- ------------------------------------------------------------------ writing mail

-- name: insert_mail
-- The number is taken inside the statement: no two writers can get the same one.
INSERT INTO messages_in (id, seq, kind, timestamp, status, process_after, recurrence, series_id, tries,
  trigger, platform_id, channel_type, thread_id, content, source_session_id, on_wake)
SELECT :id, max(COALESCE((SELECT max(seq) FROM messages_in), 0), 0) / 2 * 2 + 2, :kind, :timestamp,
  :status, :process_after, :recurrence, :series_id, 0, :trigger, :platform_id, :channel_type,
  :thread_id, :content, :source_session_id, :on_wake

-- name: mail
SELECT {mail} FROM messages_in m WHERE m.id = :id

-- name: mail_by_seq
SELECT {mail} FROM messages_in m WHERE m.seq = :seq

-- name: keep_hash
INSERT OR REPLACE INTO tk_row_hash (message_id, hash) VALUES (:id, :hash)

-- name: set_hops
INSERT OR REPLACE INTO tk_hops (message_id, hops) VALUES (:id, :hops)

-- name: hops_of
SELECT h.hops, m.seq, m.timestamp FROM tk_hops h JOIN messages_in m ON m.id = h.message_id WHERE m.id = :id

-- name: spoken_since
-- Has anybody but an agent said something after this number?
SELECT EXISTS (SELECT 1 FROM messages_in m WHERE m.seq > :seq AND m.trigger = 1
  AND m.channel_type IS NOT 'agent' AND m.kind <> 'system')

-- ------------------------------------------------------------------ reading mail

-- name: list_mail
SELECT {mail} FROM messages_in m
WHERE (CAST(:status AS TEXT) IS NULL OR m.status = :status)
  AND (CAST(:kind AS TEXT) IS NULL OR m.kind = :kind) AND m.seq > :after
ORDER BY m.seq LIMIT :limit

-- name: newest_mail
SELECT {mail} FROM messages_in m
WHERE (CAST(:status AS TEXT) IS NULL OR m.status = :status)
  AND (CAST(:kind AS TEXT) IS NULL OR m.kind = :kind)
ORDER BY m.seq DESC LIMIT :limit

-- name: count_due
SELECT count(*) FROM messages_in m WHERE m.status = 'pending' AND m.trigger = 1 AND {due}

-- name: poll
SELECT {mail} FROM messages_in m
WHERE m.status = 'pending' AND m.kind <> 'system' AND {due} AND m.on_wake = 0 AND {unanswered}
ORDER BY m.seq LIMIT :limit

-- name: poll_waking
SELECT {mail} FROM messages_in m
WHERE m.status = 'pending' AND m.kind <> 'system' AND {due} AND m.on_wake <> 0 AND {unanswered}
ORDER BY m.seq LIMIT :limit

-- name: poll_system
SELECT {mail} FROM messages_in m
WHERE m.status = 'pending' AND m.kind = 'system' AND {due} AND {unanswered}
ORDER BY m.seq LIMIT :limit

-- name: triggered
SELECT EXISTS (SELECT 1 FROM messages_in m WHERE m.status = 'pending' AND m.kind <> 'system'
  AND m.trigger = 1 AND {due} AND (m.on_wake = 0 OR :first) AND {unanswered})

-- name: answers_to
-- Ids of answers begin with the question's: a look into the key, not through the mail.
SELECT {mail} FROM messages_in m WHERE m.id >= :first AND m.id < :end ORDER BY m.seq

-- name: platform_id_of
SELECT platform_message_id FROM delivered WHERE message_out_id = :id

-- name: newest_of_place
-- A task for later is not what an answer of now is to.
SELECT m.id, m.thread_id FROM messages_in m
WHERE m.channel_type IS :channel_type AND m.platform_id IS :platform_id AND {due}
ORDER BY m.seq DESC LIMIT 1

-- name: newest_peer_session
SELECT m.source_session_id FROM messages_in m
WHERE m.channel_type = 'agent' AND m.platform_id = :platform_id AND m.source_session_id IS NOT NULL
ORDER BY m.seq DESC LIMIT 1

-- name: max_seq_in
SELECT max(seq) FROM messages_in

-- ------------------------------------------------------------------ answers of the container

-- name: answered
-- Open rows that the container is done with; costs what is open, not what was ever answered.
-- Any word but `processing` is an end, also one that a later version made up.
SELECT m.id, substr(CAST(a.status AS TEXT), 1, 200)
FROM messages_in m CROSS JOIN outbound.processing_ack a ON a.message_id = m.id
WHERE m.status = 'pending' AND a.status <> 'processing' AND typeof(m.id) = 'text'
UNION ALL
SELECT m.id, substr(CAST(a.status AS TEXT), 1, 200)
FROM messages_in m CROSS JOIN outbound.processing_ack a ON a.message_id = m.id
WHERE m.status = 'paused' AND a.status <> 'processing' AND typeof(m.id) = 'text'

-- name: ended_and_gone
-- Acks whose message was deleted; claims among them go with all others.
SELECT a.message_id FROM outbound.processing_ack a
WHERE a.status <> 'processing' AND typeof(a.message_id) = 'text'
  AND NOT EXISTS (SELECT 1 FROM messages_in m WHERE m.id = a.message_id) LIMIT :limit

-- name: settle
UPDATE messages_in SET status = :status, tries = max(COALESCE(tries, 0), :tries)
WHERE id = :id AND status IN ('pending', 'paused')

-- name: bury
INSERT INTO tk_dead (message_id, reason, at) VALUES (:id, :reason, :now)
ON CONFLICT (message_id) DO UPDATE SET reason = excluded.reason, at = excluded.at

-- name: retry_later
UPDATE messages_in SET tries = :tries, process_after = :due WHERE id = :id AND status = 'pending'

-- ------------------------------------------------------------------ tasks

-- name: live_tasks
SELECT {mail} FROM messages_in m
WHERE m.kind = 'task' AND m.status IN ('pending', 'paused') AND (m.id = :id OR m.series_id = :id)

-- name: all_live_tasks
-- One status at a time: each has its partial index, both together have none.
SELECT {mail} FROM messages_in m WHERE m.kind = 'task' AND m.status = 'pending'
UNION ALL
SELECT {mail} FROM messages_in m WHERE m.kind = 'task' AND m.status = 'paused'
ORDER BY 2

-- name: cancel_task
UPDATE messages_in SET status = :status, recurrence = NULL
WHERE kind = 'task' AND status IN ('pending', 'paused') AND (id = :id OR series_id = :id)

-- name: cancel_all_tasks
UPDATE messages_in SET status = :status, recurrence = NULL
WHERE kind = 'task' AND status IN ('pending', 'paused')

-- name: move_task
UPDATE messages_in SET status = :status
WHERE kind = 'task' AND status = :before AND (id = :id OR series_id = :id)

-- name: change_task
UPDATE messages_in SET content = :content, process_after = :process_after, recurrence = :recurrence
WHERE id = :id

-- name: task_rows
SELECT {mail} FROM messages_in m WHERE m.id = :id AND m.kind = 'task'
UNION ALL
SELECT {mail} FROM messages_in m WHERE m.series_id = :id AND m.id <> :id AND m.kind = 'task'
ORDER BY 2

-- name: task_ids
SELECT id FROM messages_in WHERE kind = 'task' AND (id = :id OR series_id = :id)

-- name: delete_mail
DELETE FROM messages_in WHERE id = :id

-- name: forget_hash
DELETE FROM tk_row_hash WHERE message_id = :id

-- name: forget_dead
DELETE FROM tk_dead WHERE message_id = :id

-- name: forget_hops
DELETE FROM tk_hops WHERE message_id = :id

-- name: series_history
-- How often the runs of a series came to an end, and when the last one was due that was completed.
SELECT count(*) FILTER (WHERE status = 'completed'), count(*) FILTER (WHERE status = 'failed'),
  max(process_after) FILTER (WHERE status = 'completed')
FROM messages_in WHERE kind = 'task' AND (id = :id OR series_id = :id)

-- name: to_rearm
-- The plus keeps SQLite from going through all mail in order, only to save a small sort.
SELECT {mail} FROM messages_in m
WHERE m.recurrence IS NOT NULL AND m.status IN ('completed', 'failed') ORDER BY +m.seq

-- name: runs_written_ahead
-- Runs to come whose row says that it was written later than now. The plus: few rows recur, many may be pending.
SELECT {mail} FROM messages_in m
WHERE m.recurrence IS NOT NULL AND +m.status IN ('pending', 'paused') AND datetime(m.timestamp) > :ahead

-- name: tries_put_off
-- A time in whole seconds is a pause after a try: what people and agents want has milliseconds.
SELECT {mail} FROM messages_in m
WHERE m.status = 'pending' AND m.tries > 0 AND datetime(m.process_after) > :ahead
  AND m.process_after NOT LIKE '%.%'

-- name: set_right
UPDATE messages_in SET process_after = :process_after, timestamp = :timestamp WHERE id = :id

-- name: clear_recurrence
UPDATE messages_in SET recurrence = NULL WHERE id = :id

-- name: failed_in_a_row
-- The runs of a series that failed since one went well; what was called off does not count.
SELECT count(*) FROM messages_in m
WHERE m.series_id = :series_id AND m.status = 'failed' AND m.seq > COALESCE(
  (SELECT max(seq) FROM messages_in WHERE series_id = :series_id AND status = 'completed'), 0)

-- name: live_row_of_series
SELECT m.id FROM messages_in m
WHERE m.series_id = :series_id AND m.recurrence IS NOT NULL AND m.status IN ('pending', 'paused')

-- ------------------------------------------------------------------ names and places

-- name: meta
SELECT value FROM tk_meta WHERE key = :key

-- name: set_meta
INSERT INTO tk_meta (key, value) VALUES (:key, :value) ON CONFLICT (key) DO UPDATE SET value = excluded.value

-- name: forget_meta
DELETE FROM tk_meta WHERE key = :key

-- name: destinations
SELECT name, display_name, type, channel_type, platform_id, agent_group_id FROM destinations ORDER BY name

-- name: drop_destination
DELETE FROM destinations WHERE name = :name

-- name: set_destination
-- In place: columns of a later version keep what they hold.
INSERT INTO destinations (name, display_name, type, channel_type, platform_id, agent_group_id)
VALUES (:name, :display_name, :type, :channel_type, :platform_id, :agent_group_id)
ON CONFLICT (name) DO UPDATE SET display_name = excluded.display_name, type = excluded.type,
  channel_type = excluded.channel_type, platform_id = excluded.platform_id,
  agent_group_id = excluded.agent_group_id

-- name: routing
SELECT channel_type, platform_id, thread_id FROM session_routing WHERE id = 1

-- name: set_routing
INSERT INTO session_routing (id, channel_type, platform_id, thread_id)
VALUES (1, :channel_type, :platform_id, :thread_id)
ON CONFLICT (id) DO UPDATE SET channel_type = excluded.channel_type,
  platform_id = excluded.platform_id, thread_id = excluded.thread_id

-- ------------------------------------------------------------------ deliveries

-- piece: delivery
message_out_id, seq, state, key, place, attempts, due, held, reason, changed

-- name: cursor
SELECT CASE WHEN typeof(seq) = 'integer' THEN seq END FROM tk_cursor WHERE name = :name

-- name: set_cursor
INSERT INTO tk_cursor (name, seq) VALUES (:name, :seq)
ON CONFLICT (name) DO UPDATE SET seq = max(CAST(tk_cursor.seq AS INTEGER), excluded.seq)

-- name: prepare
INSERT INTO tk_delivery (message_out_id, seq, state, key, place, due, held, changed)
SELECT :id, :seq, 'prepared', :key, :place, :due, :held, :now
WHERE NOT EXISTS (SELECT 1 FROM delivered WHERE message_out_id = :id)
ON CONFLICT (message_out_id) DO NOTHING

-- name: open_deliveries
SELECT {delivery} FROM tk_delivery
WHERE state IN ('prepared', 'sending') AND typeof(message_out_id) = 'text' ORDER BY seq

-- name: delivery
SELECT {delivery} FROM tk_delivery WHERE message_out_id = :id

-- name: dead_deliveries
SELECT {delivery} FROM tk_delivery WHERE state IN ('failed', 'unknown') ORDER BY seq

-- name: set_delivery
UPDATE tk_delivery SET state = :state, attempts = :attempts, due = :due, reason = :reason, changed = :now
WHERE message_out_id = :id

-- name: mark_delivered
INSERT OR IGNORE INTO delivered (message_out_id, platform_message_id, status, delivered_at)
VALUES (:id, :platform_message_id, :status, :now)

-- name: delivered
SELECT message_out_id, platform_message_id, status, delivered_at FROM delivered WHERE message_out_id = :id

-- name: forget_delivered
DELETE FROM delivered WHERE message_out_id = :id AND status = 'failed'

-- ------------------------------------------------------------------ dead letters

-- name: dead_mail
SELECT m.id, m.seq, m.status, COALESCE(d.reason, 'failed'), COALESCE(m.tries, 0),
  COALESCE(d.at, m.timestamp), d.retried_as, m.content
FROM messages_in m LEFT JOIN tk_dead d ON d.message_id = m.id
WHERE m.status = 'failed' AND d.purged_at IS NULL ORDER BY m.seq

-- name: dead_of
SELECT reason, at, retried_as, purged_at FROM tk_dead WHERE message_id = :id

-- name: set_retried
UPDATE tk_dead SET retried_as = :retried_as WHERE message_id = :id

-- name: purge_mail
UPDATE messages_in SET content = '{}' WHERE id = :id AND status = 'failed'

-- name: set_purged
UPDATE tk_dead SET purged_at = :now WHERE message_id = :id

-- ------------------------------------------------------------------ a look that changes nothing

-- name: open_mail
-- Words, not parameters: so each count is one partial index.
SELECT (SELECT count(*) FROM messages_in WHERE status = 'pending'),
  (SELECT count(*) FROM messages_in WHERE status = 'paused'),
  (SELECT count(*) FROM messages_in WHERE status = 'failed')

-- name: buried_and_done_with
SELECT count(*) FROM messages_in m CROSS JOIN tk_dead d ON d.message_id = m.id
WHERE m.status = 'failed' AND (d.retried_as IS NOT NULL OR d.purged_at IS NOT NULL)

-- name: our_tables
SELECT name FROM sqlite_master WHERE type = 'table' AND name IN ('tk_delivery', 'tk_cursor', 'tk_dead', 'tk_meta')

-- name: waiting_out
-- Not seen yet, and not sent by another host either.
SELECT count(*) FROM outbound.messages_out o WHERE o.seq > :after
  AND NOT EXISTS (SELECT 1 FROM delivered d WHERE d.message_out_id = o.id)

-- name: delivery_counts
SELECT (SELECT count(*) FROM tk_delivery WHERE state IN ('prepared', 'sending')),
  (SELECT count(*) FROM tk_delivery WHERE state IN ('failed', 'unknown'))

-- name: failed_deliveries
SELECT count(*) FROM delivered WHERE status = 'failed'

-- ------------------------------------------------------------------ settling, series, dead letters

-- name: tables_beside
SELECT name FROM outbound.sqlite_master WHERE type = 'table' AND name IN ('processing_ack', 'tk_claim', 'messages_out')

-- name: claims_by_us
SELECT count(*), count(t.message_id) FROM outbound.processing_ack a
LEFT JOIN outbound.tk_claim t ON t.message_id = a.message_id AND t.claimed_at = a.status_changed
WHERE a.status = 'processing'

-- name: overdue_unclaimed
-- Runs of a series that nobody has touched; with the policy that lets late ones go.
SELECT m.id FROM messages_in m
WHERE m.recurrence IS NOT NULL AND m.status = 'pending' AND COALESCE(m.tries, 0) = 0
  AND datetime(m.process_after) <= :now AND {unanswered}
ORDER BY m.seq

-- name: let_go
UPDATE messages_in SET status = 'completed' WHERE id = :id AND status = 'pending'

-- name: others_of_series
SELECT m.id, m.seq, m.timestamp FROM messages_in m
WHERE m.series_id = :series_id AND m.id <> :id ORDER BY m.seq

-- name: files_are_shared
SELECT EXISTS (SELECT 1 FROM messages_in m
  WHERE m.series_id = :series_id AND m.id <> :id AND instr(m.content, :path) > 0)

-- name: copy_hops
INSERT OR REPLACE INTO tk_hops (message_id, hops) SELECT :to, hops FROM tk_hops WHERE message_id = :id

-- name: retried_for
SELECT message_id, at FROM tk_dead WHERE retried_as = :id

-- name: dead_delivery_by_seq
SELECT {delivery} FROM tk_delivery WHERE seq = :seq

-- name: forget_delivery
DELETE FROM tk_delivery WHERE message_out_id = :id AND state IN ('failed', 'unknown')

-- name: notes_about
-- All words of the host itself, which stand together in the index of places.
SELECT {mail} FROM messages_in m
WHERE m.channel_type = 'agent' AND m.platform_id IS :platform_id AND instr(m.content, :about) > 0
ORDER BY m.seq

-- ------------------------------------------------------------------ mail between agents

-- name: newest_hop
-- The mail of an agent that came last.
SELECT h.hops, m.seq, m.timestamp FROM tk_hops h JOIN messages_in m ON m.id = h.message_id
ORDER BY h.rowid DESC LIMIT 1

-- ------------------------------------------------------------------ pruning

-- name: nth_newest_out
SELECT min(seq) FROM (SELECT seq FROM outbound.messages_out WHERE typeof(seq) = 'integer'
  ORDER BY seq DESC LIMIT :keep)

-- name: nth_newest_in
SELECT min(seq) FROM (SELECT seq FROM messages_in ORDER BY seq DESC LIMIT :keep)

-- name: prunable_out
-- Numbers and the order of writing go on from the newest row, so that one stays.
SELECT o.id, o.seq FROM outbound.messages_out o
WHERE typeof(o.id) = 'text' AND typeof(o.seq) = 'integer' AND o.seq < :below
  AND o.seq < (SELECT max(seq) FROM outbound.messages_out)
  AND o.rowid < (SELECT max(rowid) FROM outbound.messages_out)
  AND (CAST(:before AS TEXT) IS NULL OR datetime(o.timestamp) < :before)
  AND EXISTS (SELECT 1 FROM delivered d WHERE d.message_out_id = o.id)
  AND NOT EXISTS (SELECT 1 FROM messages_in m WHERE m.id = o.in_reply_to
    AND m.status IN ('pending', 'paused'))
ORDER BY o.seq

-- name: unfinished_deliveries
SELECT message_out_id FROM tk_delivery WHERE state <> 'sent'

-- name: prunable_acks
-- Answers that the host has taken over; without them mail that is still open would come again.
SELECT a.message_id FROM outbound.processing_ack a CROSS JOIN messages_in m ON m.id = a.message_id
WHERE a.status <> 'processing' AND typeof(a.message_id) = 'text'
  AND m.status NOT IN ('pending', 'paused') AND m.seq < :below
  AND (CAST(:before AS TEXT) IS NULL OR datetime(a.status_changed) < :before)

-- ------------------------------------------------------------------ the verifier

-- name: verify_mail
SELECT m.rowid, {mail}, typeof(m.content), typeof(m.tries),
  m.process_after IS NOT NULL AND datetime(m.process_after) IS NULL,
  (SELECT hash FROM main.tk_row_hash WHERE message_id = m.id)
FROM messages_in m WHERE m.rowid > :after ORDER BY m.rowid LIMIT :limit

-- name: verify_out
SELECT o.rowid, o.id, o.seq, o.in_reply_to, o.timestamp, o.deliver_after, o.kind, o.channel_type,
  o.platform_id, o.thread_id,
  CASE WHEN typeof(o.content) = 'text' AND length(CAST(o.content AS BLOB)) <= :cap THEN o.content END,
  EXISTS (SELECT 1 FROM delivered d WHERE d.message_out_id = o.id),
  (SELECT hash FROM outbound.tk_row_hash WHERE message_id = o.id)
FROM outbound.messages_out o WHERE o.rowid > :after ORDER BY o.rowid LIMIT :limit

-- name: verify_same_seq
SELECT seq, count(*) FROM messages_in WHERE seq IS NOT NULL GROUP BY seq HAVING count(*) > 1 LIMIT 100

-- name: verify_forks
SELECT COALESCE(m.series_id, m.id), count(*) FROM messages_in m
WHERE m.recurrence IS NOT NULL AND m.status IN ('pending', 'paused')
GROUP BY 1 HAVING count(*) > 1 LIMIT 100

-- name: verify_stray_acks
SELECT substr(a.message_id, 1, 200) FROM outbound.processing_ack a
WHERE NOT EXISTS (SELECT 1 FROM messages_in m WHERE m.id = a.message_id) LIMIT 100

-- name: verify_ghosts
SELECT d.message_out_id FROM delivered d
WHERE NOT EXISTS (SELECT 1 FROM outbound.messages_out o WHERE o.id = d.message_out_id) LIMIT 100

-- name: verify_ghosts_unpruned
SELECT d.message_out_id FROM delivered d JOIN tk_delivery t ON t.message_out_id = d.message_out_id
WHERE t.seq > (SELECT max(seq) FROM outbound.tk_pruned)
  AND NOT EXISTS (SELECT 1 FROM outbound.messages_out o WHERE o.id = d.message_out_id) LIMIT 100

-- name: verify_stragglers
-- Neither cursor comes by them again: one goes by the number, the other by when a row was written.
SELECT substr(o.id, 1, 200) FROM outbound.messages_out o
WHERE o.seq <= (SELECT seq FROM tk_cursor WHERE name = 'out')
  AND o.rowid <= COALESCE((SELECT seq FROM tk_cursor WHERE name = 'out_rowid'), o.rowid)
  AND NOT EXISTS (SELECT 1 FROM tk_delivery t WHERE t.message_out_id = o.id)
  AND NOT EXISTS (SELECT 1 FROM delivered d WHERE d.message_out_id = o.id) LIMIT 100
