-- What a command that follows reads: the newest entries, and what answers took lately.

-- piece: session
s.id, s.harness, s.session_id, s.parent_session_id, s.is_subagent, s.hidden, s.title, s.agent, s.model, s.cwd, s.project, s.git_branch,
s.slug, s.version, s.first_prompt, s.started_at, s.ended_at, s.entries, s.prompts, s.tool_calls, s.errors

-- piece: entry
e.id, e.session, e.key, e.log_id, e.line, e.part, e.role, e.kind, e.at, e.tool, e.error, e.hash

-- piece: meant
(CAST(:session AS INTEGER) IS NULL OR s.id = :session)
  AND (CAST(:session AS INTEGER) IS NOT NULL OR s.hidden = 0)
  AND (CAST(:harness AS TEXT) IS NULL OR s.harness = :harness)
  AND (CAST(:project AS TEXT) IS NULL OR s.project = :project OR s.cwd = :project OR s.cwd LIKE :project_below ESCAPE '\')
  AND NOT EXISTS (SELECT 1 FROM agentic_sessions AS p
    WHERE p.session_id = s.session_id AND p.harness = s.harness AND p.probe_tag IS NOT NULL)

-- name: tail_after
SELECT {entry}, {session} FROM tk_entries AS e CROSS JOIN tk_sessions AS s ON s.id = e.session
WHERE e.id > :mark AND e.id <= :upto AND e.kind != 'copy' AND {meant} ORDER BY e.id

-- name: tail_latest
SELECT {entry}, {session} FROM tk_sessions AS s CROSS JOIN tk_entries AS e ON e.session = s.id
WHERE s.id IN (SELECT s.id FROM tk_sessions AS s WHERE s.entries > 0 AND {meant} ORDER BY s.ended_at DESC, s.id DESC LIMIT :limit)
  AND e.id <= :upto AND e.kind != 'copy'
ORDER BY coalesce(e.at, 0) DESC, e.id DESC LIMIT :limit

-- name: tail_upto
SELECT max(id) FROM (SELECT id FROM tk_entries WHERE id > :mark ORDER BY id LIMIT :limit)

-- piece: spent
u.at, u.harness, u.model, u.input, u.output, u.cache_read, u.cache_write, u.cache_write_1h, u.reasoning

-- An answer may be written down a little after the last entry of its session.
-- name: tail_spent
SELECT {spent} FROM tk_sessions AS s CROSS JOIN tk_usage AS u ON u.session = s.id
WHERE s.ended_at >= :since - 3600000 AND u.at >= :since

-- name: tail_spent_in
SELECT {spent} FROM tk_sessions AS s CROSS JOIN tk_usage AS u ON u.session = s.id WHERE s.session_id = :session_id

-- name: tail_unfinished
SELECT count(*) FROM tk_usage AS u
WHERE u.final = 0 AND (CAST(:since AS INTEGER) IS NULL OR u.at >= :since) AND (CAST(:until AS INTEGER) IS NULL OR u.at < :until)
