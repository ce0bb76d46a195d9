-- What timelines and looks for a fix read: work in the order of time, and archived tool calls.

-- piece: place
e.id, e.session, e.key, e.log_id, e.line, e.part, e.role, e.kind, e.at, e.tool, e.error, e.hash

-- Conversations of probes are in the archive like all others.
-- piece: no_probe
NOT EXISTS (SELECT 1 FROM agentic_sessions AS p WHERE p.session_id = s.session_id AND p.harness = s.harness AND p.probe_tag IS NOT NULL)

-- ------------------------------------------------------------------ archived tool calls

-- name: entries_to
SELECT max(id) FROM (SELECT id FROM tk_entries WHERE id > :after ORDER BY id LIMIT :limit)

-- Claude Code's calls are events, too, and are counted there.
-- name: results_between
SELECT {place}, s.session_id, s.harness, s.cwd FROM tk_entries AS e JOIN tk_sessions AS s ON s.id = e.session
WHERE e.id > :after AND e.id <= :upto AND e.kind = 'tool_result' AND s.harness <> 'claude-code' AND {no_probe} ORDER BY e.id

-- name: calls_before
SELECT {place} FROM tk_entries AS e
WHERE e.log_id = :log AND (e.line, e.part) < (:line, :part) AND e.kind = 'tool_call' AND e.session = :session
ORDER BY e.line DESC, e.part DESC LIMIT :limit

-- name: entries_behind
SELECT {place} FROM tk_entries AS e WHERE e.log_id = :log AND (e.line, e.part) > (:line, :part) AND e.session = :session
ORDER BY e.line, e.part LIMIT :limit

-- name: later_calls
SELECT {place}, s.session_id, s.harness, s.cwd, s.project FROM {matching:tk_entry_words} AS f
JOIN tk_entries AS e ON e.id = f.id JOIN tk_sessions AS s ON s.id = e.session
WHERE e.kind = 'tool_call' AND e.at > :at AND (s.project = :project OR s.cwd = :cwd) AND e.session <> :session
  AND {no_probe}
ORDER BY e.at NULLS FIRST LIMIT :limit

-- name: result_behind
SELECT {place} FROM tk_entries AS e
WHERE e.log_id = :log AND (e.line, e.part) > (:line, :part) AND e.kind = 'tool_result' AND e.session = :session
ORDER BY e.line, e.part LIMIT :limit

-- ------------------------------------------------------------------ commands

-- name: runs_since
SELECT e.id, e.timestamp, e.command, e.tool_name, e.exit_code, e.cwd, e.git_repo, e.session_id
FROM events AS e WHERE e.timestamp >= :at AND e.probe_tag IS NULL AND e.id <> :id ORDER BY e.timestamp, e.id LIMIT :limit

-- For a file without an index of commands.
-- name: newest_failures
SELECT id FROM events WHERE exit_code <> 0 AND probe_tag IS NULL ORDER BY timestamp DESC, id DESC LIMIT :limit

-- name: ci_failed_steps
SELECT r.id, r.repo, r.head_sha, r.head_branch, coalesce(r.started_at, r.first_seen_at), j.name
FROM workflow_runs AS r JOIN workflow_jobs AS j ON j.run_id = r.id WHERE r.id = :id AND j.conclusion IN ('failure', 'timed_out', 'startup_failure')
ORDER BY j.id

-- name: ci_texts
SELECT message FROM workflow_annotations WHERE job_id IN (SELECT id FROM workflow_jobs WHERE run_id = :id)
UNION ALL SELECT excerpt FROM workflow_log_excerpts WHERE job_id IN (SELECT id FROM workflow_jobs WHERE run_id = :id)

-- ------------------------------------------------------------------ timelines

-- name: turns_in_span
SELECT {place} FROM tk_entries AS e WHERE e.session = :session AND e.at >= :since AND e.at < :until
  AND e.kind IN ('prompt', 'text', 'tool_call', 'tool_result') ORDER BY e.log_id, e.line, e.part

-- name: visits_in_span
SELECT id, timestamp, url, title, search_query FROM browser_events
WHERE timestamp >= :since AND timestamp < :until AND probe_tag IS NULL ORDER BY timestamp DESC, id DESC LIMIT :limit
