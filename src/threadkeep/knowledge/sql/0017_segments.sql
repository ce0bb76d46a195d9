-- A conversation may have many slices now, and a fourth agent: agentic_sessions is built anew.
CREATE TABLE agentic_sessions_new (
  id INTEGER PRIMARY KEY,
  session_id TEXT NOT NULL,
  harness TEXT NOT NULL DEFAULT 'opencode' CHECK (harness IN ('claude-code', 'opencode', 'codex', 'cursor')),
  segment_index INTEGER NOT NULL DEFAULT 0,
  model TEXT NOT NULL DEFAULT '',
  agent TEXT DEFAULT '',
  project_dir TEXT NOT NULL,
  cwd TEXT NOT NULL,
  git_branch TEXT,
  slug TEXT DEFAULT '',
  title TEXT DEFAULT '',
  parent_session_id TEXT,
  is_subagent INTEGER NOT NULL DEFAULT 0,
  summary_text TEXT NOT NULL,
  tool_calls_json TEXT,
  user_prompts_json TEXT,
  source_file TEXT DEFAULT '',
  snapshot_diffs_json TEXT DEFAULT 'null',
  commit_messages_json TEXT DEFAULT '[]',
  message_count INTEGER NOT NULL DEFAULT 0,
  token_count INTEGER NOT NULL DEFAULT 0,
  start_time INTEGER NOT NULL,
  end_time INTEGER NOT NULL,
  content_hash TEXT,
  last_enriched_content_hash TEXT,
  created_at INTEGER NOT NULL DEFAULT (unixepoch('now', 'subsec') * 1000),
  enriched INTEGER NOT NULL DEFAULT 0,
  probe_tag TEXT,
  UNIQUE (session_id, harness, segment_index)
);

CREATE INDEX IF NOT EXISTS idx_agentic_sessions_harness ON agentic_sessions (harness);
CREATE INDEX IF NOT EXISTS idx_agentic_sessions_cwd ON agentic_sessions (cwd);
CREATE INDEX IF NOT EXISTS idx_agentic_sessions_start_time ON agentic_sessions (start_time DESC);
CREATE INDEX IF NOT EXISTS idx_agentic_sessions_enriched ON agentic_sessions (enriched) WHERE enriched = 0;
