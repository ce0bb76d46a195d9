-- The index of mailboxes (mailbox.db): the host alone writes it. Who the agents are, which chats
-- they serve, which session a message belongs to, where an agent may send. The mail itself is in
-- the folder of each session. All times are ISO text in UTC with milliseconds.

CREATE TABLE agent_groups (
  id TEXT PRIMARY KEY,                            -- ag-…; names a folder, so a safe path component
  name TEXT NOT NULL,                             -- for people; two groups may have the same
  -- the agent's own folder; some file systems do not tell upper from lower case
  folder TEXT NOT NULL UNIQUE COLLATE NOCASE,
  agent_provider TEXT,                            -- NULL: the host's default
  created_at TEXT NOT NULL,
  zone TEXT                                       -- of its tasks; NULL: the host's
);
CREATE INDEX idx_agent_groups_name ON agent_groups(name);

CREATE TABLE messaging_groups (
  id TEXT PRIMARY KEY,                            -- mg-…
  channel_type TEXT NOT NULL,                     -- which adapter: telegram, slack, …
  platform_id TEXT NOT NULL,                      -- the chat's id there, verbatim
  name TEXT,                                      -- the chat's title, where the platform has one
  is_group INTEGER NOT NULL DEFAULT 0 CHECK (is_group IN (0, 1)),  -- 0: one person alone
  created_at TEXT NOT NULL,
  UNIQUE (channel_type, platform_id)
);

CREATE TABLE messaging_group_agents (
  id TEXT PRIMARY KEY,                            -- mga-…
  messaging_group_id TEXT NOT NULL REFERENCES messaging_groups(id) ON DELETE CASCADE,
  agent_group_id TEXT NOT NULL REFERENCES agent_groups(id) ON DELETE CASCADE,
  -- how the chat is cut into sessions
  session_mode TEXT NOT NULL DEFAULT 'shared'
    CHECK (session_mode IN ('shared', 'per-thread', 'agent-shared')),
  priority INTEGER NOT NULL DEFAULT 0,            -- the highest is asked first
  created_at TEXT NOT NULL,
  UNIQUE (messaging_group_id, agent_group_id)
);
CREATE INDEX idx_messaging_group_agents_agent ON messaging_group_agents(agent_group_id);

-- A group or chat with sessions cannot be deleted: their folders would belong to nobody.
CREATE TABLE sessions (
  id TEXT PRIMARY KEY,                            -- sess-…; names a folder
  agent_group_id TEXT NOT NULL REFERENCES agent_groups(id),
  messaging_group_id TEXT REFERENCES messaging_groups(id),  -- NULL: no chat began it
  thread_id TEXT,                                 -- NULL: the whole chat
  agent_provider TEXT,                            -- the group's, when the session began
  status TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'closed')),
  container_status TEXT NOT NULL DEFAULT 'stopped'
    CHECK (container_status IN ('running', 'idle', 'stopped')),   -- as the host last knew it
  last_active TEXT,                               -- NULL: never yet
  created_at TEXT NOT NULL
);
-- One active session for each place, whoever resolves it: NULLs would all differ from each other.
CREATE UNIQUE INDEX idx_sessions_one_active
  ON sessions(agent_group_id, ifnull(messaging_group_id, ''), ifnull(thread_id, ''))
  WHERE status = 'active';
CREATE INDEX idx_sessions_agent_group ON sessions(agent_group_id, status, created_at);
CREATE INDEX idx_sessions_lookup ON sessions(messaging_group_id, thread_id);
-- the poll lists active sessions every second: closed ones must not cost it anything
CREATE INDEX idx_sessions_status ON sessions(status, created_at);

-- A row is both a name and a permission: without one, an agent cannot send there.
CREATE TABLE agent_destinations (
  agent_group_id TEXT NOT NULL REFERENCES agent_groups(id) ON DELETE CASCADE,  -- who may send
  local_name TEXT NOT NULL,                       -- what this agent calls it
  target_type TEXT NOT NULL CHECK (target_type IN ('channel', 'agent')),
  target_id TEXT NOT NULL,                        -- a messaging group or an agent group
  created_at TEXT NOT NULL,
  PRIMARY KEY (agent_group_id, local_name)
) WITHOUT ROWID;
CREATE INDEX idx_agent_destinations_target
  ON agent_destinations(agent_group_id, target_type, target_id);

CREATE TABLE pending_questions (
  question_id TEXT PRIMARY KEY,                   -- as the button that answers it names it
  session_id TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,  -- who gets the answer
  message_out_id TEXT NOT NULL,                   -- the outbound mail that asked
  platform_id TEXT,                               -- where it was asked; the answer is routed alike
  channel_type TEXT,
  thread_id TEXT,
  title TEXT NOT NULL,                            -- shown again beside the chosen option
  options_json TEXT NOT NULL,                     -- the options as they were sent
  created_at TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX idx_pending_questions_session ON pending_questions(session_id);
