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

-- name: failed_results
SELECT {place}, s.session_id, s.harness, s.cwd, s.project, f.rank FROM tk_entry_words AS f
JOIN tk_entries AS e ON e.id = f.rowid JOIN tk_sessions AS s ON s.id = e.session
WHERE tk_entry_words MATCH :match AND e.kind = 'tool_result' AND e.error = 1 AND {no_probe}
  AND (CAST(:harness AS TEXT) IS NULL OR s.harness = :harness)
  AND (CAST(:project AS TEXT) IS NULL OR s.project = :project OR s.cwd = :project OR s.cwd LIKE :project_below ESCAPE '\')
  AND (CAST(:branch AS TEXT) IS NULL OR s.git_branch = :branch)
  AND (CAST(:since AS INTEGER) IS NULL OR e.at >= :since) AND (CAST(:until AS INTEGER) IS NULL OR e.at < :until)
ORDER BY f.rank LIMIT :limit

-- name: later_calls
SELECT {place}, s.session_id, s.harness, s.cwd, s.project FROM tk_entry_words AS f
JOIN tk_entries AS e ON e.id = f.rowid JOIN tk_sessions AS s ON s.id = e.session
WHERE tk_entry_words MATCH :match AND e.kind = 'tool_call' AND e.at > :at AND (s.project = :project OR s.cwd = :cwd) AND e.session <> :session
  AND {no_probe}
ORDER BY e.at LIMIT :limit

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

-- name: sessions_in_span
SELECT s.id, s.harness, s.session_id, s.project, s.ended_at FROM tk_sessions AS s
WHERE coalesce(s.ended_at, 0) >= :since AND coalesce(s.started_at, 0) < :until AND s.hidden = 0 AND s.is_subagent = 0 AND s.entries > 0 AND {no_probe}
  AND (CAST(:project AS TEXT) IS NULL OR s.project = :project OR s.cwd = :project OR s.cwd LIKE :project_below ESCAPE '\')
ORDER BY s.ended_at DESC LIMIT :limit

-- name: turns_in_span
SELECT {place} FROM tk_entries AS e WHERE e.session = :session AND e.at >= :since AND e.at < :until
  AND e.kind IN ('prompt', 'text', 'tool_call', 'tool_result') ORDER BY e.log_id, e.line, e.part

-- piece: command
e.id, e.timestamp, e.command, e.exit_code, e.duration_ms, e.cwd, e.git_repo, e.git_branch, e.git_commit, e.source_kind, e.tool_name

-- piece: commands
FROM events AS e WHERE e.timestamp >= :since AND e.timestamp < :until AND e.probe_tag IS NULL
  AND (CAST(:project AS TEXT) IS NULL OR e.cwd = :project OR e.cwd LIKE :project_below ESCAPE '\' OR e.cwd LIKE :project_named ESCAPE '\'
    OR e.cwd LIKE :project_in ESCAPE '\' OR e.git_repo = :project OR e.git_repo LIKE :project_named ESCAPE '\')
ORDER BY e.timestamp DESC, e.id DESC LIMIT :limit

-- Tool calls of sessions that are archived are told with their turns, but for commits.
-- name: commands_in_span
SELECT {command}, e.source_kind = 'shell'
  OR NOT EXISTS (SELECT 1 FROM tk_sessions AS t JOIN sessions AS s ON s.terminal = t.session_id WHERE s.id = e.session_id)
{commands}

-- name: commands_without_archive
SELECT {command}, 1 {commands}

-- piece: segments
SELECT a.id, a.start_time, a.harness, a.session_id, a.title, substr(a.summary_text, 1, 1000), a.cwd FROM agentic_sessions AS a
WHERE a.end_time >= :since AND a.start_time < :until AND a.probe_tag IS NULL AND a.is_subagent = 0
  AND (CAST(:project AS TEXT) IS NULL OR a.cwd = :project OR a.cwd LIKE :project_below ESCAPE '\' OR a.cwd LIKE :project_named ESCAPE '\'
    OR a.cwd LIKE :project_in ESCAPE '\')

-- name: segments_in_span
{segments} AND NOT EXISTS (SELECT 1 FROM tk_sessions AS t WHERE t.harness = a.harness AND t.session_id = a.session_id)
ORDER BY a.start_time DESC LIMIT :limit

-- name: segments_without_archive
{segments} ORDER BY a.start_time DESC LIMIT :limit

-- name: visits_in_span
SELECT id, timestamp, url, title, search_query FROM browser_events
WHERE timestamp >= :since AND timestamp < :until AND probe_tag IS NULL ORDER BY timestamp DESC, id DESC LIMIT :limit

-- name: ci_in_span
SELECT r.id, coalesce(r.completed_at, r.started_at, r.first_seen_at), r.repo, r.head_sha, r.head_branch, r.event, r.status, r.conclusion, r.raw_json
FROM workflow_runs AS r
WHERE coalesce(r.completed_at, r.started_at, r.first_seen_at) >= :since AND coalesce(r.completed_at, r.started_at, r.first_seen_at) < :until
  AND (CAST(:project AS TEXT) IS NULL OR r.repo = :project OR r.repo LIKE :project_named ESCAPE '\' OR '/' || r.repo LIKE :project_tail ESCAPE '\')
ORDER BY 2 DESC LIMIT :limit
