-- What nodes are derived from, read whole. Probes are never among it.

-- name: evidence_commands
SELECT id, session_id, timestamp, command, stdout, stderr, exit_code, duration_ms, cwd, git_repo, git_branch, git_commit, source_kind, tool_name
FROM events WHERE id IN ({ids:ids}) AND probe_tag IS NULL ORDER BY session_id, timestamp, id

-- name: evidence_visits
SELECT id, timestamp, url, title, domain, dwell_ms, search_query, extracted_text, scroll_depth
FROM browser_events WHERE id IN ({ids:ids}) AND probe_tag IS NULL ORDER BY timestamp, id

-- name: evidence_visits_around
SELECT id, timestamp, url, title, domain, dwell_ms, search_query, NULL, scroll_depth
FROM browser_events WHERE timestamp BETWEEN :since AND :until AND probe_tag IS NULL ORDER BY timestamp, id LIMIT :limit

-- name: evidence_segments
SELECT id, harness, session_id, segment_index, cwd, project_dir, git_branch, title, is_subagent, summary_text, user_prompts_json, tool_calls_json,
  commit_messages_json, snapshot_diffs_json, start_time, end_time, message_count, {count_prompts}, {count_tools}
FROM agentic_sessions WHERE id IN ({ids:ids}) AND probe_tag IS NULL ORDER BY start_time, id

-- name: evidence_session
SELECT id, first_prompt FROM tk_sessions WHERE harness = :harness AND session_id = :session_id

-- name: evidence_spans
SELECT id, start_time, end_time, {count_prompts}, {count_tools}, source_file FROM agentic_sessions
WHERE session_id = :session_id AND harness = :harness AND probe_tag IS NULL ORDER BY start_time, segment_index

-- piece: count_prompts
CASE WHEN json_valid(user_prompts_json) THEN json_array_length(user_prompts_json) ELSE 0 END

-- piece: count_tools
CASE WHEN json_valid(tool_calls_json) THEN json_array_length(tool_calls_json) ELSE 0 END

-- What was thought is left out: it is long, and what came of it was said or done.
-- name: evidence_moments
SELECT e.id, e.at, e.kind, l.path FROM tk_entries AS e LEFT JOIN tk_logs AS l ON l.id = e.log_id
WHERE e.session = :session AND e.at IS NOT NULL AND e.kind NOT IN ('reasoning', 'copy') ORDER BY l.path, e.at, e.log_id, e.line, e.part

-- name: evidence_entries
SELECT id, session, key, log_id, line, part, role, kind, at, tool, error, hash FROM tk_entries
WHERE id IN ({ids:ids}) ORDER BY log_id, line, part

-- name: evidence_run
SELECT id, repo, head_sha, head_branch, event, conclusion, html_url, actor, raw_json, started_at, completed_at FROM workflow_runs WHERE id = :id

-- name: evidence_jobs
SELECT id, name, conclusion FROM workflow_jobs WHERE run_id = :id ORDER BY started_at NULLS FIRST, id

-- name: evidence_remarks
SELECT level, tool, rule_id, path, start_line, message FROM workflow_annotations WHERE job_id = :id ORDER BY id LIMIT :limit

-- name: evidence_excerpts
SELECT substr(excerpt, -:length) FROM workflow_log_excerpts WHERE job_id = :id ORDER BY id
