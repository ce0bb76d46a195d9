-- Failures that come back, and the success that ended them.

-- piece: run_itself
e.id, e.timestamp, e.command, e.tool_name, e.exit_code, substr(coalesce(e.stdout, ''), -8000), substr(coalesce(e.stderr, ''), -8000),
e.cwd, e.git_repo, coalesce(e.envelope_id, 'event-' || e.id || '-' || e.timestamp), e.session_id

-- piece: is_open
CASE e.source_kind WHEN 'claude-tool' THEN (e.stdout, e.exit_code, e.duration_ms) IS NOT DISTINCT FROM (NULL, 0, 0)
  ELSE e.exit_code IS NULL AND EXISTS (SELECT 1 FROM tk_events AS t WHERE t.event_id = e.id AND t.running = 1) END

-- name: runs_after
SELECT {run_itself}, {is_open} FROM events AS e WHERE {after:e} AND e.probe_tag IS NULL ORDER BY e.id LIMIT :limit

-- A file of another program has no table of ours: whether a command still runs is not asked here.
-- name: one_run
SELECT {run_itself}, 0 FROM events AS e WHERE e.id = :id AND e.probe_tag IS NULL

-- name: newest_run
SELECT max(id) FROM events

-- ------------------------------------------------------------------ what was looked at

-- name: learned_to
SELECT seen FROM tk_learned WHERE origin = :origin

-- name: move_learned
INSERT INTO tk_learned (origin, seen) VALUES (:origin, :seen) ON CONFLICT (origin) DO UPDATE SET seen = excluded.seen

-- name: failures_wait
SELECT EXISTS (SELECT 1 FROM tk_unended) OR EXISTS (SELECT 1 FROM tk_counted AS c WHERE CASE c.origin
  WHEN 'event' THEN NOT EXISTS (SELECT 1 FROM events WHERE id = c.row) ELSE NOT EXISTS (SELECT 1 FROM tk_entries WHERE id = c.row) END)

-- name: unended_runs
SELECT row FROM tk_unended WHERE origin = :origin ORDER BY row LIMIT :limit

-- name: note_unended
INSERT INTO tk_unended (origin, row) VALUES (:origin, :row) ON CONFLICT DO NOTHING

-- name: drop_unended
DELETE FROM tk_unended WHERE origin = :origin AND row = :row

-- An entry that is captured again has another number, and is the same failure.
-- name: counted_before
UPDATE tk_counted SET row = :row WHERE digest = :digest

-- name: count_failure
INSERT INTO tk_counted (digest, lesson, origin, row) VALUES (:digest, :lesson, :origin, :row)

-- name: lost_failures
SELECT c.digest, c.lesson FROM tk_counted AS c WHERE CASE c.origin WHEN 'event' THEN NOT EXISTS (SELECT 1 FROM events WHERE id = c.row)
  ELSE NOT EXISTS (SELECT 1 FROM tk_entries WHERE id = c.row) END

-- name: drop_counted
DELETE FROM tk_counted WHERE digest = :digest

-- name: still_counted
SELECT 1 FROM tk_counted WHERE lesson = :lesson LIMIT 1

-- name: lesson_keys
SELECT repo, tool, rule_id, path_prefix FROM lessons UNION SELECT repo, tool, rule_id, path_prefix FROM lesson_pending

-- name: unlearn_lesson
DELETE FROM lessons WHERE repo = :repo AND tool = :tool AND rule_id = :rule_id AND path_prefix = :path_prefix

-- name: blank_lesson
UPDATE lessons SET summary = :summary, fix_hint = NULL WHERE repo = :repo AND tool = :tool AND rule_id = :rule_id AND path_prefix = :path_prefix

-- name: last_failure
SELECT failed, fixed FROM tk_failures WHERE command = :command AND origin = :origin

-- name: put_failure
INSERT INTO tk_failures (command, origin, failed, fixed) VALUES (:command, :origin, :failed, NULL)
ON CONFLICT (command) DO UPDATE SET origin = excluded.origin, failed = excluded.failed, fixed = NULL

-- name: end_failure
UPDATE tk_failures SET fixed = :fixed WHERE command = :command AND origin = :origin

-- ------------------------------------------------------------------ hints

-- name: put_fix_hint
UPDATE lessons SET fix_hint = :hint WHERE lower(repo) = lower(:repo) AND tool = :tool AND rule_id = :rule_id AND path_prefix = :path_prefix
  AND fix_hint IS DISTINCT FROM :hint AND :at >= last_seen_at

-- name: ci_lessons_without_hint
SELECT repo, tool, rule_id, path_prefix FROM lessons AS l
WHERE fix_hint IS NULL AND EXISTS (SELECT 1 FROM workflow_runs AS r WHERE r.repo = l.repo) ORDER BY last_seen_at DESC LIMIT :limit

-- name: ci_last_failure
SELECT j.name, r.head_branch, coalesce(r.started_at, r.first_seen_at) FROM workflow_annotations AS a
JOIN workflow_jobs AS j ON j.id = a.job_id JOIN workflow_runs AS r ON r.id = j.run_id
WHERE a.tool IS NOT DISTINCT FROM nullif(:tool, '') AND a.rule_id IS NOT DISTINCT FROM nullif(:rule_id, '') AND a.level = 'failure' AND lower(r.repo) = lower(:repo)
  AND substr(coalesce(a.path, ''), 1, length(:path_prefix)) = :path_prefix
ORDER BY coalesce(r.started_at, r.first_seen_at) DESC LIMIT 1

-- name: ci_next_success
SELECT r.id, r.head_sha, r.raw_json, coalesce(r.completed_at, r.started_at, r.first_seen_at), r.head_branch
FROM workflow_runs AS r JOIN workflow_jobs AS j ON j.run_id = r.id
WHERE lower(r.repo) = lower(:repo) AND j.name = :job AND j.conclusion = 'success' AND coalesce(r.started_at, r.first_seen_at) > :at
ORDER BY r.head_branch IS DISTINCT FROM :branch, coalesce(r.started_at, r.first_seen_at) LIMIT 1
