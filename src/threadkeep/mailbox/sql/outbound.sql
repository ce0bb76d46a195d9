-- outbound.db: the container writes, the host reads.
-- Tables and columns without `tk_` are NanoClaw's own, so that either program works on the file.

CREATE TABLE IF NOT EXISTS messages_out (
  id            TEXT PRIMARY KEY,
  seq           INTEGER UNIQUE,                      -- the number the agent knows it by; its own are odd
  in_reply_to   TEXT,                                -- messages_in.id
  timestamp     TEXT NOT NULL,                       -- ISO, or the form of the row before: hosts sort it as text
  deliver_after TEXT,                                -- SQLite form, UTC: hosts compare it as text
  recurrence    TEXT,                                -- NanoClaw's column; nobody sets it
  kind          TEXT NOT NULL,                       -- chat | chat-sdk | system | task_log, or a later word
  platform_id   TEXT,
  channel_type  TEXT,
  thread_id     TEXT,
  content       TEXT NOT NULL                        -- compact JSON; an operation is inside
);

-- The container's word on each inbound message it has touched.
CREATE TABLE IF NOT EXISTS processing_ack (
  message_id     TEXT PRIMARY KEY,
  status         TEXT NOT NULL,                      -- processing; any other word is an end
  status_changed TEXT NOT NULL                       -- SQLite form, UTC
);

-- What the agent keeps between starts: the ids of its conversations.
CREATE TABLE IF NOT EXISTS session_state (
  key        TEXT PRIMARY KEY,
  value      TEXT NOT NULL,
  updated_at TEXT NOT NULL
);

-- The tool that runs now, so that the host does not take a long one for a hang.
CREATE TABLE IF NOT EXISTS container_state (
  id                       INTEGER PRIMARY KEY CHECK (id = 1),
  current_tool             TEXT,
  tool_declared_timeout_ms INTEGER,
  tool_started_at          TEXT,
  updated_at               TEXT NOT NULL
);
