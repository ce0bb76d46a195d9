-- What the host adds to an inbound.db, also to one that NanoClaw made. NanoClaw never looks here.

-- Polls cost what is open, not what was ever said.
CREATE INDEX IF NOT EXISTS tk_in_pending ON messages_in(seq) WHERE status = 'pending';
CREATE INDEX IF NOT EXISTS tk_in_paused ON messages_in(seq) WHERE status = 'paused';
CREATE INDEX IF NOT EXISTS tk_in_failed ON messages_in(seq) WHERE status = 'failed';
CREATE INDEX IF NOT EXISTS tk_in_recurring ON messages_in(series_id) WHERE recurrence IS NOT NULL;
-- The newest mail of a chat: what an answer replies to, and a peer's session to write back to.
CREATE INDEX IF NOT EXISTS tk_in_place ON messages_in(channel_type, platform_id, seq);

-- A series has one live row. A second one, from a run that was counted twice, is left out.
CREATE TRIGGER IF NOT EXISTS tk_one_live_row BEFORE INSERT ON messages_in
WHEN NEW.recurrence IS NOT NULL AND NEW.status IN ('pending', 'paused') AND EXISTS (
  SELECT 1 FROM messages_in WHERE series_id = NEW.series_id AND id <> NEW.id
     AND recurrence IS NOT NULL AND status IN ('pending', 'paused'))
BEGIN
  SELECT RAISE(IGNORE);
END;

-- What is known of the session that the folder itself does not say: agent_group, session.
CREATE TABLE IF NOT EXISTS tk_meta (
  key   TEXT PRIMARY KEY,
  value TEXT NOT NULL
);

-- One row per outbound message from when the host first saw it.
-- prepared -> sending -> sent | failed | unknown; a refusal goes back from sending to prepared.
CREATE TABLE IF NOT EXISTS tk_delivery (
  message_out_id TEXT PRIMARY KEY,
  seq            INTEGER,                                  -- of messages_out: the order of delivery
  state          TEXT NOT NULL CHECK (state IN ('prepared', 'sending', 'sent', 'failed', 'unknown')),
  key            TEXT NOT NULL,                            -- idempotency key, the same for every attempt
  place          TEXT NOT NULL DEFAULT '',                 -- channel and chat: one place, one order
  attempts       INTEGER NOT NULL DEFAULT 0,
  due            TEXT,                                     -- not before; SQLite form, NULL is at once
  held           INTEGER NOT NULL DEFAULT 0,               -- 1 = waits for its own hour, holds up nobody
  reason         TEXT,                                     -- why it failed, or failed last time
  changed        TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS tk_delivery_open ON tk_delivery(seq) WHERE state IN ('prepared', 'sending');
CREATE INDEX IF NOT EXISTS tk_delivery_dead ON tk_delivery(seq) WHERE state IN ('failed', 'unknown');

-- Rows of messages_out up to this seq are in tk_delivery, or were delivered by another host.
CREATE TABLE IF NOT EXISTS tk_cursor (
  name TEXT PRIMARY KEY,
  seq  INTEGER NOT NULL
);

-- Why a row of messages_in failed, and what became of it.
CREATE TABLE IF NOT EXISTS tk_dead (
  message_id TEXT PRIMARY KEY,
  reason     TEXT NOT NULL,
  at         TEXT NOT NULL,
  retried_as TEXT,                                         -- the row that tries again
  purged_at  TEXT                                          -- its content was removed
);

-- How many agents passed a mail on before it came here.
CREATE TABLE IF NOT EXISTS tk_hops (
  message_id TEXT PRIMARY KEY,
  hops       INTEGER NOT NULL
);

-- A hash of what never changes in a row, so that damage SQLite cannot see is found.
CREATE TABLE IF NOT EXISTS tk_row_hash (
  message_id TEXT PRIMARY KEY,
  hash       INTEGER NOT NULL
);

-- A row that was changed on purpose has no hash until its writer gives it a new one.
CREATE TRIGGER IF NOT EXISTS tk_forget_hash AFTER UPDATE OF id, seq, kind, timestamp, content,
  channel_type, platform_id, thread_id ON messages_in
BEGIN
  DELETE FROM tk_row_hash WHERE message_id = OLD.id;
END;

-- What failed stays failed: NanoClaw's host writes `completed` over every answered row.
CREATE TRIGGER IF NOT EXISTS tk_failed_stays BEFORE UPDATE OF status ON messages_in
WHEN OLD.status = 'failed' AND NEW.status = 'completed'
BEGIN
  SELECT RAISE(IGNORE);
END;
