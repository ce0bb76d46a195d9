-- What people put on sessions and messages: stars, tags and notes. Every statement can be run again.
-- By the names that their programs gave: rows that are made anew by another capture keep what was put on them.
CREATE TABLE IF NOT EXISTS tk_labels (
  id INTEGER PRIMARY KEY,
  harness TEXT NOT NULL,
  session_id TEXT NOT NULL,
  key TEXT NOT NULL DEFAULT '',      -- of a message, as in tk_entries; empty for the session itself
  what TEXT NOT NULL,                -- star, tag or note
  value TEXT NOT NULL DEFAULT '',    -- the tag, or what the note says
  at INTEGER NOT NULL,
  UNIQUE (harness, session_id, key, what, value)
);
CREATE INDEX IF NOT EXISTS tk_labels_values ON tk_labels (what, value);
