-- Processes that serve sessions, as Hermes Agent has them since 27: made when the first of them reports.

CREATE TABLE gateway_heartbeats (
  backend_id TEXT PRIMARY KEY,              -- one process, from its start to its end
  pid INTEGER NOT NULL,
  started_at REAL NOT NULL,
  last_heartbeat REAL NOT NULL,
  profile TEXT NOT NULL DEFAULT '',
  host TEXT NOT NULL DEFAULT ''
);
