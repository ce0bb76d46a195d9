-- inbound.db: the host writes, the container reads.
-- Tables and columns without `tk_` are NanoClaw's own, so that either program works on the file.

CREATE TABLE IF NOT EXISTS messages_in (
  id                TEXT PRIMARY KEY,                      -- `<platform id>:<agent group>`, or minted here
  seq               INTEGER UNIQUE CHECK (seq % 2 = 0),    -- even; the number the agent knows it by
  kind              TEXT NOT NULL,                         -- chat | chat-sdk | task | webhook | system
  timestamp         TEXT NOT NULL,                         -- when it was said or entered (ISO)
  status            TEXT DEFAULT 'pending',                -- pending | paused; any other word is final
  process_after     TEXT,                                  -- not before this time; NULL is at once
  recurrence        TEXT,                                  -- cron; on the one live row of a series only
  series_id         TEXT,                                  -- the runs of one recurring task share it
  tries             INTEGER DEFAULT 0,                     -- claims so far that did not finish
  trigger           INTEGER NOT NULL DEFAULT 1,            -- 0 = context for later, wakes nobody
  platform_id       TEXT,                                  -- where it came from: chat, or agent group
  channel_type      TEXT,                                  -- through which channel; `agent` between agents
  thread_id         TEXT,                                  -- which thread of that chat
  content           TEXT NOT NULL,                         -- compact JSON; its shape depends on kind
  source_session_id TEXT,                                  -- the sender's session, for the way back
  on_wake           INTEGER NOT NULL DEFAULT 0             -- 1 = for the first poll after a start only
);
CREATE INDEX IF NOT EXISTS idx_messages_in_series ON messages_in(series_id);

-- What the host did with each row of messages_out. First outcome wins.
CREATE TABLE IF NOT EXISTS delivered (
  message_out_id      TEXT PRIMARY KEY,
  platform_message_id TEXT,                                -- what the channel calls it: edits need it
  status              TEXT NOT NULL DEFAULT 'delivered',   -- delivered | failed
  delivered_at        TEXT NOT NULL
);

-- Whom the agent may write to, by name; a copy of the central index, rewritten whole.
CREATE TABLE IF NOT EXISTS destinations (
  name           TEXT PRIMARY KEY,
  display_name   TEXT,
  type           TEXT NOT NULL,                            -- channel | agent
  channel_type   TEXT,                                     -- for a channel
  platform_id    TEXT,                                     -- for a channel
  agent_group_id TEXT                                      -- for an agent
);

-- Where mail goes that names no destination.
CREATE TABLE IF NOT EXISTS session_routing (
  id           INTEGER PRIMARY KEY CHECK (id = 1),
  channel_type TEXT,
  platform_id  TEXT,
  thread_id    TEXT
);
