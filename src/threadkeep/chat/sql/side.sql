-- What is ours beside the three tables; other programs ignore it.

-- Our schema version and settings; user_version belongs to the author of the guide.
CREATE TABLE tk_meta (
  key TEXT PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;

-- The journal: every chunk of an unfinished message, in order; kept as the event log when asked.
-- Chunks of unknown types are kept in any case.
CREATE TABLE chat_events (
  stream_id TEXT NOT NULL,                        -- the session
  seq INTEGER NOT NULL,                           -- counts up within the stream, never reused
  kind TEXT NOT NULL,                             -- chunk, unknown, or the verb that changed something
  message_id TEXT,
  part_id TEXT,                                   -- the part it made, or that a late result is for
  data_json TEXT NOT NULL,                        -- the chunk, or the rows the verb left behind
  created_at INTEGER NOT NULL,
  checksum INTEGER NOT NULL,                      -- a flipped bit in a chunk is noticed
  PRIMARY KEY (stream_id, seq)                    -- no rowid: one page per committed chunk
) WITHOUT ROWID;

-- One small row per recorded message: what a tail needs once its journal rows are gone, and
-- where the numbering of the stream stands.
CREATE TABLE tk_finished (
  stream_id TEXT NOT NULL,
  seq INTEGER NOT NULL,                           -- of its last chunk; a late result may share one
  message_id TEXT NOT NULL,
  PRIMARY KEY (stream_id, seq, message_id)
) WITHOUT ROWID;
CREATE INDEX tk_finished_message ON tk_finished(message_id);

-- One row per unfinished message: what the part rows do not say about its growing parts.
CREATE TABLE tk_recordings (
  message_id TEXT PRIMARY KEY REFERENCES chat_messages(id) ON DELETE CASCADE,
  session_id TEXT NOT NULL,
  run_id TEXT,
  owner TEXT NOT NULL,                            -- the process that records; a dead one left it
  open_json TEXT NOT NULL,                        -- open part ids and how far each part is folded
  started_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX tk_recordings_session ON tk_recordings(session_id);

-- Runs: who ran, why it ended; the finish reason has no other home.
CREATE TABLE tk_runs (
  id TEXT PRIMARY KEY,                            -- run_…
  session_id TEXT NOT NULL REFERENCES chat_sessions(id) ON DELETE CASCADE,
  message_id TEXT,                                -- the assistant message it produced
  agent TEXT,
  model_json TEXT NOT NULL DEFAULT '{}',          -- with variant and temperature where given
  system_prompt_digest TEXT,
  tools_json TEXT NOT NULL DEFAULT '[]',          -- the tools that were offered
  verdicts_json TEXT NOT NULL DEFAULT '[]',       -- permission verdicts, as they were given
  usage_json TEXT NOT NULL DEFAULT '{}',
  cost_usd REAL NOT NULL DEFAULT 0,
  started_at INTEGER NOT NULL,
  ended_at INTEGER,
  end_reason TEXT,                                -- finish, abort, error, cut or crash
  finish_reason TEXT,                             -- the model's own word
  error_text TEXT
) WITHOUT ROWID;
CREATE INDEX tk_runs_session ON tk_runs(session_id, id);

-- What counts as the usage of a message, once that is decided: by record_usage, or by the whole
-- message that was put in. What a stream says of itself in metadata is no usage.
CREATE TABLE tk_usage (
  message_id TEXT PRIMARY KEY REFERENCES chat_messages(id) ON DELETE CASCADE,
  session_id TEXT NOT NULL,
  input INTEGER NOT NULL,
  output INTEGER NOT NULL,
  reasoning INTEGER NOT NULL,
  cache_read INTEGER NOT NULL,
  cache_write INTEGER NOT NULL,
  cost_usd REAL NOT NULL,                         -- 0 unless a writer reported it
  put_in INTEGER NOT NULL DEFAULT 0               -- 1: as a message put in says; the next may differ
) WITHOUT ROWID;
CREATE INDEX tk_usage_session ON tk_usage(session_id);

CREATE TABLE system_prompts (
  digest TEXT PRIMARY KEY,                        -- SHA-256 of the body, as messages name it
  body TEXT NOT NULL,
  created_at INTEGER NOT NULL
) WITHOUT ROWID;

-- Content hashes: SQLite does not notice a flipped bit in text, these do.
CREATE TABLE tk_hashes (
  kind TEXT NOT NULL,                             -- session, message or part
  id TEXT NOT NULL,
  hash TEXT NOT NULL,
  PRIMARY KEY (kind, id)
) WITHOUT ROWID;

-- Columns we do not know, from imported rows: given back by the next export.
CREATE TABLE tk_extra (
  kind TEXT NOT NULL,
  id TEXT NOT NULL,
  columns_json TEXT NOT NULL,
  PRIMARY KEY (kind, id)
) WITHOUT ROWID;

-- Full text. The index holds no text of its own; a part's row in tk_search_docs says which
-- document is current, so a stale posting can never surface, and a rebuild needs only the parts.
CREATE TABLE tk_search_docs (
  doc INTEGER PRIMARY KEY AUTOINCREMENT,          -- never reused
  part_id TEXT NOT NULL UNIQUE,
  session_id TEXT NOT NULL
);
CREATE TABLE tk_search_dirty (
  part_id TEXT PRIMARY KEY                        -- changed since it was last indexed
) WITHOUT ROWID;
CREATE VIRTUAL TABLE tk_search USING fts5(text, content='', tokenize='porter unicode61');

CREATE INDEX tk_compactions ON chat_parts(session_id) WHERE type = 'data-compaction';

-- Triggers keep these right when another program writes the three tables. No OR IGNORE in them:
-- the conflict clause of an upsert by that program would take its place. A REPLACE deletes without
-- firing a trigger unless the program asked for it, so an insert forgets the old hash as well.
CREATE TRIGGER tk_part_added AFTER INSERT ON chat_parts BEGIN
  DELETE FROM tk_hashes WHERE kind = 'part' AND id = new.id;
  INSERT INTO tk_search_dirty(part_id) SELECT new.id
  WHERE NOT EXISTS (SELECT 1 FROM tk_search_dirty WHERE part_id = new.id);
END;
CREATE TRIGGER tk_part_changed AFTER UPDATE ON chat_parts BEGIN
  DELETE FROM tk_hashes WHERE kind = 'part' AND id = old.id;
  INSERT INTO tk_search_dirty(part_id) SELECT new.id
  WHERE NOT EXISTS (SELECT 1 FROM tk_search_dirty WHERE part_id = new.id);
END;
CREATE TRIGGER tk_part_deleted AFTER DELETE ON chat_parts BEGIN
  DELETE FROM tk_hashes WHERE kind = 'part' AND id = old.id;
  DELETE FROM tk_extra WHERE kind = 'part' AND id = old.id;
  DELETE FROM tk_search_docs WHERE part_id = old.id;
  DELETE FROM tk_search_dirty WHERE part_id = old.id;
END;
CREATE TRIGGER tk_message_added AFTER INSERT ON chat_messages BEGIN
  DELETE FROM tk_hashes WHERE kind = 'message' AND id = new.id;
END;
CREATE TRIGGER tk_message_changed AFTER UPDATE ON chat_messages BEGIN
  DELETE FROM tk_hashes WHERE kind = 'message' AND id = old.id;
END;
-- A rewind of ours hides in two places; a program that knows only the column shows a message again
-- by clearing that, and the copy in the metadata has to follow.
CREATE TRIGGER tk_message_shown AFTER UPDATE OF hidden_at ON chat_messages
WHEN new.hidden_at IS NULL AND old.hidden_at IS NOT NULL AND CASE WHEN
  json_valid(new.metadata_json) THEN json_type(new.metadata_json, '$.hidden_at') IS NOT NULL END
BEGIN
  UPDATE chat_messages SET metadata_json = json_remove(metadata_json, '$.hidden_at')
  WHERE id = new.id;
END;
CREATE TRIGGER tk_message_deleted AFTER DELETE ON chat_messages BEGIN
  DELETE FROM tk_hashes WHERE kind = 'message' AND id = old.id;
  DELETE FROM tk_extra WHERE kind = 'message' AND id = old.id;
END;
CREATE TRIGGER tk_session_added AFTER INSERT ON chat_sessions BEGIN
  DELETE FROM tk_hashes WHERE kind = 'session' AND id = new.id;
END;
-- The guide author's store cannot do without a title, and takes this one for none. The column may be
-- NULL in files that others made: it is not rewritten for a constraint that this can keep.
CREATE TRIGGER tk_session_untitled AFTER INSERT ON chat_sessions WHEN new.title IS NULL BEGIN
  UPDATE chat_sessions SET title = 'New Chat' WHERE id = new.id;
END;
CREATE TRIGGER tk_session_title_gone AFTER UPDATE OF title ON chat_sessions
WHEN new.title IS NULL BEGIN
  UPDATE chat_sessions SET title = 'New Chat' WHERE id = new.id;
END;
CREATE TRIGGER tk_session_changed AFTER UPDATE ON chat_sessions BEGIN
  DELETE FROM tk_hashes WHERE kind = 'session' AND id = old.id;
END;
CREATE TRIGGER tk_session_deleted AFTER DELETE ON chat_sessions BEGIN
  DELETE FROM tk_hashes WHERE kind = 'session' AND id = old.id;
  DELETE FROM tk_extra WHERE kind = 'session' AND id = old.id;
END;
