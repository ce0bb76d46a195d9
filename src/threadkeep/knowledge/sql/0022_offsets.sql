-- A log file, and how far it was read: as claude_session_offsets before.
CREATE TABLE agentic_session_offsets (
  path TEXT PRIMARY KEY,
  session_id TEXT,
  byte_offset INTEGER NOT NULL DEFAULT 0,
  inode INTEGER,
  device INTEGER,
  size_at_last_read INTEGER NOT NULL DEFAULT 0,
  updated_at INTEGER NOT NULL
) STRICT;
