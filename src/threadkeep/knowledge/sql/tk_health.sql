-- What health checks remember: tables of our own beside the contract's. Every statement can be run again.

-- One row: what the watchdog saw when it last looked. Times before and after a sleep are told apart by it.
CREATE TABLE IF NOT EXISTS tk_watchdog (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  memory TEXT NOT NULL,              -- JSON: when it looked, which logs were behind since when, counters of drops
  updated_at INTEGER NOT NULL
);

-- The last deep check of each store of this home, sound or not.
CREATE TABLE IF NOT EXISTS tk_deep_checks (
  path TEXT PRIMARY KEY,             -- the store's file
  checked_at INTEGER NOT NULL,
  took_ms INTEGER NOT NULL,
  problems TEXT NOT NULL             -- JSON array of sentences; empty when the store was sound
) WITHOUT ROWID;
