-- The knowledge contract, as Hippo has it from schema 18 on: table by table and name by name.
-- Beside this a file has what some versions have alone: frozen.sql up to 22, 0019_memory.sql and its followers after 18.
-- Hippo opens and writes such a file; what is ours alone is in tk.sql, and the CHECK of harness knows more agents.
-- Every time is epoch milliseconds, and written by the program: before SQLite 3.42 the defaults below give NULL.

CREATE TABLE sessions (
  id INTEGER PRIMARY KEY,
  start_time INTEGER NOT NULL,
  end_time INTEGER,                         -- NULL while the shell runs, and after a crash of it
  terminal TEXT,                            -- the shell's own id of the session, so that events find it
  shell TEXT NOT NULL,
  hostname TEXT NOT NULL,
  username TEXT NOT NULL,
  summary TEXT,
  created_at INTEGER NOT NULL DEFAULT (unixepoch('now', 'subsec') * 1000)
);

CREATE TABLE env_snapshots (
  id INTEGER PRIMARY KEY,
  content_hash TEXT NOT NULL UNIQUE,        -- many events share one environment: it is stored once
  env_json TEXT NOT NULL,                   -- chosen variables only
  created_at INTEGER NOT NULL DEFAULT (unixepoch('now', 'subsec') * 1000)
);

CREATE TABLE events (
  id INTEGER PRIMARY KEY,
  session_id INTEGER NOT NULL REFERENCES sessions (id),
  timestamp INTEGER NOT NULL,               -- when the command began
  command TEXT NOT NULL,
  stdout TEXT,
  stderr TEXT,
  stdout_truncated INTEGER DEFAULT 0,       -- 1: there was more
  stderr_truncated INTEGER DEFAULT 0,
  exit_code INTEGER,                        -- NULL: not known, as for a tool that gives none
  duration_ms INTEGER NOT NULL,
  cwd TEXT NOT NULL,
  hostname TEXT NOT NULL,
  shell TEXT NOT NULL,
  git_repo TEXT,
  git_branch TEXT,
  git_commit TEXT,
  git_dirty INTEGER,                        -- 1: uncommitted changes were there
  env_snapshot_id INTEGER REFERENCES env_snapshots (id),
  envelope_id TEXT,                         -- the sender's key: the same envelope twice is one event
  source_kind TEXT NOT NULL DEFAULT 'shell', -- 'shell' typed by a person, 'claude-tool' run by an agent
  tool_name TEXT,                           -- as the agent calls its tool; NULL for the shell
  enriched INTEGER NOT NULL DEFAULT 0,      -- 1: some node tells of it
  redaction_count INTEGER NOT NULL DEFAULT 0, -- how many secrets were taken out before it was stored
  archived_at INTEGER,
  probe_tag TEXT,                           -- not NULL: a synthetic event, hidden from people
  created_at INTEGER NOT NULL DEFAULT (unixepoch('now', 'subsec') * 1000)
);

CREATE INDEX idx_events_session ON events (session_id);
CREATE INDEX idx_events_timestamp ON events (timestamp DESC);
CREATE INDEX idx_events_git_repo ON events (git_repo) WHERE git_repo IS NOT NULL;
CREATE INDEX idx_events_enriched ON events (enriched) WHERE enriched = 0;
CREATE UNIQUE INDEX idx_events_envelope_id ON events (envelope_id) WHERE envelope_id IS NOT NULL;
CREATE INDEX idx_events_source_kind ON events (source_kind) WHERE source_kind != 'shell';

CREATE TABLE entities (
  id INTEGER PRIMARY KEY,
  type TEXT NOT NULL CHECK (type IN (
    'project', 'file', 'tool', 'service', 'repo', 'host', 'person', 'concept', 'domain', 'env_var'
  )),
  name TEXT NOT NULL,                       -- as it was written where it was first seen
  canonical TEXT,                           -- the form under which two spellings are one entity
  metadata TEXT,                            -- JSON text
  first_seen INTEGER NOT NULL DEFAULT (unixepoch('now', 'subsec') * 1000),
  last_seen INTEGER NOT NULL DEFAULT (unixepoch('now', 'subsec') * 1000),
  created_at INTEGER NOT NULL DEFAULT (unixepoch('now', 'subsec') * 1000),
  UNIQUE (type, canonical)
);

CREATE INDEX idx_entities_type_name ON entities (type, name);
CREATE INDEX idx_entities_canonical ON entities (canonical) WHERE canonical IS NOT NULL;

CREATE TABLE relationships (
  id INTEGER PRIMARY KEY,
  from_entity_id INTEGER NOT NULL REFERENCES entities (id),
  to_entity_id INTEGER NOT NULL REFERENCES entities (id),
  relationship TEXT NOT NULL,               -- the verb between the two
  weight REAL NOT NULL DEFAULT 1.0,
  evidence_count INTEGER NOT NULL DEFAULT 1, -- how often it was seen
  first_seen INTEGER NOT NULL DEFAULT (unixepoch('now', 'subsec') * 1000),
  last_seen INTEGER NOT NULL DEFAULT (unixepoch('now', 'subsec') * 1000),
  UNIQUE (from_entity_id, to_entity_id, relationship)
);

CREATE INDEX idx_relationships_from ON relationships (from_entity_id, relationship);
CREATE INDEX idx_relationships_to ON relationships (to_entity_id, relationship);

CREATE TABLE event_entities (
  id INTEGER PRIMARY KEY,
  event_id INTEGER NOT NULL REFERENCES events (id),
  entity_id INTEGER NOT NULL REFERENCES entities (id),
  role TEXT NOT NULL,                       -- what the entity is to the event: its folder, its tool
  created_at INTEGER NOT NULL DEFAULT (unixepoch('now', 'subsec') * 1000),
  UNIQUE (event_id, entity_id, role)
);

CREATE INDEX idx_event_entities_entity ON event_entities (entity_id, event_id);

CREATE TABLE knowledge_nodes (
  id INTEGER PRIMARY KEY,
  uuid TEXT NOT NULL UNIQUE,                -- the name of a node outside this file
  content TEXT NOT NULL,                    -- JSON text with summary, intent, entities and more
  embed_text TEXT NOT NULL,                 -- what is searched and what vectors are made of
  node_type TEXT NOT NULL DEFAULT 'observation',
  outcome TEXT,                             -- success, partial, failure, unknown
  tags TEXT,                                -- a JSON list
  enrichment_model TEXT,                    -- which model wrote it
  enrichment_version INTEGER NOT NULL DEFAULT 1, -- which form of the prompt
  created_at INTEGER NOT NULL DEFAULT (unixepoch('now', 'subsec') * 1000),
  updated_at INTEGER NOT NULL DEFAULT (unixepoch('now', 'subsec') * 1000)
);

CREATE TABLE knowledge_node_entities (
  knowledge_node_id INTEGER NOT NULL REFERENCES knowledge_nodes (id),
  entity_id INTEGER NOT NULL REFERENCES entities (id),
  PRIMARY KEY (knowledge_node_id, entity_id)
);

CREATE INDEX idx_kn_entities_entity ON knowledge_node_entities (entity_id);

CREATE TABLE knowledge_node_events (
  knowledge_node_id INTEGER NOT NULL REFERENCES knowledge_nodes (id),
  event_id INTEGER NOT NULL REFERENCES events (id),
  PRIMARY KEY (knowledge_node_id, event_id)
);

-- The queues are alike: one ticket for each row that waits to be made into knowledge.
CREATE TABLE enrichment_queue (
  id INTEGER PRIMARY KEY,
  event_id INTEGER NOT NULL UNIQUE REFERENCES events (id),
  status TEXT NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'processing', 'done', 'failed', 'skipped')),
  priority INTEGER NOT NULL DEFAULT 5,      -- the lowest number first
  retry_count INTEGER NOT NULL DEFAULT 0,
  max_retries INTEGER NOT NULL DEFAULT 5,   -- after so many the ticket is failed
  error_message TEXT,
  locked_at INTEGER,                        -- since when a worker has it: a lock that is too old is taken back
  locked_by TEXT,
  created_at INTEGER NOT NULL DEFAULT (unixepoch('now', 'subsec') * 1000),
  updated_at INTEGER NOT NULL DEFAULT (unixepoch('now', 'subsec') * 1000)
);

CREATE INDEX idx_queue_pending ON enrichment_queue (status, priority) WHERE status = 'pending';

CREATE TABLE browser_events (
  id INTEGER PRIMARY KEY,
  timestamp INTEGER NOT NULL,
  url TEXT NOT NULL,
  title TEXT,
  domain TEXT NOT NULL,                     -- the host of the URL, to ask by site
  dwell_ms INTEGER NOT NULL,                -- how long it was looked at
  scroll_depth REAL,                        -- 0 to 1
  extracted_text TEXT,                      -- the article without what is around it
  search_query TEXT,                        -- what was searched for, if it is a page of results
  referrer TEXT,
  content_hash TEXT,
  envelope_id TEXT,                         -- one visit within a window of time is one event
  enriched INTEGER NOT NULL DEFAULT 0,
  probe_tag TEXT,
  created_at INTEGER NOT NULL DEFAULT (unixepoch('now', 'subsec') * 1000)
);

CREATE INDEX idx_browser_events_timestamp ON browser_events (timestamp DESC);
CREATE INDEX idx_browser_events_domain ON browser_events (domain);
CREATE UNIQUE INDEX idx_browser_events_envelope_id ON browser_events (envelope_id) WHERE envelope_id IS NOT NULL;
CREATE INDEX idx_browser_events_enriched ON browser_events (enriched) WHERE enriched = 0;
CREATE INDEX idx_browser_events_ts_domain ON browser_events (timestamp, domain);

CREATE TABLE browser_enrichment_queue (
  id INTEGER PRIMARY KEY,
  browser_event_id INTEGER NOT NULL UNIQUE REFERENCES browser_events (id),
  status TEXT NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'processing', 'done', 'failed', 'skipped')),
  priority INTEGER NOT NULL DEFAULT 5,
  retry_count INTEGER NOT NULL DEFAULT 0,
  max_retries INTEGER NOT NULL DEFAULT 5,
  error_message TEXT,
  locked_at INTEGER,
  locked_by TEXT,
  created_at INTEGER NOT NULL DEFAULT (unixepoch('now', 'subsec') * 1000),
  updated_at INTEGER NOT NULL DEFAULT (unixepoch('now', 'subsec') * 1000)
);

CREATE INDEX idx_browser_queue_pending ON browser_enrichment_queue (status, priority) WHERE status = 'pending';

CREATE TABLE knowledge_node_browser_events (
  knowledge_node_id INTEGER NOT NULL REFERENCES knowledge_nodes (id),
  browser_event_id INTEGER NOT NULL REFERENCES browser_events (id),
  PRIMARY KEY (knowledge_node_id, browser_event_id)
);

CREATE TABLE workflow_runs (
  id INTEGER PRIMARY KEY,                   -- GitHub's number of the run
  repo TEXT NOT NULL,                       -- owner/name
  head_sha TEXT NOT NULL,
  head_branch TEXT,
  event TEXT NOT NULL,                      -- push, pull_request …: what started it
  status TEXT NOT NULL,
  conclusion TEXT,                          -- NULL until it is over
  started_at INTEGER,
  completed_at INTEGER,
  html_url TEXT NOT NULL,
  actor TEXT,
  raw_json TEXT NOT NULL,                   -- the answer of the API, for what has no column
  first_seen_at INTEGER NOT NULL,
  last_seen_at INTEGER NOT NULL,
  enriched INTEGER NOT NULL DEFAULT 0
);

CREATE INDEX idx_workflow_runs_sha ON workflow_runs (head_sha);
CREATE INDEX idx_workflow_runs_repo_started ON workflow_runs (repo, started_at);

CREATE TABLE workflow_jobs (
  id INTEGER PRIMARY KEY,                   -- GitHub's number of the job
  run_id INTEGER NOT NULL REFERENCES workflow_runs (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  status TEXT NOT NULL,
  conclusion TEXT,
  started_at INTEGER,
  completed_at INTEGER,
  runner_name TEXT,
  raw_json TEXT NOT NULL
);

CREATE INDEX idx_workflow_jobs_run ON workflow_jobs (run_id);

CREATE TABLE workflow_annotations (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  job_id INTEGER NOT NULL REFERENCES workflow_jobs (id) ON DELETE CASCADE,
  level TEXT NOT NULL,                      -- failure, warning, notice
  tool TEXT,                                -- ruff, clippy …: with rule_id it tells equal failures apart
  rule_id TEXT,
  path TEXT,
  start_line INTEGER,
  message TEXT NOT NULL
);

CREATE INDEX idx_workflow_annotations_job ON workflow_annotations (job_id);
CREATE INDEX idx_workflow_annotations_tool_rule ON workflow_annotations (tool, rule_id);

CREATE TABLE workflow_log_excerpts (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  job_id INTEGER NOT NULL REFERENCES workflow_jobs (id) ON DELETE CASCADE,
  step_name TEXT,
  excerpt TEXT NOT NULL,                    -- the lines around the failure, not the whole log
  truncated INTEGER NOT NULL DEFAULT 0
);

CREATE INDEX idx_workflow_log_excerpts_job ON workflow_log_excerpts (job_id);

CREATE TABLE sha_watchlist (
  sha TEXT NOT NULL,
  repo TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,              -- nobody waits for ever for a run that does not come
  terminal_status TEXT,
  notified INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (sha, repo)
);

CREATE INDEX idx_sha_watchlist_expires ON sha_watchlist (expires_at);

CREATE TABLE workflow_enrichment_queue (
  run_id INTEGER PRIMARY KEY REFERENCES workflow_runs (id) ON DELETE CASCADE,
  status TEXT NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'processing', 'done', 'failed', 'skipped')),
  priority INTEGER NOT NULL DEFAULT 5,
  retry_count INTEGER NOT NULL DEFAULT 0,
  max_retries INTEGER NOT NULL DEFAULT 5,
  error_message TEXT,
  locked_at INTEGER,
  locked_by TEXT,
  enqueued_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
);

CREATE INDEX idx_workflow_queue_pending ON workflow_enrichment_queue (status, priority);

CREATE TABLE lessons (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  repo TEXT NOT NULL,
  tool TEXT NOT NULL DEFAULT '',            -- '' and not NULL, so that UNIQUE compares it
  rule_id TEXT NOT NULL DEFAULT '',
  path_prefix TEXT NOT NULL DEFAULT '',
  summary TEXT NOT NULL,
  fix_hint TEXT,
  occurrences INTEGER NOT NULL DEFAULT 1,
  first_seen_at INTEGER NOT NULL,
  last_seen_at INTEGER NOT NULL,
  UNIQUE (repo, tool, rule_id, path_prefix)
);

CREATE INDEX idx_lessons_repo ON lessons (repo);

CREATE TABLE lesson_pending (               -- failures seen once: the second time makes a lesson
  repo TEXT NOT NULL,
  tool TEXT NOT NULL DEFAULT '',
  rule_id TEXT NOT NULL DEFAULT '',
  path_prefix TEXT NOT NULL DEFAULT '',
  count INTEGER NOT NULL DEFAULT 1,
  first_seen_at INTEGER NOT NULL,
  UNIQUE (repo, tool, rule_id, path_prefix)
);

CREATE TABLE knowledge_node_workflow_runs (
  knowledge_node_id INTEGER NOT NULL REFERENCES knowledge_nodes (id),
  run_id INTEGER NOT NULL REFERENCES workflow_runs (id) ON DELETE CASCADE,
  PRIMARY KEY (knowledge_node_id, run_id)
);

CREATE TABLE knowledge_node_lessons (
  knowledge_node_id INTEGER NOT NULL REFERENCES knowledge_nodes (id),
  lesson_id INTEGER NOT NULL REFERENCES lessons (id) ON DELETE CASCADE,
  PRIMARY KEY (knowledge_node_id, lesson_id)
);

-- The index keeps a copy of its text; the triggers keep it in step with the nodes, whoever writes them.
CREATE VIRTUAL TABLE knowledge_fts USING fts5(
  summary, embed_text, content, tokenize = 'porter unicode61 remove_diacritics 2'
);

CREATE TRIGGER knowledge_nodes_fts_ai AFTER INSERT ON knowledge_nodes BEGIN
  INSERT INTO knowledge_fts (rowid, summary, embed_text, content) VALUES (
    NEW.id,
    COALESCE(CASE WHEN json_valid(NEW.content) THEN json_extract(NEW.content, '$.summary') END, ''),
    NEW.embed_text,
    NEW.content
  );
END;

CREATE TRIGGER knowledge_nodes_fts_ad AFTER DELETE ON knowledge_nodes BEGIN
  DELETE FROM knowledge_fts WHERE rowid = OLD.id;
END;

CREATE TRIGGER knowledge_nodes_fts_au AFTER UPDATE ON knowledge_nodes BEGIN
  DELETE FROM knowledge_fts WHERE rowid = OLD.id;
  INSERT INTO knowledge_fts (rowid, summary, embed_text, content) VALUES (
    NEW.id,
    COALESCE(CASE WHEN json_valid(NEW.content) THEN json_extract(NEW.content, '$.summary') END, ''),
    NEW.embed_text,
    NEW.content
  );
END;

CREATE TABLE source_health (
  source TEXT PRIMARY KEY,                  -- one row for each way in which work is captured
  last_event_ts INTEGER,                    -- the time of the newest event; probes count
  last_success_ts INTEGER,                  -- when capture last did its work, with or without an event
  last_error_ts INTEGER,
  last_error_msg TEXT,
  consecutive_failures INTEGER NOT NULL DEFAULT 0, -- 0 again after a success
  events_last_1h INTEGER NOT NULL DEFAULT 0,
  events_last_24h INTEGER NOT NULL DEFAULT 0,
  expected_min_per_hour INTEGER,
  probe_ok INTEGER,                         -- the last probe came through; the three are set together
  probe_lag_ms INTEGER,
  probe_last_run_ts INTEGER,
  last_heartbeat_ts INTEGER,                -- the browser's extension says that it is alive
  updated_at INTEGER NOT NULL
);

CREATE TABLE capture_alarms (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  invariant_id TEXT NOT NULL,               -- which rule about capture was broken
  raised_at INTEGER NOT NULL,
  details_json TEXT NOT NULL,
  acked_at INTEGER,                         -- a person has seen it
  ack_note TEXT,
  resolved_at INTEGER,                      -- it went away by itself
  clean_ticks INTEGER NOT NULL DEFAULT 0 CHECK (clean_ticks >= 0) -- how often it was looked for in vain
);

CREATE INDEX idx_capture_alarms_invariant_active ON capture_alarms (invariant_id, acked_at)
  WHERE acked_at IS NULL AND resolved_at IS NULL;

CREATE TABLE agentic_sessions (
  id INTEGER PRIMARY KEY,
  session_id TEXT NOT NULL,                 -- the agent's own name of the conversation
  harness TEXT NOT NULL DEFAULT 'opencode' CHECK (harness IN (
    'claude-code', 'opencode', 'codex', 'cursor', 'gemini-cli', 'copilot-cli', 'pi', 'aider', 'hermes', 'nanoclaw',
    'chat', 'state', 'mailbox'
  )),
  segment_index INTEGER NOT NULL DEFAULT 0, -- a long conversation is cut; each slice is a row
  model TEXT NOT NULL DEFAULT '',
  agent TEXT DEFAULT '',
  project_dir TEXT NOT NULL,                -- as the agent names the project
  cwd TEXT NOT NULL,
  git_branch TEXT,
  slug TEXT DEFAULT '',
  title TEXT DEFAULT '',
  parent_session_id TEXT,
  is_subagent INTEGER NOT NULL DEFAULT 0,
  summary_text TEXT NOT NULL,               -- what is enriched: prompts, answers, tools in short
  tool_calls_json TEXT,
  user_prompts_json TEXT,
  source_file TEXT DEFAULT '',
  snapshot_diffs_json TEXT DEFAULT 'null',
  commit_messages_json TEXT DEFAULT '[]',
  message_count INTEGER NOT NULL DEFAULT 0,
  token_count INTEGER NOT NULL DEFAULT 0,
  start_time INTEGER NOT NULL,
  end_time INTEGER NOT NULL,
  content_hash TEXT,                        -- of what was last stored
  last_enriched_content_hash TEXT,          -- of what was last enriched: if they differ there is work
  created_at INTEGER NOT NULL DEFAULT (unixepoch('now', 'subsec') * 1000),
  enriched INTEGER NOT NULL DEFAULT 0,
  probe_tag TEXT,
  UNIQUE (session_id, harness, segment_index)
);

CREATE INDEX idx_agentic_sessions_harness ON agentic_sessions (harness);
CREATE INDEX idx_agentic_sessions_cwd ON agentic_sessions (cwd);
CREATE INDEX idx_agentic_sessions_start_time ON agentic_sessions (start_time DESC);
CREATE INDEX idx_agentic_sessions_enriched ON agentic_sessions (enriched) WHERE enriched = 0;

CREATE TABLE knowledge_node_agentic_sessions (
  knowledge_node_id INTEGER NOT NULL REFERENCES knowledge_nodes (id),
  agentic_session_id INTEGER NOT NULL REFERENCES agentic_sessions (id) ON DELETE CASCADE,
  PRIMARY KEY (knowledge_node_id, agentic_session_id)
);

CREATE TABLE agentic_enrichment_queue (
  id INTEGER PRIMARY KEY,
  session_id INTEGER NOT NULL UNIQUE REFERENCES agentic_sessions (id), -- the row, not the agent's name
  status TEXT NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'processing', 'done', 'failed', 'skipped')),
  priority INTEGER NOT NULL DEFAULT 5,
  retry_count INTEGER NOT NULL DEFAULT 0,
  max_retries INTEGER NOT NULL DEFAULT 5,
  error_message TEXT,
  locked_at INTEGER,
  locked_by TEXT,
  enqueued_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
);

CREATE INDEX idx_agentic_queue_pending ON agentic_enrichment_queue (status, priority) WHERE status = 'pending';

CREATE TABLE agentic_cursor (
  source_key TEXT PRIMARY KEY,              -- a source that is asked, and how far it was read
  last_seen_updated_at INTEGER NOT NULL DEFAULT 0,
  last_id TEXT NOT NULL DEFAULT '',
  updated_at INTEGER NOT NULL
);
