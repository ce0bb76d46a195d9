-- The state contract: session history as Hermes Agent's schema 6 has it, table by table and name by name.
-- Hermes opens and writes such a file; what is ours alone is in side.sql.

CREATE TABLE schema_version (
  version INTEGER NOT NULL                  -- one row; the tables themselves say more
);

CREATE TABLE sessions (
  id TEXT PRIMARY KEY,
  source TEXT NOT NULL,                     -- cli, telegram, cron …: where the conversation is held
  user_id TEXT,
  model TEXT,                               -- the first model known; usage by model is in tk_usage
  model_config TEXT,                        -- JSON text, given back as text
  system_prompt TEXT,
  parent_session_id TEXT,                   -- why it has a parent is in tk_relations
  started_at REAL NOT NULL,                 -- Unix seconds, like every time here
  ended_at REAL,
  end_reason TEXT,                          -- 'compression': goes on in a child
  message_count INTEGER DEFAULT 0,
  tool_call_count INTEGER DEFAULT 0,
  input_tokens INTEGER DEFAULT 0,
  output_tokens INTEGER DEFAULT 0,
  cache_read_tokens INTEGER DEFAULT 0,
  cache_write_tokens INTEGER DEFAULT 0,
  reasoning_tokens INTEGER DEFAULT 0,
  billing_provider TEXT,
  billing_base_url TEXT,
  billing_mode TEXT,
  estimated_cost_usd REAL,
  actual_cost_usd REAL,
  cost_status TEXT,
  cost_source TEXT,
  pricing_version TEXT,
  title TEXT,                               -- unique among those that have one
  FOREIGN KEY (parent_session_id) REFERENCES sessions(id)
);

CREATE INDEX idx_sessions_source ON sessions(source);
CREATE INDEX idx_sessions_parent ON sessions(parent_session_id);
CREATE INDEX idx_sessions_started ON sessions(started_at DESC);
CREATE UNIQUE INDEX idx_sessions_title_unique ON sessions(title) WHERE title IS NOT NULL;

CREATE TABLE messages (
  id INTEGER PRIMARY KEY AUTOINCREMENT,     -- the order of replay; the clock may step back
  session_id TEXT NOT NULL REFERENCES sessions(id),
  role TEXT NOT NULL,
  content TEXT,                             -- valid, readable text; what it cannot hold is in tk_exact
  tool_call_id TEXT,
  tool_calls TEXT,                          -- JSON text
  tool_name TEXT,
  timestamp REAL NOT NULL,
  token_count INTEGER,
  finish_reason TEXT,
  reasoning TEXT,
  reasoning_details TEXT,                   -- JSON text
  codex_reasoning_items TEXT                -- JSON text
);

CREATE INDEX idx_messages_session ON messages(session_id, timestamp);
