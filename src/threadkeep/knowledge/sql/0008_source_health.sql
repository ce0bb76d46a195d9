-- What capture says about itself, source by source.
CREATE TABLE IF NOT EXISTS source_health (
  source TEXT PRIMARY KEY,
  last_event_ts INTEGER,
  last_success_ts INTEGER,
  last_error_ts INTEGER,
  last_error_msg TEXT,
  consecutive_failures INTEGER NOT NULL DEFAULT 0,
  events_last_1h INTEGER NOT NULL DEFAULT 0,
  events_last_24h INTEGER NOT NULL DEFAULT 0,
  expected_min_per_hour INTEGER,
  probe_ok INTEGER,
  probe_lag_ms INTEGER,
  probe_last_run_ts INTEGER,
  last_heartbeat_ts INTEGER,
  updated_at INTEGER NOT NULL
);
