-- Indexes that lists, filters and sums over very many sessions read. Every statement can be run again.

-- What a list shows, the latest first; `started_at` lets dates be compared without a look at the rows.
CREATE INDEX IF NOT EXISTS tk_sessions_shown ON tk_sessions (ended_at DESC, id DESC, started_at)
  WHERE hidden = 0 AND is_subagent = 0 AND entries > 0;
CREATE INDEX IF NOT EXISTS tk_sessions_of_agent ON tk_sessions (harness, ended_at DESC, id DESC)
  WHERE hidden = 0 AND is_subagent = 0 AND entries > 0;
CREATE INDEX IF NOT EXISTS tk_sessions_of_project ON tk_sessions (project, ended_at DESC, id DESC, harness)
  WHERE hidden = 0 AND is_subagent = 0 AND entries > 0;
CREATE INDEX IF NOT EXISTS tk_sessions_of_model ON tk_sessions (model, ended_at DESC, id DESC)
  WHERE hidden = 0 AND is_subagent = 0 AND entries > 0;
CREATE INDEX IF NOT EXISTS tk_sessions_of_branch ON tk_sessions (git_branch, ended_at DESC, id DESC)
  WHERE hidden = 0 AND is_subagent = 0 AND entries > 0;
CREATE INDEX IF NOT EXISTS tk_sessions_titled ON tk_sessions (title) WHERE title <> '';

-- All that is summed up of a session's answers, read from the index alone: 50 sessions of 500 answers took 60 ms without it.
CREATE INDEX IF NOT EXISTS tk_usage_sums ON tk_usage
  (session, model, at, input, output, cache_read, cache_write, cache_write_1h, reasoning);
