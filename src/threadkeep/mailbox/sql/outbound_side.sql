-- What the container adds to an outbound.db. NanoClaw never looks here.

-- Claims are counted when they are made, so that a crash loop comes to an end.
CREATE TABLE IF NOT EXISTS tk_claim (
  message_id TEXT PRIMARY KEY,
  tries      INTEGER NOT NULL,                       -- claims so far, this one included
  claimed_at TEXT NOT NULL,                          -- of the last one
  reason     TEXT                                    -- why the container gave up on it
);
CREATE INDEX IF NOT EXISTS tk_ack_processing ON processing_ack(message_id) WHERE status = 'processing';

-- A hash of what never changes in a row, so that damage SQLite cannot see is found.
CREATE TABLE IF NOT EXISTS tk_row_hash (
  message_id TEXT PRIMARY KEY,
  hash       INTEGER NOT NULL
);

-- A NanoClaw host reads in the order of a time with whole seconds; this makes the rest of it ours.
CREATE INDEX IF NOT EXISTS tk_out_order ON messages_out(timestamp, seq);
