-- Broken rules about capture, written down.
CREATE TABLE IF NOT EXISTS capture_alarms (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  invariant_id TEXT NOT NULL,
  raised_at INTEGER NOT NULL,
  details_json TEXT NOT NULL,
  acked_at INTEGER,
  ack_note TEXT
);

CREATE INDEX IF NOT EXISTS idx_capture_alarms_invariant_active ON capture_alarms (invariant_id, acked_at)
  WHERE acked_at IS NULL;
CREATE INDEX IF NOT EXISTS idx_claude_sessions_start_time ON claude_sessions (start_time DESC);
