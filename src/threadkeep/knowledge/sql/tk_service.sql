-- Who keeps this file current, and how its parts fare: tables of our own. Every statement can be run again.

-- One row: the process that serves this file, or the last one that did.
CREATE TABLE IF NOT EXISTS tk_service (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  pid INTEGER NOT NULL,
  mark TEXT NOT NULL,                -- pid, start and boot: another process with this pid is not taken for it
  version TEXT NOT NULL,             -- of the program
  schema INTEGER NOT NULL,           -- the newest schema version that it knows
  started_at INTEGER NOT NULL,
  heartbeat INTEGER NOT NULL,        -- its last heartbeat
  stopped_at INTEGER                 -- when it ended in good order; NULL: it runs, or was killed
);

-- One row for each of its parts.
CREATE TABLE IF NOT EXISTS tk_service_parts (
  part TEXT PRIMARY KEY,
  started_at INTEGER NOT NULL,       -- when it began to run for the last time
  restarts INTEGER NOT NULL DEFAULT 0, -- how often since the process began
  crashes INTEGER NOT NULL DEFAULT 0,  -- how often ever; never set back
  last_error TEXT,                   -- what the last crash said
  last_crash_at INTEGER,
  waits_for TEXT                     -- what keeps it from working now: a lock, a full disk; NULL: nothing
);
