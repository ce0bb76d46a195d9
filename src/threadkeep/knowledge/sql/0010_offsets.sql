-- How far each log file was read, so that a restart goes on there.
CREATE TABLE IF NOT EXISTS claude_session_offsets (
  path TEXT PRIMARY KEY,
  session_id TEXT,
  byte_offset INTEGER NOT NULL DEFAULT 0,
  inode INTEGER,
  device INTEGER,
  size_at_last_read INTEGER NOT NULL DEFAULT 0,
  updated_at INTEGER NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS claude_session_parity (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  path TEXT NOT NULL,
  tailer_count INTEGER NOT NULL DEFAULT 0,
  watcher_count INTEGER NOT NULL DEFAULT 0,
  mismatch_count INTEGER NOT NULL DEFAULT 0,
  window_start INTEGER NOT NULL,
  window_end INTEGER NOT NULL
) STRICT;

CREATE INDEX IF NOT EXISTS idx_claude_session_parity_path_window ON claude_session_parity (path, window_start);
