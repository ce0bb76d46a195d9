-- The newest tables and columns of Hermes Agent that we know by name (its schema 26), table by table and name by
-- name. Files of other versions have fewer or more: `form.py` compares. Later columns (27 and up) have a default
-- each, so they are not listed: a column that we do not know is kept, read and copied like any other.

CREATE TABLE system_prompts (               -- since 25: each prompt once
  hash TEXT PRIMARY KEY,                    -- SHA-256 of the text, in hex
  prompt TEXT NOT NULL
);

CREATE TABLE sessions (
  id TEXT PRIMARY KEY,
  source TEXT NOT NULL,
  user_id TEXT,
  session_key TEXT,                         -- 17: which conversation of a messenger owns it
  chat_id TEXT,
  chat_type TEXT,
  thread_id TEXT,
  display_name TEXT,                        -- 18
  origin_json TEXT,
  expiry_finalized INTEGER DEFAULT 0,
  model TEXT,
  model_config TEXT,                        -- JSON; _branched_from, _delegate_from, _reset_from name the parent
  system_prompt TEXT,                       -- NULL where system_prompt_hash names it
  system_prompt_hash TEXT REFERENCES system_prompts(hash),
  parent_session_id TEXT REFERENCES sessions(id),
  started_at REAL NOT NULL,
  ended_at REAL,
  end_reason TEXT,
  message_count INTEGER DEFAULT 0,
  tool_call_count INTEGER DEFAULT 0,
  input_tokens INTEGER DEFAULT 0,
  output_tokens INTEGER DEFAULT 0,
  cache_read_tokens INTEGER DEFAULT 0,
  cache_write_tokens INTEGER DEFAULT 0,
  reasoning_tokens INTEGER DEFAULT 0,
  cwd TEXT,                                 -- 16
  git_branch TEXT,                          -- 19
  git_repo_root TEXT,
  git_metadata_generation INTEGER NOT NULL DEFAULT 0,
  billing_provider TEXT,
  billing_base_url TEXT,
  billing_mode TEXT,
  estimated_cost_usd REAL,
  actual_cost_usd REAL,
  cost_status TEXT,
  cost_source TEXT,
  pricing_version TEXT,
  title TEXT,
  title_source TEXT,                        -- 26: derived, llm or user; NULL counts as user
  last_activity_at REAL,                    -- 24: the heartbeat of a running turn
  last_activity_description TEXT,
  last_activity_provenance TEXT,
  api_call_count INTEGER DEFAULT 0,         -- 8
  handoff_state TEXT,                       -- NULL, pending, running, completed, failed
  handoff_platform TEXT,
  handoff_error TEXT,
  compression_failure_cooldown_until REAL,
  compression_failure_error TEXT,
  compression_fallback_streak INTEGER NOT NULL DEFAULT 0,
  compression_ineffective_count INTEGER NOT NULL DEFAULT 0,
  profile_name TEXT,
  rewind_count INTEGER NOT NULL DEFAULT 0,  -- 16
  archived INTEGER NOT NULL DEFAULT 0,      -- 16: not in the default list
  pinned INTEGER NOT NULL DEFAULT 0,        -- spared by pruning and archiving
  hidden INTEGER NOT NULL DEFAULT 0,        -- 26: in no list unless asked for
  last_read_at REAL                         -- 26
);

CREATE TABLE messages (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  session_id TEXT NOT NULL REFERENCES sessions(id),
  role TEXT NOT NULL,
  content TEXT,                             -- a list or dict is NUL, 'json:' and JSON
  tool_call_id TEXT,
  tool_calls TEXT,
  tool_name TEXT,
  effect_disposition TEXT,
  timestamp REAL NOT NULL,
  token_count INTEGER,
  finish_reason TEXT,
  reasoning TEXT,
  reasoning_content TEXT,                   -- 7: '' is not the same as NULL
  reasoning_details TEXT,
  codex_reasoning_items TEXT,
  codex_message_items TEXT,                 -- 9
  platform_message_id TEXT,                 -- 12: the messenger's own id
  observed INTEGER DEFAULT 0,               -- 13: overheard in a group
  active INTEGER NOT NULL DEFAULT 1,        -- 16: 0 with compacted 0: taken back by the user
  compacted INTEGER NOT NULL DEFAULT 0,     -- 16: 1: summarised away, found by search
  api_content TEXT,                         -- what was sent where it differs from content
  display_kind TEXT,                        -- 'hidden': never shown
  display_metadata TEXT
);

CREATE TABLE session_model_usage (          -- 20; task since 22: '' is the conversation itself
  session_id TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
  model TEXT NOT NULL,
  billing_provider TEXT NOT NULL DEFAULT '',
  billing_base_url TEXT NOT NULL DEFAULT '',
  billing_mode TEXT NOT NULL DEFAULT '',
  task TEXT NOT NULL DEFAULT '',
  api_call_count INTEGER NOT NULL DEFAULT 0,
  input_tokens INTEGER NOT NULL DEFAULT 0,
  output_tokens INTEGER NOT NULL DEFAULT 0,
  cache_read_tokens INTEGER NOT NULL DEFAULT 0,
  cache_write_tokens INTEGER NOT NULL DEFAULT 0,
  reasoning_tokens INTEGER NOT NULL DEFAULT 0,
  estimated_cost_usd REAL NOT NULL DEFAULT 0,
  actual_cost_usd REAL NOT NULL DEFAULT 0,
  cost_status TEXT,
  cost_source TEXT,
  first_seen REAL,
  last_seen REAL,
  PRIMARY KEY (session_id, model, billing_provider, billing_base_url, billing_mode, task)
);

CREATE TABLE state_meta (
  key TEXT PRIMARY KEY,
  value TEXT
);

CREATE TABLE gateway_routing (              -- 19
  scope TEXT NOT NULL DEFAULT '',
  session_key TEXT NOT NULL,
  entry_json TEXT NOT NULL,
  updated_at REAL NOT NULL,
  PRIMARY KEY (scope, session_key)
);

CREATE TABLE gateway_hygiene_state (        -- 26
  session_key TEXT PRIMARY KEY,
  failure_streak INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE compression_locks (            -- 14
  session_id TEXT PRIMARY KEY,
  holder TEXT NOT NULL,
  acquired_at REAL NOT NULL,
  expires_at REAL NOT NULL
);

CREATE TABLE session_turn_leases (          -- 26
  conversation_id TEXT PRIMARY KEY,
  holder TEXT NOT NULL,
  acquired_at REAL NOT NULL,
  expires_at REAL NOT NULL
);

CREATE TABLE async_delegations (            -- 21
  delegation_id TEXT PRIMARY KEY,
  origin_session TEXT NOT NULL,
  origin_ui_session_id TEXT NOT NULL DEFAULT '',
  parent_session_id TEXT,
  state TEXT NOT NULL,
  dispatched_at REAL NOT NULL,
  completed_at REAL,
  updated_at REAL NOT NULL,
  event_json TEXT,
  result_json TEXT,
  delivery_state TEXT NOT NULL DEFAULT 'pending',
  delivery_attempts INTEGER NOT NULL DEFAULT 0,
  delivered_at REAL,
  owner_pid INTEGER,
  owner_started_at INTEGER,
  task_json TEXT,
  delivery_claim TEXT,
  delivery_claimed_at REAL
);

CREATE INDEX idx_sessions_source ON sessions(source);
CREATE INDEX idx_sessions_source_id ON sessions(source, id);
CREATE INDEX idx_sessions_parent ON sessions(parent_session_id);
CREATE INDEX idx_sessions_started ON sessions(started_at DESC);
CREATE INDEX idx_messages_session ON messages(session_id, timestamp);
CREATE INDEX idx_messages_session_id ON messages(session_id, id);
CREATE INDEX idx_messages_assistant_calls_by_session ON messages(session_id)
  WHERE role = 'assistant' AND tool_calls IS NOT NULL;
CREATE INDEX idx_compression_locks_expires ON compression_locks(expires_at);
CREATE INDEX idx_session_turn_leases_expires ON session_turn_leases(expires_at);
CREATE INDEX idx_session_model_usage_session ON session_model_usage(session_id);
CREATE INDEX idx_session_model_usage_model ON session_model_usage(model);
CREATE INDEX idx_async_delegations_delivery ON async_delegations(delivery_state, completed_at);
CREATE INDEX idx_messages_platform_msg_id ON messages(session_id, platform_message_id)
  WHERE platform_message_id IS NOT NULL;
CREATE INDEX idx_messages_session_active ON messages(session_id, active, timestamp);
CREATE INDEX idx_messages_active_null ON messages(active) WHERE active IS NULL;
CREATE INDEX idx_sessions_session_key ON sessions(session_key, started_at DESC);
CREATE INDEX idx_sessions_gateway_peer
  ON sessions(source, user_id, chat_id, chat_type, thread_id, started_at DESC);
CREATE INDEX idx_sessions_handoff_state ON sessions(handoff_state, started_at);
CREATE INDEX idx_sessions_system_prompt_hash ON sessions(system_prompt_hash);
CREATE UNIQUE INDEX idx_sessions_title_unique ON sessions(title) WHERE title IS NOT NULL;
