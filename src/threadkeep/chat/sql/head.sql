-- The chat store: three contract tables, then what is ours alone (tk_, the journal, prompts).
-- The order of the columns matters: those after the blank line were added to the guide's own,
-- and an older file gets them appended in this order.

CREATE TABLE chat_sessions (
  id TEXT PRIMARY KEY,                            -- ses_…, or a foreign id, verbatim
  agent TEXT NOT NULL,                            -- who the session was opened with; never changes
  workspace_root TEXT,                            -- empty for a session rooted nowhere
  -- the model of the latest turn; a store that writes NULL gets the empty object instead
  model_json TEXT NOT NULL ON CONFLICT REPLACE DEFAULT '{}',
  parent_id TEXT,                                 -- the session this one branched from
  parent_message_id TEXT,                         -- ... at this message
  permissions_json TEXT NOT NULL DEFAULT '[]',    -- session-scope rules only
  metadata_json TEXT NOT NULL DEFAULT '{}',
  prompt_tokens INTEGER NOT NULL DEFAULT 0,       -- the five sums count what the model still sees
  completion_tokens INTEGER NOT NULL DEFAULT 0,
  reasoning_tokens INTEGER NOT NULL DEFAULT 0,
  cache_read INTEGER NOT NULL DEFAULT 0,
  cache_write INTEGER NOT NULL DEFAULT 0,
  total_tokens INTEGER NOT NULL DEFAULT 0,        -- their sum, so that a list needs no arithmetic
  cost_usd REAL NOT NULL DEFAULT 0,               -- only what a writer reported; never computed
  created_at INTEGER NOT NULL,                    -- all times are epoch milliseconds
  updated_at INTEGER NOT NULL,
  archived_at INTEGER,                            -- set: out of the default list, not deleted

  title TEXT,                                     -- never NULL: a trigger sees to it
  workspace_id TEXT,
  mode TEXT
);
CREATE INDEX idx_chat_sessions_agent_updated ON chat_sessions(agent, updated_at);
CREATE INDEX idx_chat_sessions_root_updated ON chat_sessions(workspace_root, updated_at);
CREATE INDEX idx_chat_sessions_workspace_updated ON chat_sessions(workspace_id, updated_at);
CREATE INDEX idx_chat_sessions_parent ON chat_sessions(parent_id);
CREATE INDEX idx_chat_sessions_archived ON chat_sessions(archived_at);
-- the unfiltered list: without it 100,000 sessions are sorted for every page
CREATE INDEX idx_chat_sessions_updated ON chat_sessions(updated_at, id);

CREATE TABLE chat_messages (
  id TEXT PRIMARY KEY,                            -- msg_…, or the id of the stream, verbatim
  session_id TEXT NOT NULL REFERENCES chat_sessions(id) ON DELETE CASCADE,
  role TEXT NOT NULL,                             -- user, assistant or system
  metadata_json TEXT NOT NULL DEFAULT '{}',       -- metadata of the stream, and the guide keys
  created_at INTEGER NOT NULL,                    -- strictly rising within a session: the order
  updated_at INTEGER NOT NULL,

  hidden_at INTEGER                               -- set by a rewind; also kept in the metadata
);
CREATE INDEX idx_chat_messages_session_created ON chat_messages(session_id, created_at);
CREATE INDEX idx_chat_messages_hidden ON chat_messages(hidden_at);

CREATE TABLE chat_parts (
  id TEXT PRIMARY KEY,                            -- prt_…
  message_id TEXT NOT NULL REFERENCES chat_messages(id) ON DELETE CASCADE,
  session_id TEXT NOT NULL,                       -- same as the message, for scans of a session
  "index" INTEGER NOT NULL,                       -- the position in the message
  type TEXT NOT NULL,
  data_json TEXT NOT NULL,                        -- the whole part, in AI SDK field names
  tool_call_id TEXT,                              -- lifted out, so that a late result finds its call
  tool_state TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,

  continuation_run_id TEXT
);
CREATE UNIQUE INDEX idx_chat_parts_message_index ON chat_parts(message_id, "index");
CREATE INDEX idx_chat_parts_session ON chat_parts(session_id);
CREATE INDEX idx_chat_parts_tool_call ON chat_parts(tool_call_id);
