-- Runs of CI, what is watched, and lessons. Names of repositories are the same in large and small letters.

-- ------------------------------------------------------------------ runs

-- name: ci_known
SELECT coalesce(t.attempt, 1), coalesce(t.detailed, r.enriched), coalesce(t.tries, 0), coalesce(t.due_at, 0), r.id IS NOT NULL, coalesce(r.status, ''), r.conclusion, r.completed_at
FROM (SELECT CAST(:id AS INTEGER) AS id) AS a LEFT JOIN workflow_runs AS r ON r.id = a.id LEFT JOIN tk_ci_runs AS t ON t.run_id = a.id
WHERE r.id IS NOT NULL OR t.run_id IS NOT NULL

-- name: ci_put_run
INSERT INTO workflow_runs (id, repo, head_sha, head_branch, event, status, conclusion, started_at, completed_at, html_url, actor, raw_json,
  first_seen_at, last_seen_at)
VALUES (:id, :repo, :head_sha, :head_branch, :event, :status, :conclusion, :started_at, :completed_at, :html_url, :actor, :raw_json, :now, :now)
ON CONFLICT (id) DO UPDATE SET status = excluded.status, conclusion = excluded.conclusion, completed_at = excluded.completed_at,
  last_seen_at = excluded.last_seen_at, raw_json = excluded.raw_json

-- name: ci_put_state
INSERT INTO tk_ci_runs (run_id, attempt, detailed, tries, due_at) VALUES (:id, :attempt, :detailed, :tries, :due_at)
ON CONFLICT (run_id) DO UPDATE SET attempt = excluded.attempt, detailed = excluded.detailed, tries = excluded.tries, due_at = excluded.due_at

-- name: ci_touch_runs
UPDATE workflow_runs SET last_seen_at = :now WHERE id IN ({ids:ids})

-- name: ci_any_run
SELECT 1 FROM workflow_runs WHERE lower(repo) = lower(:repo) LIMIT 1

-- name: ci_open_runs
SELECT r.id, r.status FROM tk_ci_runs AS t JOIN workflow_runs AS r ON r.id = t.run_id
WHERE t.detailed = 0 AND t.due_at <= :now AND lower(r.repo) = lower(:repo) ORDER BY r.id DESC LIMIT :limit

-- name: ci_put_job
INSERT INTO workflow_jobs (id, run_id, name, status, conclusion, started_at, completed_at, runner_name, raw_json)
VALUES (:id, :run_id, :name, :status, :conclusion, :started_at, :completed_at, :runner_name, :raw_json)
ON CONFLICT (id) DO UPDATE SET status = excluded.status, conclusion = excluded.conclusion, started_at = excluded.started_at,
  completed_at = excluded.completed_at, runner_name = excluded.runner_name, raw_json = excluded.raw_json

-- name: ci_drop_annotations
DELETE FROM workflow_annotations WHERE job_id = :job_id

-- name: ci_put_annotation
INSERT INTO workflow_annotations (job_id, level, tool, rule_id, path, start_line, message)
VALUES (:job_id, :level, :tool, :rule_id, :path, :start_line, :message)

-- name: ci_drop_excerpts
DELETE FROM workflow_log_excerpts WHERE job_id = :job_id

-- name: ci_put_excerpt
INSERT INTO workflow_log_excerpts (job_id, step_name, excerpt, truncated) VALUES (:job_id, NULL, :excerpt, :truncated)

-- name: ci_enqueue
INSERT INTO workflow_enrichment_queue (run_id, enqueued_at, updated_at) VALUES (:id, :now, :now) ON CONFLICT (run_id) DO NOTHING

-- name: ci_answer
SELECT etag, runs FROM tk_ci_answers WHERE url = :url

-- name: ci_put_answer
INSERT INTO tk_ci_answers (url, etag, runs, asked_at) VALUES (:url, :etag, :runs, :now)
ON CONFLICT (url) DO UPDATE SET etag = excluded.etag, runs = excluded.runs, asked_at = excluded.asked_at

-- name: ci_touch_answer
UPDATE tk_ci_answers SET asked_at = :now WHERE url = :url

-- name: ci_drop_answers
DELETE FROM tk_ci_answers WHERE asked_at < :before

-- A commit may be named by the beginning of its id.
-- name: ci_runs_of_sha
SELECT id, repo, head_sha, head_branch, event, status, conclusion, started_at, completed_at, html_url, actor, first_seen_at, last_seen_at
FROM workflow_runs WHERE substr(head_sha, 1, length(:sha)) = :sha AND lower(repo) = lower(:repo) ORDER BY id

-- name: ci_run
SELECT id, repo, head_sha, head_branch, event, status, conclusion, started_at, completed_at, html_url, actor, first_seen_at, last_seen_at
FROM workflow_runs WHERE id = :id

-- name: ci_jobs
SELECT id, name, status, conclusion, started_at, completed_at, runner_name FROM workflow_jobs WHERE run_id = :id ORDER BY id

-- name: ci_annotations
SELECT level, message, path, start_line, tool, rule_id FROM workflow_annotations WHERE job_id = :id ORDER BY id

-- name: ci_excerpt
SELECT excerpt, truncated FROM workflow_log_excerpts WHERE job_id = :id ORDER BY id DESC LIMIT 1

-- name: ci_failed_jobs
SELECT name FROM workflow_jobs WHERE run_id = :id AND conclusion IN ({texts:bad}) ORDER BY id

-- ------------------------------------------------------------------ watched commits

-- name: ci_watch
INSERT INTO sha_watchlist (sha, repo, created_at, expires_at) VALUES (:sha, :repo, :at, :expires_at)
ON CONFLICT (sha, repo) DO UPDATE SET expires_at = max(sha_watchlist.expires_at, excluded.expires_at)

-- name: ci_watched
SELECT w.sha, w.repo, w.created_at, w.expires_at, w.terminal_status, w.notified, w.terminal_status IS NULL
  OR EXISTS (SELECT 1 FROM workflow_runs AS r WHERE substr(r.head_sha, 1, length(w.sha)) = w.sha AND lower(r.repo) = lower(w.repo) AND r.status <> 'completed')
FROM sha_watchlist AS w WHERE w.expires_at > :now ORDER BY w.created_at DESC, w.sha, w.repo

-- name: ci_outcomes
SELECT status, conclusion FROM workflow_runs WHERE substr(head_sha, 1, length(:sha)) = :sha AND lower(repo) = lower(:repo)

-- name: ci_set_terminal
UPDATE sha_watchlist SET terminal_status = :status, notified = 0
WHERE sha = :sha AND lower(repo) = lower(:repo) AND terminal_status IS DISTINCT FROM :status

-- name: ci_unwatch
DELETE FROM sha_watchlist WHERE sha = :sha AND repo = :repo

-- name: ci_pending
SELECT sha, repo, terminal_status, created_at, expires_at FROM sha_watchlist
WHERE terminal_status IN ('failure', 'cancelled') AND notified = 0 AND expires_at > :now AND (CAST(:repo AS TEXT) IS NULL OR lower(repo) = lower(:repo))
ORDER BY created_at, sha

-- name: ci_ack
UPDATE sha_watchlist SET notified = 1 WHERE sha = :sha AND repo = :repo AND terminal_status = :status AND notified = 0

-- name: ci_clean_watches
DELETE FROM sha_watchlist WHERE expires_at <= :now AND terminal_status IS NOT NULL AND notified = 1

-- ------------------------------------------------------------------ lessons

-- name: lesson_seen_again
UPDATE lessons SET occurrences = occurrences + 1, last_seen_at = max(last_seen_at, :at)
WHERE lower(repo) = lower(:repo) AND tool = :tool AND rule_id = :rule_id AND path_prefix = :path_prefix

-- name: lesson_waiting
SELECT count, first_seen_at FROM lesson_pending WHERE lower(repo) = lower(:repo) AND tool = :tool AND rule_id = :rule_id AND path_prefix = :path_prefix

-- name: put_lesson_waiting
INSERT INTO lesson_pending (repo, tool, rule_id, path_prefix, count, first_seen_at)
VALUES (:repo, :tool, :rule_id, :path_prefix, :times, :first_seen_at)
ON CONFLICT (repo, tool, rule_id, path_prefix) DO UPDATE SET count = excluded.count, first_seen_at = excluded.first_seen_at

-- name: drop_lesson_waiting
DELETE FROM lesson_pending WHERE lower(repo) = lower(:repo) AND tool = :tool AND rule_id = :rule_id AND path_prefix = :path_prefix

-- name: put_lesson
INSERT INTO lessons (repo, tool, rule_id, path_prefix, summary, occurrences, first_seen_at, last_seen_at)
VALUES (:repo, :tool, :rule_id, :path_prefix, :summary, :times, :first_seen_at, :last_seen_at)

-- name: list_lessons
SELECT id, repo, tool, rule_id, path_prefix, summary, fix_hint, occurrences, first_seen_at, last_seen_at FROM lessons
WHERE (CAST(:repo AS TEXT) IS NULL OR lower(repo) = lower(:repo)) AND (CAST(:tool AS TEXT) IS NULL OR tool = :tool) AND (CAST(:path AS TEXT) IS NULL
  OR substr(path_prefix, 1, length(:path)) = :path OR path_prefix <> '' AND substr(:path || '/', 1, length(path_prefix)) = path_prefix)
ORDER BY occurrences DESC, last_seen_at DESC, id LIMIT :limit
