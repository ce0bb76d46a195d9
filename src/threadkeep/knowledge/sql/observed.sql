-- What shells and browsers report, written and read. Whatever a user sees leaves probes out.

-- ------------------------------------------------------------------ commands

-- name: was_forgotten
SELECT 1 FROM tk_forgotten_events WHERE envelope_id = :envelope

-- name: remember_forgotten_event
INSERT INTO tk_forgotten_events (envelope_id) SELECT envelope_id FROM events WHERE id = :id AND envelope_id IS NOT NULL ON CONFLICT DO NOTHING

-- name: forgotten_command
SELECT e.command, t.started_at FROM events AS e JOIN tk_events AS t ON t.event_id = e.id WHERE e.id = :id

-- name: remember_forgotten_command
INSERT INTO tk_forgotten_commands (digest, started_at) VALUES (:digest, :started) ON CONFLICT DO NOTHING

-- name: was_forgotten_then
SELECT 1 FROM tk_forgotten_commands WHERE digest = :digest AND started_at BETWEEN CAST(:started AS INTEGER) - CAST(:slack AS INTEGER) AND CAST(:started AS INTEGER) + CAST(:slack AS INTEGER) LIMIT 1

-- name: was_ever_forgotten
SELECT 1 FROM tk_forgotten_commands WHERE digest = :digest LIMIT 1

-- name: remember_forgotten_visit
INSERT INTO tk_forgotten_events (envelope_id) SELECT envelope_id FROM browser_events WHERE id = :id AND envelope_id IS NOT NULL ON CONFLICT DO NOTHING

-- name: put_snapshot
INSERT INTO env_snapshots (content_hash, env_json, created_at) VALUES (:hash, :json, :now) ON CONFLICT DO NOTHING

-- name: snapshot
SELECT id FROM env_snapshots WHERE content_hash = :hash

-- The same thing that came another way: the same words in the same shell at the same time. A history knows no shell.
-- name: seen_another_way
SELECT 1 FROM tk_events AS t JOIN events AS e ON e.id = t.event_id JOIN sessions AS s ON s.id = e.session_id
WHERE t.origin = :other AND t.started_at BETWEEN :first AND :last AND e.command = :command AND e.probe_tag IS NULL
  AND e.source_kind = 'shell' AND (s.terminal = :session OR 'history' IN (t.origin, :origin)) LIMIT 1

-- Rows that another program wrote since the last time are looked up as those that came over the socket. Its rows
-- have larger numbers than our last one.
-- name: note_others
INSERT INTO tk_events (event_id, origin, started_at)
SELECT id, 'socket', timestamp - duration_ms FROM events
WHERE id > (SELECT coalesce(max(event_id), 0) FROM tk_events) AND source_kind = 'shell' AND probe_tag IS NULL

-- name: known_command
SELECT 1 FROM events WHERE command = :command AND probe_tag IS NULL LIMIT 1

-- name: event_by_envelope
SELECT id, exit_code FROM events WHERE envelope_id = :envelope

-- name: insert_command
INSERT INTO events (session_id, timestamp, command, stdout, stderr, stdout_truncated, stderr_truncated, exit_code, duration_ms, cwd, hostname,
  shell, git_repo, git_branch, git_commit, git_dirty, env_snapshot_id, envelope_id, source_kind, tool_name, redaction_count, probe_tag, created_at)
VALUES (:session_id, :at, :command, :stdout, :stderr, :stdout_truncated, :stderr_truncated, :exit_code, :duration, :cwd, :hostname, :shell,
  :git_repo, :git_branch, :git_commit, :git_dirty, :snapshot, :envelope, :source_kind, :tool_name, :redactions, :probe_tag, :now)

-- A command that was reported when it began has ended.
-- name: end_command
UPDATE events SET timestamp = :at, exit_code = :exit_code, duration_ms = :duration, stdout = coalesce(:stdout, stdout),
  stdout_truncated = coalesce(:stdout_truncated, stdout_truncated), stderr = coalesce(:stderr, stderr),
  stderr_truncated = coalesce(:stderr_truncated, stderr_truncated), redaction_count = :redactions,
  env_snapshot_id = coalesce(:snapshot, env_snapshot_id) WHERE id = :id

-- name: note_origin
INSERT INTO tk_events (event_id, origin, started_at, running) VALUES (:event, :origin, :started, :running)

-- name: note_end
UPDATE tk_events SET running = 0 WHERE event_id = :id

-- name: enqueue_command
INSERT INTO enrichment_queue (event_id, status, max_retries, created_at, updated_at) VALUES (:event, 'pending', 5, :now, :now) ON CONFLICT DO NOTHING

-- Commands that never came to an end are done after a day.
-- name: unended_commands
SELECT 1 FROM tk_events WHERE running = 1 AND started_at < :before LIMIT 1

-- name: enqueue_unended
INSERT INTO enrichment_queue (event_id, status, max_retries, created_at, updated_at)
SELECT e.id, 'pending', 5, :now, :now FROM tk_events AS t JOIN events AS e ON e.id = t.event_id
WHERE t.running = 1 AND t.started_at < :before AND e.probe_tag IS NULL ON CONFLICT DO NOTHING

-- name: give_up_unended
UPDATE tk_events SET running = 0 WHERE running = 1 AND started_at < :before

-- name: put_shell_environment
INSERT INTO tk_shells (session, pid, snapshot, seen_at) VALUES (:session, :pid, :snapshot, :now)
ON CONFLICT (session, pid) DO UPDATE SET snapshot = excluded.snapshot, seen_at = excluded.seen_at

-- name: shell_environment
SELECT snapshot FROM tk_shells WHERE session = :session AND pid = :pid

-- name: forget_old_shells
DELETE FROM tk_shells WHERE seen_at < :before

-- ------------------------------------------------------------------ visits

-- name: visit_by_envelope
SELECT id FROM browser_events WHERE envelope_id = :envelope

-- name: insert_visit
INSERT INTO browser_events (timestamp, url, title, domain, dwell_ms, scroll_depth, extracted_text, search_query, referrer, content_hash,
  envelope_id, probe_tag, created_at)
VALUES (:at, :url, :title, :domain, :dwell, :scroll, :text, :query, :referrer, :hash, :envelope, :probe_tag, :now)

-- A later look at the same page in the same span of time: the longer one stands.
-- name: lengthen_visit
UPDATE browser_events SET dwell_ms = :dwell, scroll_depth = max(coalesce(scroll_depth, :scroll), coalesce(:scroll, scroll_depth)),
  title = coalesce(nullif(:title, ''), title), extracted_text = coalesce(nullif(:text, ''), extracted_text),
  content_hash = CASE WHEN coalesce(:text, '') = '' THEN content_hash ELSE :hash END, search_query = coalesce(search_query, :query), referrer = coalesce(referrer, :referrer),
  enriched = CASE WHEN coalesce(:text, '') = '' OR content_hash IS NOT DISTINCT FROM :hash THEN enriched ELSE 0 END
WHERE id = :id AND dwell_ms < :dwell

-- name: enqueue_visit
INSERT INTO browser_enrichment_queue (browser_event_id, status, max_retries, created_at, updated_at) VALUES (:event, 'pending', 5, :now, :now)
ON CONFLICT (browser_event_id) DO UPDATE SET status = 'pending', retry_count = 0, error_message = NULL, updated_at = excluded.updated_at
WHERE browser_enrichment_queue.status IN ('done', 'failed', 'skipped')

-- name: is_enriched_visit
SELECT enriched FROM browser_events WHERE id = :id

-- ------------------------------------------------------------------ the spool

-- name: spool_cursor
SELECT "offset", skipping FROM tk_spool WHERE name = :name

-- name: move_spool_cursor
INSERT INTO tk_spool (name, "offset", skipping, updated_at) VALUES (:name, :offset, :skipping, :now)
ON CONFLICT (name) DO UPDATE SET "offset" = excluded."offset", skipping = excluded.skipping, updated_at = excluded.updated_at

-- name: spool_names
SELECT name FROM tk_spool WHERE updated_at < :before

-- name: drop_spool_cursor
DELETE FROM tk_spool WHERE name = :name

-- ------------------------------------------------------------------ health

-- name: count_drop
INSERT INTO tk_drops (source, reason, count, last_at) VALUES (:source, :reason, :count, :now)
ON CONFLICT (source, reason) DO UPDATE SET count = tk_drops.count + excluded.count, last_at = excluded.last_at

-- name: drops
SELECT source, reason, count, last_at FROM tk_drops ORDER BY source, reason

-- name: note_probe
INSERT INTO source_health (source, probe_ok, probe_lag_ms, probe_last_run_ts, updated_at) VALUES (:source, :ok, :lag, :now, :now)
ON CONFLICT (source) DO UPDATE SET probe_ok = excluded.probe_ok, probe_lag_ms = excluded.probe_lag_ms,
  probe_last_run_ts = excluded.probe_last_run_ts, updated_at = excluded.updated_at

-- name: recount_events
UPDATE source_health SET updated_at = :now,
  events_last_1h = (SELECT count(*) FROM events WHERE source_kind = :kind AND probe_tag IS NULL AND timestamp > CAST(:now AS INTEGER) - 3600000),
  events_last_24h = (SELECT count(*) FROM events WHERE source_kind = :kind AND probe_tag IS NULL AND timestamp > CAST(:now AS INTEGER) - 86400000)
WHERE source = :kind

-- name: recount_visits
UPDATE source_health SET updated_at = :now,
  events_last_1h = (SELECT count(*) FROM browser_events WHERE probe_tag IS NULL AND timestamp > CAST(:now AS INTEGER) - 3600000),
  events_last_24h = (SELECT count(*) FROM browser_events WHERE probe_tag IS NULL AND timestamp > CAST(:now AS INTEGER) - 86400000)
WHERE source = 'browser'

-- name: heartbeat_at
INSERT INTO source_health (source, last_heartbeat_ts, last_error_msg, last_error_ts, updated_at)
VALUES (:source, :at, :error, CASE WHEN CAST(:error AS TEXT) IS NOT NULL THEN CAST(:now AS INTEGER) END, :now)
ON CONFLICT (source) DO UPDATE SET last_heartbeat_ts = max(coalesce(source_health.last_heartbeat_ts, 0), excluded.last_heartbeat_ts),
  last_error_msg = excluded.last_error_msg, last_error_ts = excluded.last_error_ts, updated_at = excluded.updated_at

-- name: all_health
SELECT source, last_event_ts, last_success_ts, last_error_ts, last_error_msg, consecutive_failures, events_last_1h, events_last_24h,
  probe_ok, probe_lag_ms, probe_last_run_ts, last_heartbeat_ts FROM source_health ORDER BY source

-- name: old_probes
DELETE FROM events WHERE probe_tag IS NOT NULL AND created_at < :before

-- name: old_visit_probes
DELETE FROM browser_events WHERE probe_tag IS NOT NULL AND created_at < :before

-- name: probe_arrived
SELECT created_at FROM events WHERE probe_tag = :tag UNION ALL SELECT created_at FROM browser_events WHERE probe_tag = :tag LIMIT 1

-- ------------------------------------------------------------------ what users see

-- name: list_shell_sessions
SELECT s.id, s.start_time, s.end_time, s.terminal, s.shell, s.hostname, s.username, s.summary,
  (SELECT count(*) FROM events AS e WHERE e.session_id = s.id AND e.probe_tag IS NULL) AS commands
FROM sessions AS s WHERE (CAST(:since AS INTEGER) IS NULL OR s.start_time >= :since)
  AND EXISTS (SELECT 1 FROM events AS e WHERE e.session_id = s.id AND e.probe_tag IS NULL)
ORDER BY s.start_time DESC, s.id DESC LIMIT :limit

-- name: list_entities
SELECT id, type, name, canonical, first_seen, last_seen FROM entities WHERE (CAST(:type AS TEXT) IS NULL OR type = :type)
ORDER BY last_seen DESC, id DESC LIMIT :limit

-- name: today
SELECT (SELECT count(*) FROM events WHERE probe_tag IS NULL AND timestamp >= :midnight),
  (SELECT count(*) FROM sessions AS s WHERE s.start_time >= :midnight
    AND EXISTS (SELECT 1 FROM events AS e WHERE e.session_id = s.id AND e.probe_tag IS NULL)),
  (SELECT count(*) FROM enrichment_queue WHERE status = 'pending'),
  (SELECT count(*) FROM enrichment_queue WHERE status = 'failed'),
  (SELECT coalesce(sum(count), 0) FROM tk_drops WHERE reason <> 'excluded')
