-- The archive and what capture remembers: tables of our own beside the contract's, all named tk_.
-- Programs of the contract never look at them. Every statement can be run again.

-- One row for each log that was ever found: a file, or one session inside a database.
CREATE TABLE IF NOT EXISTS tk_logs (
  id INTEGER PRIMARY KEY,
  reader TEXT NOT NULL,              -- which source of ours reads it: a program may have several
  harness TEXT NOT NULL,             -- which program wrote it
  path TEXT NOT NULL,                -- where it is, or was seen last
  item TEXT NOT NULL DEFAULT '',     -- the session inside a database; empty for the file itself
  session_id TEXT NOT NULL DEFAULT '',
  size INTEGER NOT NULL DEFAULT 0,   -- these four and ctime_ns: how it looked; if they are the same, so is the file
  mtime_ns INTEGER NOT NULL DEFAULT 0,
  device INTEGER NOT NULL DEFAULT 0,
  inode INTEGER NOT NULL DEFAULT 0,
  fingerprint TEXT NOT NULL DEFAULT '', -- the same for a session inside a database
  read_to INTEGER NOT NULL DEFAULT 0, -- bytes read: the end of the last complete line
  head BLOB,                         -- digest of its first bytes: another file under the same name shows
  head_size INTEGER NOT NULL DEFAULT 0, -- how many bytes that digest is of
  tail BLOB,                         -- digest of the last bytes read: a rewrite behind the head shows
  lines INTEGER NOT NULL DEFAULT 0,  -- lines archived
  bad_lines INTEGER NOT NULL DEFAULT 0, -- of these, lines that are no JSON: kept as they are
  source_bytes INTEGER NOT NULL DEFAULT 0, -- bytes of all lines archived
  parser BLOB,                       -- where its parser stopped
  excluded INTEGER NOT NULL DEFAULT 0, -- 1: the user does not want it kept
  captured_at INTEGER,               -- when something of it was last archived
  gone_at INTEGER,                   -- when it was first found missing; what was archived stays
  error TEXT,                        -- why it could not be read the last time
  ctime_ns INTEGER NOT NULL DEFAULT 0, -- nobody can set it: a rewrite that puts size and time back shows here
  crc INTEGER,                       -- CRC-32 of all bytes before read_to; NULL: of a version that kept none
  checked_at INTEGER                 -- when all of these bytes were last compared with it
);
CREATE UNIQUE INDEX IF NOT EXISTS tk_logs_place ON tk_logs (reader, path, item);
CREATE INDEX IF NOT EXISTS tk_logs_session ON tk_logs (harness, session_id);
CREATE INDEX IF NOT EXISTS tk_logs_inode ON tk_logs (inode);

-- The lines of the logs, as they were (secrets masked), compressed in blocks. A block is named by
-- the digest of its text, so the same block of two logs is stored once.
CREATE TABLE IF NOT EXISTS tk_blocks (
  id INTEGER PRIMARY KEY,
  digest BLOB NOT NULL UNIQUE,       -- half of the text's SHA-256, also the proof that it is undamaged
  size INTEGER NOT NULL,             -- bytes of text
  codec TEXT NOT NULL DEFAULT 'zstd',
  data BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS tk_log_blocks (
  log_id INTEGER NOT NULL REFERENCES tk_logs (id),
  first_line INTEGER NOT NULL,       -- number of its first line in the log, from 0
  lines INTEGER NOT NULL,
  block_id INTEGER NOT NULL REFERENCES tk_blocks (id),
  PRIMARY KEY (log_id, first_line)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS tk_log_blocks_block ON tk_log_blocks (block_id);

-- The records of a document (a database, a file that is rewritten whole): what was archived of it.
CREATE TABLE IF NOT EXISTS tk_records (
  log_id INTEGER NOT NULL REFERENCES tk_logs (id),
  key TEXT NOT NULL,
  digest BLOB NOT NULL,              -- of the record as archived: equal means nothing new
  line INTEGER NOT NULL,             -- its line in the archive
  PRIMARY KEY (log_id, key)
) WITHOUT ROWID;

-- Where the archive has a mask, and which rule put it there; what stood there is nowhere noted.
CREATE TABLE IF NOT EXISTS tk_masks (
  log_id INTEGER NOT NULL REFERENCES tk_logs (id),
  line INTEGER NOT NULL,             -- its line in the archive
  place INTEGER NOT NULL,            -- the byte of that line where the mask begins
  rule TEXT NOT NULL,
  PRIMARY KEY (log_id, line, place)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS tk_masks_rule ON tk_masks (rule);

-- Rules whose masks were undone: they mask no more in this session.
CREATE TABLE IF NOT EXISTS tk_exempt_rules (
  harness TEXT NOT NULL,
  session_id TEXT NOT NULL,
  rule TEXT NOT NULL,
  undone_at INTEGER NOT NULL,
  PRIMARY KEY (harness, session_id, rule)
) WITHOUT ROWID;

-- One row for each session of each program.
CREATE TABLE IF NOT EXISTS tk_sessions (
  id INTEGER PRIMARY KEY,
  harness TEXT NOT NULL,
  session_id TEXT NOT NULL,
  parent_session_id TEXT,
  is_subagent INTEGER NOT NULL DEFAULT 0,
  hidden INTEGER NOT NULL DEFAULT 0, -- 1: an internal thread of its program; 2: nothing but copies, folded under its origin
  title TEXT NOT NULL DEFAULT '',
  agent TEXT NOT NULL DEFAULT '',
  model TEXT NOT NULL DEFAULT '',
  cwd TEXT NOT NULL DEFAULT '',
  project TEXT NOT NULL DEFAULT '',  -- last component of the folder it began in
  git_branch TEXT NOT NULL DEFAULT '',
  slug TEXT NOT NULL DEFAULT '',
  version TEXT NOT NULL DEFAULT '',
  first_prompt TEXT NOT NULL DEFAULT '', -- its beginning, for lists
  started_at INTEGER,
  ended_at INTEGER,
  entries INTEGER NOT NULL DEFAULT 0,
  prompts INTEGER NOT NULL DEFAULT 0,
  tool_calls INTEGER NOT NULL DEFAULT 0,
  errors INTEGER NOT NULL DEFAULT 0, -- tool results that failed
  UNIQUE (harness, session_id)
);
CREATE INDEX IF NOT EXISTS tk_sessions_recent ON tk_sessions (ended_at DESC, id DESC);
CREATE INDEX IF NOT EXISTS tk_sessions_by_id ON tk_sessions (session_id);
CREATE INDEX IF NOT EXISTS tk_sessions_parent ON tk_sessions (parent_session_id) WHERE parent_session_id IS NOT NULL;

-- One row for each thing said or done; its text stands in the archive at (log, line, part).
-- An entry that changed gets a new id, so that old words in the index lead nowhere.
CREATE TABLE IF NOT EXISTS tk_entries (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  session INTEGER NOT NULL REFERENCES tk_sessions (id),
  key TEXT NOT NULL,                 -- the message's own id in its program
  log_id INTEGER NOT NULL,
  line INTEGER NOT NULL,
  part INTEGER NOT NULL,             -- which entry of that line
  role TEXT NOT NULL,
  kind TEXT NOT NULL,                -- as in records.Kind; `copy`: another session has the same, where it is found and counted
  at INTEGER,
  tool TEXT,
  error INTEGER NOT NULL DEFAULT 0,
  hash INTEGER NOT NULL,             -- of its text: equal entries are shown once
  UNIQUE (session, key)
);
CREATE INDEX IF NOT EXISTS tk_entries_log ON tk_entries (log_id, line, part);
CREATE VIRTUAL TABLE IF NOT EXISTS tk_entry_words USING fts5 (
  text, content = '', tokenize = 'porter unicode61 remove_diacritics 2'
);

-- Sessions that were handed over from another one, which need not be in this store.
CREATE TABLE IF NOT EXISTS tk_origins (
  session INTEGER PRIMARY KEY REFERENCES tk_sessions (id) ON DELETE CASCADE,
  harness TEXT NOT NULL,             -- these two: the session that it continues
  session_id TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS tk_origins_original ON tk_origins (harness, session_id);

-- Copied entries whose original is not here: their words stand nowhere else, so they are found and counted like all others.
-- When the original comes they become entries of the kind `copy`.
CREATE TABLE IF NOT EXISTS tk_lone_copies (
  entry INTEGER PRIMARY KEY REFERENCES tk_entries (id) ON DELETE CASCADE,
  session INTEGER NOT NULL,
  harness TEXT NOT NULL,             -- these two: the session that it was copied from
  session_id TEXT NOT NULL
);

-- What hand-offs wrote of a session in other words than it has them (a notice that was cut short, the word on where it comes
-- from): a log that says it copied these says the truth.
CREATE TABLE IF NOT EXISTS tk_retold (
  harness TEXT NOT NULL,             -- these two: the session that was handed over
  session_id TEXT NOT NULL,
  hash INTEGER NOT NULL,             -- of the text, as in tk_entries
  PRIMARY KEY (harness, session_id, hash)
) WITHOUT ROWID;

-- One row for each answer of a model, so that a replayed one is never counted twice.
CREATE TABLE IF NOT EXISTS tk_usage (
  harness TEXT NOT NULL,
  key TEXT NOT NULL,
  session INTEGER NOT NULL REFERENCES tk_sessions (id),
  at INTEGER,
  model TEXT NOT NULL,
  input INTEGER NOT NULL,            -- without what came from or went to the cache
  output INTEGER NOT NULL,
  cache_read INTEGER NOT NULL,
  cache_write INTEGER NOT NULL,
  cache_write_1h INTEGER NOT NULL,
  reasoning INTEGER NOT NULL,
  final INTEGER NOT NULL,            -- 0: the log may have been cut before the last count came
  PRIMARY KEY (harness, key)
) WITHOUT ROWID;

-- Record types that this version does not know: the format of a program has moved on.
CREATE TABLE IF NOT EXISTS tk_unknown (
  harness TEXT NOT NULL,
  kind TEXT NOT NULL,
  count INTEGER NOT NULL,
  log_id INTEGER NOT NULL,           -- where it was seen last
  last_seen INTEGER NOT NULL,
  PRIMARY KEY (harness, kind)
) WITHOUT ROWID;

-- What the user asked to forget: it is not captured again.
CREATE TABLE IF NOT EXISTS tk_forgotten (
  harness TEXT NOT NULL,
  session_id TEXT NOT NULL,
  forgotten_at INTEGER NOT NULL,
  PRIMARY KEY (harness, session_id)
) WITHOUT ROWID;

-- Single lines that were forgotten, by the digest of what was archived: a log that is read again from its start,
-- or from another place, does not bring them back.
CREATE TABLE IF NOT EXISTS tk_forgotten_lines (
  digest BLOB PRIMARY KEY
) WITHOUT ROWID;

-- One row while something forgotten may still be in the index or in free pages; whoever finds it finishes the work.
CREATE TABLE IF NOT EXISTS tk_cleaning (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  next_log INTEGER,                  -- the words of logs from this one on are still to be indexed; NULL: of all
  last_entry INTEGER                 -- entries behind this one came later and are indexed
);

-- ---------------------------------------------------------------- what shells and browsers report

-- Beside each command that we stored: which way it came and when it began. The same command that comes
-- another way too is recognised by this.
CREATE TABLE IF NOT EXISTS tk_events (
  event_id INTEGER PRIMARY KEY REFERENCES events (id) ON DELETE CASCADE,
  origin TEXT NOT NULL,              -- hook, socket, fallback, run, history
  started_at INTEGER NOT NULL,
  running INTEGER NOT NULL DEFAULT 0 -- 1: it was reported when it began, and its end is waited for
);
-- By origin first: a command is compared with those that came other ways, however many came its own way at that time.
CREATE INDEX IF NOT EXISTS tk_events_way ON tk_events (origin, started_at);
CREATE INDEX IF NOT EXISTS tk_events_running ON tk_events (started_at) WHERE running = 1;

-- The session of each terminal: the contract's own table has no index to find it by.
CREATE TABLE IF NOT EXISTS tk_terminals (
  terminal TEXT PRIMARY KEY,
  session_id INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS tk_terminals_session ON tk_terminals (session_id);

-- The environment that a running shell reported last.
CREATE TABLE IF NOT EXISTS tk_shells (
  session TEXT NOT NULL,
  pid INTEGER NOT NULL,
  snapshot INTEGER NOT NULL REFERENCES env_snapshots (id) ON DELETE CASCADE,
  seen_at INTEGER NOT NULL,
  PRIMARY KEY (session, pid)
) WITHOUT ROWID;

-- How far each file of the spool is stored: moved in the same transaction as what it brought.
CREATE TABLE IF NOT EXISTS tk_spool (
  name TEXT PRIMARY KEY,
  offset INTEGER NOT NULL,
  skipping INTEGER NOT NULL DEFAULT 0, -- 1: inside a record that is too long to be one
  updated_at INTEGER NOT NULL
) WITHOUT ROWID;

-- What did not become a row, and why: counted for good.
CREATE TABLE IF NOT EXISTS tk_drops (
  source TEXT NOT NULL,
  reason TEXT NOT NULL,
  count INTEGER NOT NULL,
  last_at INTEGER NOT NULL,
  PRIMARY KEY (source, reason)
) WITHOUT ROWID;

-- What the user had forgotten does not come back with the next import.
CREATE TABLE IF NOT EXISTS tk_forgotten_events (envelope_id TEXT PRIMARY KEY) WITHOUT ROWID;

-- Nor does it come back another way, under another id: a shell's own history still has it.
CREATE TABLE IF NOT EXISTS tk_forgotten_commands (
  digest BLOB NOT NULL,              -- of the command as it was stored
  started_at INTEGER NOT NULL,
  PRIMARY KEY (digest, started_at)
) WITHOUT ROWID;

-- How far each run of CI is known. The row stays when the run is forgotten, so that nobody brings it back.
CREATE TABLE IF NOT EXISTS tk_ci_runs (
  run_id INTEGER PRIMARY KEY,
  attempt INTEGER NOT NULL,          -- a run that is started again keeps its number and gets the next attempt
  detailed INTEGER NOT NULL DEFAULT 0, -- 1: jobs, annotations and logs of this attempt are stored, its failures counted
  tries INTEGER NOT NULL DEFAULT 0,  -- looks at which something of it could not be had
  due_at INTEGER NOT NULL DEFAULT 0  -- it is not looked at again before
);
CREATE INDEX IF NOT EXISTS tk_ci_runs_open ON tk_ci_runs (run_id) WHERE detailed = 0;

-- What the CI server answered last: while the tag of its answer is the same, so are the runs.
CREATE TABLE IF NOT EXISTS tk_ci_answers (
  url TEXT PRIMARY KEY,
  etag TEXT NOT NULL,
  runs TEXT NOT NULL,                -- JSON array: the numbers of the runs in the answer
  asked_at INTEGER NOT NULL
) WITHOUT ROWID;

-- From what a node tells of to the node: asked with each node that is written, and with each row that goes. The contract's
-- own keys lead the other way only, so that every node cost a look at all links: 4,000 segments took 9 s, and now 4.
CREATE INDEX IF NOT EXISTS tk_nodes_of_event ON knowledge_node_events (event_id);
CREATE INDEX IF NOT EXISTS tk_nodes_of_segment ON knowledge_node_agentic_sessions (agentic_session_id);
CREATE INDEX IF NOT EXISTS tk_nodes_of_visit ON knowledge_node_browser_events (browser_event_id);
CREATE INDEX IF NOT EXISTS tk_nodes_of_run ON knowledge_node_workflow_runs (run_id);
CREATE INDEX IF NOT EXISTS tk_nodes_of_lesson ON knowledge_node_lessons (lesson_id);
