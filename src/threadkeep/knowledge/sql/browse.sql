-- What surfaces read: lists of sessions, windows of a transcript, sums, and views of memory.

-- piece: session
s.id, s.harness, s.session_id, s.parent_session_id, s.is_subagent, s.hidden, s.title, s.agent, s.model, s.cwd, s.project, s.git_branch,
s.slug, s.version, s.first_prompt, s.started_at, s.ended_at, s.entries, s.prompts, s.tool_calls, s.errors

-- piece: entry
e.id, e.session, e.key, e.log_id, e.line, e.part, e.role, e.kind, e.at, e.tool, e.error, e.hash

-- piece: shown
s.hidden = 0 AND s.is_subagent = 0 AND s.entries > 0

-- From which size of a request on providers charge more (see prices.STEPS).
-- piece: step
CASE WHEN u.input + u.cache_read + u.cache_write <= 32000 THEN 0 ELSE (
  SELECT max(column1) FROM (VALUES (32000), (100000), (128000), (199999), (200000), (256000), (272000), (512000), (524288))
  WHERE column1 < u.input + u.cache_read + u.cache_write) END

-- piece: spent
count(*), sum(u.input), sum(u.output), sum(u.cache_read), sum(u.cache_write), sum(u.cache_write_1h), sum(u.reasoning)

-- ------------------------------------------------------------------ lists

-- name: browse_sums
SELECT u.session, u.harness, u.model, {step}, max(u.at), {spent}
FROM json_each(:ids) AS i CROSS JOIN tk_usage AS u ON u.session = i.value GROUP BY u.session, u.model, u.harness, 4

-- name: browse_children
SELECT s.harness, s.parent_session_id, count(*) FROM json_each(:ids) AS i CROSS JOIN tk_sessions AS s ON s.parent_session_id = i.value
WHERE s.entries > 0 GROUP BY s.harness, s.parent_session_id

-- name: browse_matches
SELECT e.session, max(e.id) FROM (
  SELECT rowid AS id FROM tk_entry_words WHERE tk_entry_words MATCH :match ORDER BY rowid DESC LIMIT :limit
) AS f CROSS JOIN tk_entries AS e ON e.id = f.id GROUP BY e.session

-- name: browse_ended_badly
SELECT i.value FROM json_each(:ids) AS i
WHERE (SELECT e.error FROM tk_entries AS e WHERE e.session = i.value AND e.kind = 'tool_result' ORDER BY e.id DESC LIMIT 1) = 1

-- name: browse_newer
SELECT s.harness, s.session_id FROM tk_sessions AS s
WHERE {shown} AND (s.ended_at, s.id) > (:at, :id) ORDER BY s.ended_at, s.id LIMIT 1

-- name: browse_older
SELECT s.harness, s.session_id FROM tk_sessions AS s
WHERE {shown} AND (s.ended_at, s.id) < (:at, :id) ORDER BY s.ended_at DESC, s.id DESC LIMIT 1

-- ------------------------------------------------------------------ one session

-- name: browse_session
SELECT {session} FROM tk_sessions AS s WHERE s.harness = :harness AND s.session_id = :session_id

-- name: browse_log_path
SELECT path FROM tk_logs WHERE harness = :harness AND session_id = :session_id ORDER BY lines DESC, id LIMIT 1

-- name: browse_log_of_entries
SELECT l.path FROM tk_entries AS e JOIN tk_logs AS l ON l.id = e.log_id WHERE e.session = :session LIMIT 1

-- name: browse_outline
SELECT {entry}, l.item <> '' FROM tk_entries AS e LEFT JOIN tk_logs AS l ON l.id = e.log_id WHERE e.session = :session
ORDER BY e.log_id, e.line, e.part

-- name: browse_usage_of_session
SELECT u.at, u.harness, u.model, u.input, u.output, u.cache_read, u.cache_write, u.cache_write_1h
FROM tk_usage AS u WHERE u.session = :session ORDER BY u.at

-- name: browse_matches_within
SELECT e.id FROM tk_entry_words AS f CROSS JOIN tk_entries AS e ON e.id = f.rowid
WHERE tk_entry_words MATCH :match AND f.rowid BETWEEN :first AND :last AND e.session = :session LIMIT :limit

-- ------------------------------------------------------------------ what is new

-- name: browse_changed
SELECT DISTINCT s.harness, s.session_id FROM (SELECT session FROM tk_entries WHERE id > :mark ORDER BY id DESC LIMIT :limit) AS e
JOIN tk_sessions AS s ON s.id = e.session

-- ------------------------------------------------------------------ a day

-- name: browse_messages_since
SELECT count(*) FROM tk_sessions AS s JOIN tk_entries AS e ON e.session = s.id
WHERE s.ended_at >= :since AND e.at >= :since AND e.kind IN ('prompt', 'text')

-- name: browse_commands_since
SELECT count(*) FROM events WHERE timestamp >= :since AND probe_tag IS NULL AND source_kind = 'shell'

-- name: browse_pages_since
SELECT count(*) FROM browser_events WHERE timestamp >= :since AND probe_tag IS NULL

-- name: browse_runs_since
SELECT count(*) FROM workflow_runs WHERE coalesce(started_at, first_seen_at) >= :since
