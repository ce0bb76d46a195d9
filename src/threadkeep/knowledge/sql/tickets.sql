-- The queues of enrichment: how tickets are taken in hand. What is the same for each queue is in tickets.py.
-- A ticket may be taken while it is pending, or when the lock of the worker that has it is too old.
-- The plain queries look at the whole queue. Those of the front look at its first tickets only, which is the same
-- for a short queue: of 100,000 that wait, taking ten takes 168 ms the one way and 4 ms the other.

-- ------------------------------------------------------------------ commands

-- Tool calls of an agent whose session has a segment of its own: the node of that tells of them. One by one they were most of
-- the tickets that were ever taken.
-- name: skip_told
UPDATE enrichment_queue SET status = 'skipped', error_message = :message, updated_at = :now, locked_at = NULL, locked_by = NULL
WHERE status = 'pending' AND event_id IN (
  SELECT e.id FROM enrichment_queue AS q JOIN events AS e ON e.id = q.event_id JOIN sessions AS s ON s.id = e.session_id
  WHERE q.status = 'pending' AND e.source_kind = 'claude-tool' AND e.probe_tag IS NULL
    AND EXISTS (SELECT 1 FROM agentic_sessions AS a WHERE a.session_id = s.terminal AND a.probe_tag IS NULL)
) RETURNING event_id

-- A shell's session is taken when nothing was added for a while, the oldest first, and whole if it fits.
-- piece: take_shell
UPDATE enrichment_queue SET status = 'processing', locked_at = :now, locked_by = :worker, updated_at = :now WHERE id IN (

-- piece: quiet_sessions
), quiet AS (
  SELECT session_id, sum(count(*)) OVER oldest_first AS up_to_here, row_number() OVER oldest_first AS place
  FROM free GROUP BY session_id HAVING max(timestamp) < :quiet_since
  WINDOW oldest_first AS (ORDER BY min(timestamp), session_id)
)
SELECT free.id FROM quiet JOIN free ON free.session_id = quiet.session_id
WHERE quiet.up_to_here <= :limit OR quiet.place = 1
ORDER BY quiet.place, free.timestamp, free.id LIMIT :limit
) RETURNING id, event_id, priority, retry_count, max_retries

-- name: claim_shell
{take_shell} WITH free AS (
  SELECT q.id, e.session_id, e.timestamp FROM enrichment_queue AS q JOIN events AS e ON e.id = q.event_id
  WHERE (q.status = 'pending' OR (q.status = 'processing' AND coalesce(q.locked_at, 0) <= :stale)) AND e.probe_tag IS NULL
{quiet_sessions}

-- The sessions of the first tickets, with what waits of them among the next thousand as well: only so it is known whether
-- they are quiet. One with more than that is not looked through for every hundred: that would cost more the longer it is.
-- name: claim_shell_front
{take_shell} WITH near AS (
  SELECT q.id, e.session_id, e.timestamp, row_number() OVER (ORDER BY q.priority, q.id) AS place
  FROM (SELECT id, event_id, priority FROM enrichment_queue WHERE status = 'pending' ORDER BY priority, id LIMIT 2 * CAST(:front AS INTEGER)) AS q
  JOIN events AS e ON e.id = q.event_id WHERE e.probe_tag IS NULL
), free AS (
  SELECT id, session_id, timestamp FROM near WHERE session_id IN (SELECT session_id FROM near WHERE place <= :front)
{quiet_sessions}

-- name: claimed_shell
SELECT q.id FROM enrichment_queue AS q JOIN events AS e ON e.id = q.event_id
WHERE q.id IN ({ids:ids}) ORDER BY min(e.timestamp) OVER (PARTITION BY e.session_id), e.session_id, e.timestamp, q.id

-- ------------------------------------------------------------------ segments

-- Segments of one folder are taken together, the folder that waits longest first.
-- piece: take_segments
UPDATE agentic_enrichment_queue SET status = 'processing', locked_at = :now, locked_by = :worker, updated_at = :now
WHERE id IN (
  SELECT q.id FROM agentic_enrichment_queue AS q JOIN agentic_sessions AS a ON a.id = q.session_id

-- piece: by_folder
AND a.probe_tag IS NULL ORDER BY min(a.start_time) OVER (PARTITION BY a.cwd), a.cwd, a.start_time, q.id LIMIT :limit
) RETURNING id, session_id, priority, retry_count, max_retries

-- name: claim_agentic
{take_segments}
WHERE (q.status = 'pending' OR (q.status = 'skipped' AND q.locked_by = 'threadkeep')
  OR (q.status = 'processing' AND coalesce(q.locked_at, 0) <= :stale)) {by_folder}

-- name: claim_agentic_front
{take_segments}
WHERE q.id IN (
  SELECT id FROM (SELECT id FROM agentic_enrichment_queue WHERE status = 'pending' ORDER BY priority, id LIMIT :front)
  UNION ALL
  SELECT id FROM (
    SELECT id FROM agentic_enrichment_queue WHERE status = 'skipped' AND locked_by = 'threadkeep' ORDER BY priority, id LIMIT :front
  )
) {by_folder}

-- name: claimed_agentic
SELECT q.id FROM agentic_enrichment_queue AS q JOIN agentic_sessions AS a ON a.id = q.session_id
WHERE q.id IN ({ids:ids}) ORDER BY min(a.start_time) OVER (PARTITION BY a.cwd), a.cwd, a.start_time, q.id

-- name: hashes_of_segments
SELECT id, content_hash FROM agentic_sessions WHERE id IN ({ids:ids})

-- name: segments_without_news
SELECT id FROM agentic_sessions
WHERE id IN ({ids:ids}) AND content_hash = last_enriched_content_hash

-- A segment that changed meanwhile still has something to give; of one without a hash it cannot be told.
-- name: note_learned
UPDATE agentic_sessions SET last_enriched_content_hash = content_hash WHERE id = :id AND content_hash = :hash

-- The last try of these is over. One that grew in a lost worker's hands ended after it was taken: that is still to be told.
-- name: segments_given_up
SELECT a.id, a.content_hash FROM agentic_enrichment_queue AS q JOIN agentic_sessions AS a ON a.id = q.session_id
WHERE q.status = 'processing' AND q.retry_count + 1 >= q.max_retries AND (
  coalesce(q.locked_at, 0) <= :stale OR q.locked_at > :ahead OR q.locked_by IN ({texts:dead}))
  AND a.end_time <= coalesce(q.locked_at, a.end_time)

-- name: unlearn_segments
UPDATE agentic_sessions SET last_enriched_content_hash = NULL WHERE id IN ({ids:ids})

-- ------------------------------------------------------------------ visits and runs

-- piece: take_visits
UPDATE browser_enrichment_queue SET status = 'processing', locked_at = :now, locked_by = :worker, updated_at = :now
WHERE id IN (
  SELECT q.id FROM browser_enrichment_queue AS q JOIN browser_events AS v ON v.id = q.browser_event_id

-- piece: by_age
AND v.timestamp < :quiet_since AND v.probe_tag IS NULL ORDER BY q.priority, q.created_at, q.id LIMIT :limit
) RETURNING id, browser_event_id, priority, retry_count, max_retries

-- name: claim_browser
{take_visits}
WHERE (q.status = 'pending' OR (q.status = 'processing' AND coalesce(q.locked_at, 0) <= :stale)) {by_age}

-- name: claim_browser_front
{take_visits}
WHERE q.id IN (SELECT id FROM browser_enrichment_queue WHERE status = 'pending' ORDER BY priority, id LIMIT :front) {by_age}

-- name: claimed_browser
SELECT id FROM browser_enrichment_queue WHERE id IN ({ids:ids}) ORDER BY priority, created_at, id

-- name: claim_workflow
UPDATE workflow_enrichment_queue SET status = 'processing', locked_at = :now, locked_by = :worker, updated_at = :now
WHERE run_id IN (
  SELECT q.run_id FROM workflow_enrichment_queue AS q JOIN workflow_runs AS r ON r.id = q.run_id
  WHERE q.status = 'pending' OR (q.status = 'processing' AND coalesce(q.locked_at, 0) <= :stale)
  ORDER BY q.priority, q.enqueued_at, q.run_id LIMIT :limit
)
RETURNING run_id, run_id, priority, retry_count, max_retries

-- name: claim_memory
UPDATE memory_enrichment_queue SET status = 'processing', locked_at = :now, locked_by = :worker, updated_at = :now
WHERE id IN (
  SELECT q.id FROM memory_enrichment_queue AS q JOIN memory_revisions AS r ON r.id = q.revision_id
  JOIN memory_documents AS d ON d.id = r.document_id
  WHERE (q.status = 'pending' OR (q.status = 'processing' AND coalesce(q.locked_at, 0) <= :stale)) AND d.repository != 'hippo/__hippo_probe__'
  ORDER BY q.priority, q.enqueued_at, q.id LIMIT :limit
)
RETURNING id, revision_id, priority, retry_count, max_retries

-- name: claimed_memory
SELECT id FROM memory_enrichment_queue WHERE id IN ({ids:ids}) ORDER BY priority, enqueued_at, id

-- name: claimed_workflow
SELECT run_id FROM workflow_enrichment_queue WHERE run_id IN ({ids:ids}) ORDER BY priority, enqueued_at, run_id
