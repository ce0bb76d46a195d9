-- Runs of GitHub Actions, and what is learnt from those that fail.
CREATE TABLE IF NOT EXISTS workflow_runs (
  id INTEGER PRIMARY KEY,
  repo TEXT NOT NULL,
  head_sha TEXT NOT NULL,
  head_branch TEXT,
  event TEXT NOT NULL,
  status TEXT NOT NULL,
  conclusion TEXT,
  started_at INTEGER,
  completed_at INTEGER,
  html_url TEXT NOT NULL,
  actor TEXT,
  raw_json TEXT NOT NULL,
  first_seen_at INTEGER NOT NULL,
  last_seen_at INTEGER NOT NULL,
  enriched INTEGER NOT NULL DEFAULT 0
);

CREATE INDEX IF NOT EXISTS idx_workflow_runs_sha ON workflow_runs (head_sha);
CREATE INDEX IF NOT EXISTS idx_workflow_runs_repo_started ON workflow_runs (repo, started_at);

CREATE TABLE IF NOT EXISTS workflow_jobs (
  id INTEGER PRIMARY KEY,
  run_id INTEGER NOT NULL REFERENCES workflow_runs (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  status TEXT NOT NULL,
  conclusion TEXT,
  started_at INTEGER,
  completed_at INTEGER,
  runner_name TEXT,
  raw_json TEXT NOT NULL
);

CREATE INDEX IF NOT EXISTS idx_workflow_jobs_run ON workflow_jobs (run_id);

CREATE TABLE IF NOT EXISTS workflow_annotations (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  job_id INTEGER NOT NULL REFERENCES workflow_jobs (id) ON DELETE CASCADE,
  level TEXT NOT NULL,
  tool TEXT,
  rule_id TEXT,
  path TEXT,
  start_line INTEGER,
  message TEXT NOT NULL
);

CREATE INDEX IF NOT EXISTS idx_workflow_annotations_job ON workflow_annotations (job_id);
CREATE INDEX IF NOT EXISTS idx_workflow_annotations_tool_rule ON workflow_annotations (tool, rule_id);

CREATE TABLE IF NOT EXISTS workflow_log_excerpts (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  job_id INTEGER NOT NULL REFERENCES workflow_jobs (id) ON DELETE CASCADE,
  step_name TEXT,
  excerpt TEXT NOT NULL,
  truncated INTEGER NOT NULL DEFAULT 0
);

CREATE INDEX IF NOT EXISTS idx_workflow_log_excerpts_job ON workflow_log_excerpts (job_id);

CREATE TABLE IF NOT EXISTS sha_watchlist (
  sha TEXT NOT NULL,
  repo TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  terminal_status TEXT,
  notified INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (sha, repo)
);

CREATE INDEX IF NOT EXISTS idx_sha_watchlist_expires ON sha_watchlist (expires_at);

CREATE TABLE IF NOT EXISTS workflow_enrichment_queue (
  run_id INTEGER PRIMARY KEY REFERENCES workflow_runs (id) ON DELETE CASCADE,
  status TEXT NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'processing', 'done', 'failed', 'skipped')),
  priority INTEGER NOT NULL DEFAULT 5,
  retry_count INTEGER NOT NULL DEFAULT 0,
  max_retries INTEGER NOT NULL DEFAULT 5,
  error_message TEXT,
  locked_at INTEGER,
  locked_by TEXT,
  enqueued_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
);

CREATE INDEX IF NOT EXISTS idx_workflow_queue_pending ON workflow_enrichment_queue (status, priority);

CREATE TABLE IF NOT EXISTS lessons (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  repo TEXT NOT NULL,
  tool TEXT NOT NULL DEFAULT '',
  rule_id TEXT NOT NULL DEFAULT '',
  path_prefix TEXT NOT NULL DEFAULT '',
  summary TEXT NOT NULL,
  fix_hint TEXT,
  occurrences INTEGER NOT NULL DEFAULT 1,
  first_seen_at INTEGER NOT NULL,
  last_seen_at INTEGER NOT NULL,
  UNIQUE (repo, tool, rule_id, path_prefix)
);

CREATE INDEX IF NOT EXISTS idx_lessons_repo ON lessons (repo);

CREATE TABLE IF NOT EXISTS lesson_pending (
  repo TEXT NOT NULL,
  tool TEXT NOT NULL DEFAULT '',
  rule_id TEXT NOT NULL DEFAULT '',
  path_prefix TEXT NOT NULL DEFAULT '',
  count INTEGER NOT NULL DEFAULT 1,
  first_seen_at INTEGER NOT NULL,
  UNIQUE (repo, tool, rule_id, path_prefix)
);

CREATE TABLE IF NOT EXISTS knowledge_node_workflow_runs (
  knowledge_node_id INTEGER NOT NULL REFERENCES knowledge_nodes (id),
  run_id INTEGER NOT NULL REFERENCES workflow_runs (id) ON DELETE CASCADE,
  PRIMARY KEY (knowledge_node_id, run_id)
);

CREATE TABLE IF NOT EXISTS knowledge_node_lessons (
  knowledge_node_id INTEGER NOT NULL REFERENCES knowledge_nodes (id),
  lesson_id INTEGER NOT NULL REFERENCES lessons (id) ON DELETE CASCADE,
  PRIMARY KEY (knowledge_node_id, lesson_id)
);
