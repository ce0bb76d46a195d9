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
-- What sessions are counted by, read from the index alone and in the order of its groups.
CREATE INDEX IF NOT EXISTS tk_sessions_counted ON tk_sessions (harness, project, cwd, model, git_branch, ended_at, started_at)
  WHERE hidden = 0 AND is_subagent = 0 AND entries > 0;
-- Titles in the order of lists: a word that very many have need not be looked for to the end.
CREATE INDEX IF NOT EXISTS tk_sessions_titles ON tk_sessions (ended_at DESC, id DESC, title) WHERE title <> '';
-- Sessions in copies of a repository that agents made; a file that has this index has their projects put right (see repair).
CREATE INDEX IF NOT EXISTS tk_sessions_copies ON tk_sessions (id) WHERE instr(cwd, 'worktrees/') > 0;

-- All that is summed up of a session's answers, by quarters of an hour and by how large the request was (see prices.STEPS): the
-- groups stand in their order. To group a million answers took 0.9 s of CPU so, and 1.7 s where they had to be sorted first.
CREATE INDEX IF NOT EXISTS tk_usage_quarters ON tk_usage (session, harness, model, at / 900000,
  CASE WHEN input + cache_read + cache_write <= 32000 THEN 0 WHEN input + cache_read + cache_write <= 100000 THEN 32000
    WHEN input + cache_read + cache_write <= 128000 THEN 100000 WHEN input + cache_read + cache_write <= 199999 THEN 128000
    WHEN input + cache_read + cache_write <= 200000 THEN 199999 WHEN input + cache_read + cache_write <= 256000 THEN 200000
    WHEN input + cache_read + cache_write <= 272000 THEN 256000 WHEN input + cache_read + cache_write <= 512000 THEN 272000
    WHEN input + cache_read + cache_write <= 524288 THEN 512000 ELSE 524288 END,
  at, input, output, cache_read, cache_write, cache_write_1h, reasoning);
