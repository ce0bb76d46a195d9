-- What threadkeep keeps beside the tables of the contract. Hermes ignores all of it, and the triggers, in
-- plain SQL, keep it right when Hermes writes. A file without these tables gets them when we first write it.
-- `threadkeep state release` takes all of it out again.

CREATE TABLE tk_meta (
  key TEXT PRIMARY KEY,                     -- side_version; indexed: the last message tk_search has seen
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Indexes for what the contract's own cannot answer in the time of one page. (One more over session and id would
-- page through a session of 100,000 messages quicker than the 10 ms it takes; it costs 4 % of the file.)
CREATE INDEX tk_sessions_roots ON sessions(started_at DESC) WHERE parent_session_id IS NULL;
CREATE INDEX tk_sessions_by_source ON sessions(source, started_at DESC);

-- Fingerprints: SQLite does not see a flipped bit in a text.
CREATE TABLE tk_hashes (
  id INTEGER PRIMARY KEY,                   -- messages.id
  hash INTEGER NOT NULL                     -- 64 bits over the thirteen columns as stored
) STRICT;

CREATE TABLE tk_session_hashes (
  session_id TEXT PRIMARY KEY,
  hash INTEGER NOT NULL                     -- over what stays as it is while a session grows
) STRICT, WITHOUT ROWID;

-- Values that a text column cannot hold exactly: half characters, lists, bytes.
CREATE TABLE tk_exact (
  owner TEXT NOT NULL,                      -- 'message' or 'session'
  key ANY NOT NULL,                         -- its id
  field TEXT NOT NULL,                      -- the column that holds the readable form
  kind TEXT NOT NULL,                       -- 'json', 'cut' (with its long strings in tk_blobs), 'bytes'
  value ANY NOT NULL,
  hash INTEGER NOT NULL,                    -- over the other five
  PRIMARY KEY (owner, key, field)
) STRICT, WITHOUT ROWID;

-- What was already done under a caller's key, so that a retry does nothing twice.
CREATE TABLE tk_keys (
  session_id TEXT NOT NULL,
  kind TEXT NOT NULL,                       -- 'message' or 'usage'
  key TEXT NOT NULL,
  message_id INTEGER,                       -- the message it made
  PRIMARY KEY (session_id, kind, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE tk_flags (
  session_id TEXT PRIMARY KEY,
  pinned_at REAL,                           -- pruning spares it
  archived_at REAL,                         -- listings leave it out
  title_source TEXT,                        -- 'user' or 'auto': an automatic title never replaces a user's
  titled TEXT                               -- the title it is about; another one came from another program
) STRICT, WITHOUT ROWID;

CREATE TABLE tk_relations (
  session_id TEXT PRIMARY KEY,              -- the child
  parent_id TEXT NOT NULL,                  -- kept when the parent is deleted
  kind TEXT NOT NULL                        -- 'compression', 'branch' or 'delegate'
) STRICT, WITHOUT ROWID;
CREATE INDEX tk_relations_kind ON tk_relations(kind);

-- Messages taken back by a rewind: out of Hermes's sight, and there for an undo.
CREATE TABLE tk_rewound (
  id INTEGER PRIMARY KEY,                   -- the id it had and gets again
  batch INTEGER NOT NULL,                   -- one number per rewind
  cut INTEGER NOT NULL,                     -- from which id on the session was cut: an undo cuts there, too
  rewound_at REAL NOT NULL,
  session_id TEXT NOT NULL,
  role TEXT NOT NULL,
  content TEXT,
  tool_call_id TEXT,
  tool_calls TEXT,
  tool_name TEXT,
  timestamp REAL NOT NULL,
  token_count INTEGER,
  finish_reason TEXT,
  reasoning TEXT,
  reasoning_details TEXT,
  codex_reasoning_items TEXT,
  hash INTEGER,                             -- the fingerprint it had
  exact TEXT                                -- its rows of tk_exact and tk_offloaded, as JSON
);
CREATE INDEX tk_rewound_session ON tk_rewound(session_id, batch);

-- Usage as it came in, by day and model; sessions only have the sum, and only the first model.
CREATE TABLE tk_usage (
  session_id TEXT NOT NULL,                 -- kept when the session is deleted: spent is spent
  day TEXT NOT NULL,                        -- of the local clock, YYYY-MM-DD
  model TEXT NOT NULL,                      -- '' if nobody said
  source TEXT NOT NULL,
  input_tokens INTEGER NOT NULL DEFAULT 0,
  output_tokens INTEGER NOT NULL DEFAULT 0,
  cache_read_tokens INTEGER NOT NULL DEFAULT 0,
  cache_write_tokens INTEGER NOT NULL DEFAULT 0,
  reasoning_tokens INTEGER NOT NULL DEFAULT 0,
  estimated_cost_usd REAL NOT NULL DEFAULT 0,
  actual_cost_usd REAL NOT NULL DEFAULT 0,
  PRIMARY KEY (session_id, day, model)
) STRICT, WITHOUT ROWID;

-- What another program counted in a session beyond that, as of our last look: usage when the session goes.
CREATE TABLE tk_spent (
  session_id TEXT PRIMARY KEY,
  day TEXT NOT NULL,                        -- on which the session began
  model TEXT NOT NULL,
  source TEXT NOT NULL,
  input_tokens INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,
  cache_read_tokens INTEGER NOT NULL,
  cache_write_tokens INTEGER NOT NULL,
  reasoning_tokens INTEGER NOT NULL,
  estimated_cost_usd REAL NOT NULL,
  actual_cost_usd REAL NOT NULL
) STRICT, WITHOUT ROWID;

-- Pictures in exact values, and what was moved out of ended sessions, each kept once.
CREATE TABLE tk_blobs (
  hash TEXT PRIMARY KEY,                    -- of the original text
  codec TEXT NOT NULL,                      -- how `data` becomes the text again
  size INTEGER NOT NULL,                    -- characters of the text
  data BLOB NOT NULL
) STRICT;

CREATE TABLE tk_offloaded (
  message_id INTEGER NOT NULL,
  field TEXT NOT NULL,                      -- the column whose value was shortened
  pieces TEXT NOT NULL,                     -- JSON: how texts and blobs make up the original
  PRIMARY KEY (message_id, field)
) STRICT, WITHOUT ROWID;

-- The second index: rows with scripts that have no spaces, tool names and arguments, and the rows that
-- messages_fts leaves out. Filled in batches behind the cursor in tk_meta, so writing never waits for it.
CREATE TABLE tk_docs (
  doc INTEGER PRIMARY KEY,                  -- the rowid in tk_search; a changed message gets a new one
  message_id INTEGER NOT NULL UNIQUE
) STRICT;

CREATE TABLE tk_dirty (
  id INTEGER PRIMARY KEY                    -- messages behind the cursor to be read again
) STRICT;

CREATE VIRTUAL TABLE tk_search USING fts5(text, content='', tokenize='unicode61');

-- The order of all sessions by their last message. Each append would cost two pages here, so new messages
-- are written down behind a cursor (tk_meta 'active'); a look reads what is behind it.
CREATE TABLE tk_activity (
  session_id TEXT PRIMARY KEY,
  last_active REAL NOT NULL                 -- the newest message's time, or the start
) STRICT, WITHOUT ROWID;
CREATE INDEX tk_activity_order ON tk_activity(last_active, session_id);

-- Sessions that somebody changed since we last wrote their activity and usage down. Any value is taken: a
-- program that has ids of another type, or none, must not be refused.
CREATE TABLE tk_touched (
  session_id PRIMARY KEY
);

-- ---------------------------------------------------------------- kept right, whoever writes
-- The triggers name no column of Hermes's tables but ids, and in UPDATE OF, where SQLite takes a name that is
-- gone. So Hermes may drop and rebuild columns and tables of its own. What a trigger cannot know is compared when
-- it is read (exact and offloaded values, titles), or is read again later (tk_dirty, tk_touched). DO NOTHING,
-- and not OR IGNORE: the statement that fires a trigger decides about its ORs.

CREATE TRIGGER tk_message_gone AFTER DELETE ON messages BEGIN
  DELETE FROM tk_hashes WHERE id = old.id;
  DELETE FROM tk_exact WHERE owner = 'message' AND key = old.id;
  DELETE FROM tk_offloaded WHERE message_id = old.id;
  DELETE FROM tk_docs WHERE message_id = old.id;
  DELETE FROM tk_dirty WHERE id = old.id;
  INSERT INTO tk_touched(session_id) VALUES (old.session_id) ON CONFLICT DO NOTHING;
END;

CREATE TRIGGER tk_message_changed AFTER UPDATE ON messages BEGIN
  DELETE FROM tk_hashes WHERE id = old.id;
  DELETE FROM tk_docs WHERE message_id = old.id;
  DELETE FROM tk_dirty WHERE id = old.id;
  INSERT INTO tk_dirty(id) SELECT new.id
  WHERE new.id <= (SELECT CAST(value AS INTEGER) FROM tk_meta WHERE key = 'indexed');
  INSERT INTO tk_touched(session_id) VALUES (old.session_id), (new.session_id) ON CONFLICT DO NOTHING;
END;

CREATE TRIGGER tk_session_new AFTER INSERT ON sessions BEGIN
  INSERT INTO tk_touched(session_id) VALUES (new.id) ON CONFLICT DO NOTHING;
END;

CREATE TRIGGER tk_session_gone AFTER DELETE ON sessions BEGIN
  DELETE FROM tk_session_hashes WHERE session_id = old.id;
  DELETE FROM tk_exact WHERE owner = 'session' AND key = old.id;
  DELETE FROM tk_keys WHERE session_id = old.id;
  DELETE FROM tk_flags WHERE session_id = old.id;
  DELETE FROM tk_relations WHERE session_id = old.id;
  DELETE FROM tk_rewound WHERE session_id = old.id;
  DELETE FROM tk_activity WHERE session_id = old.id;
  DELETE FROM tk_touched WHERE session_id = old.id;
  INSERT INTO tk_usage(session_id, day, model, source, input_tokens, output_tokens, cache_read_tokens,
    cache_write_tokens, reasoning_tokens, estimated_cost_usd, actual_cost_usd)
  SELECT session_id, day, model, source, input_tokens, output_tokens, cache_read_tokens,
    cache_write_tokens, reasoning_tokens, estimated_cost_usd, actual_cost_usd
  FROM tk_spent WHERE session_id = old.id
  ON CONFLICT(session_id, day, model) DO UPDATE SET
    input_tokens = input_tokens + excluded.input_tokens,
    output_tokens = output_tokens + excluded.output_tokens,
    cache_read_tokens = cache_read_tokens + excluded.cache_read_tokens,
    cache_write_tokens = cache_write_tokens + excluded.cache_write_tokens,
    reasoning_tokens = reasoning_tokens + excluded.reasoning_tokens,
    estimated_cost_usd = estimated_cost_usd + excluded.estimated_cost_usd,
    actual_cost_usd = actual_cost_usd + excluded.actual_cost_usd;
  DELETE FROM tk_spent WHERE session_id = old.id;
END;

CREATE TRIGGER tk_session_changed AFTER UPDATE OF id, source, user_id, model_config, system_prompt,
  parent_session_id, started_at, title ON sessions
BEGIN
  DELETE FROM tk_session_hashes WHERE session_id = old.id;
  INSERT INTO tk_touched(session_id) VALUES (old.id), (new.id) ON CONFLICT DO NOTHING;
END;

CREATE TRIGGER tk_session_counted AFTER UPDATE OF input_tokens, output_tokens, cache_read_tokens,
  cache_write_tokens, reasoning_tokens, estimated_cost_usd, actual_cost_usd ON sessions
BEGIN
  INSERT INTO tk_touched(session_id) VALUES (new.id) ON CONFLICT DO NOTHING;
END;
