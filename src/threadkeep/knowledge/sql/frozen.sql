-- What files have up to version 22, and Hippo drops with 23.

-- The family claude_* is frozen: version 18 copied it to agentic_*, and nobody writes it any more.
CREATE TABLE claude_sessions (
  id INTEGER PRIMARY KEY,
  session_id TEXT NOT NULL,
  project_dir TEXT NOT NULL,
  cwd TEXT NOT NULL,
  git_branch TEXT,
  segment_index INTEGER NOT NULL,
  start_time INTEGER NOT NULL,
  end_time INTEGER NOT NULL,
  summary_text TEXT NOT NULL,
  tool_calls_json TEXT,
  user_prompts_json TEXT,
  message_count INTEGER NOT NULL,
  token_count INTEGER,
  source_file TEXT NOT NULL,                -- tells which agent wrote it; there was no harness yet
  is_subagent INTEGER NOT NULL DEFAULT 0,
  parent_session_id TEXT,
  enriched INTEGER NOT NULL DEFAULT 0,
  probe_tag TEXT,
  content_hash TEXT,
  last_enriched_content_hash TEXT,
  created_at INTEGER NOT NULL DEFAULT (unixepoch('now', 'subsec') * 1000),
  UNIQUE (session_id, segment_index)
);

CREATE INDEX idx_claude_sessions_cwd ON claude_sessions (cwd);
CREATE INDEX idx_claude_sessions_session ON claude_sessions (session_id);
CREATE INDEX idx_claude_sessions_start_time ON claude_sessions (start_time DESC);

CREATE TABLE knowledge_node_claude_sessions (
  knowledge_node_id INTEGER NOT NULL REFERENCES knowledge_nodes (id),
  claude_session_id INTEGER NOT NULL REFERENCES claude_sessions (id),
  PRIMARY KEY (knowledge_node_id, claude_session_id)
);

CREATE TABLE claude_enrichment_queue (
  id INTEGER PRIMARY KEY,
  claude_session_id INTEGER NOT NULL UNIQUE REFERENCES claude_sessions (id),
  status TEXT NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'processing', 'done', 'failed', 'skipped')),
  priority INTEGER NOT NULL DEFAULT 5,
  retry_count INTEGER NOT NULL DEFAULT 0,
  max_retries INTEGER NOT NULL DEFAULT 5,
  error_message TEXT,
  locked_at INTEGER,
  locked_by TEXT,
  created_at INTEGER NOT NULL DEFAULT (unixepoch('now', 'subsec') * 1000),
  updated_at INTEGER NOT NULL DEFAULT (unixepoch('now', 'subsec') * 1000)
);

CREATE INDEX idx_claude_queue_pending ON claude_enrichment_queue (status, priority) WHERE status = 'pending';

CREATE TABLE claude_session_offsets (
  path TEXT PRIMARY KEY,                    -- a log file, and how far it was read
  session_id TEXT,
  byte_offset INTEGER NOT NULL DEFAULT 0,
  inode INTEGER,                            -- with device: another file under the same name is read anew
  device INTEGER,
  size_at_last_read INTEGER NOT NULL DEFAULT 0,
  updated_at INTEGER NOT NULL
) STRICT;

CREATE TABLE claude_session_parity (        -- nobody writes it; it was for a change of readers
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  path TEXT NOT NULL,
  tailer_count INTEGER NOT NULL DEFAULT 0,
  watcher_count INTEGER NOT NULL DEFAULT 0,
  mismatch_count INTEGER NOT NULL DEFAULT 0,
  window_start INTEGER NOT NULL,
  window_end INTEGER NOT NULL
) STRICT;

CREATE INDEX idx_claude_session_parity_path_window ON claude_session_parity (path, window_start);
