-- What recall finds beside messages, and where messages stand in their conversation: tables of our own beside the contract's.
-- Every statement can be run again.

-- Where each entry of the archive stands among what was said. Filled from a cursor, behind capture.
CREATE TABLE IF NOT EXISTS tk_turns (
  entry INTEGER PRIMARY KEY,         -- row of tk_entries
  session INTEGER NOT NULL,          -- row of tk_sessions
  turn INTEGER,                      -- its number among what was said in the session; NULL: a tool's doing, a thought, a note
  words INTEGER NOT NULL             -- how many words it is indexed by
);
CREATE UNIQUE INDEX IF NOT EXISTS tk_turns_place ON tk_turns (session, turn) WHERE turn IS NOT NULL;
CREATE TRIGGER IF NOT EXISTS tk_turns_entry_gone AFTER DELETE ON tk_entries BEGIN
  DELETE FROM tk_turns WHERE entry = OLD.id;
END;

-- One row for each thing that is found by words and is no message. One that changes gets a new id, so that its old words in the
-- index lead nowhere. What it is filtered by stands here as well: a filter must not cost a look at six tables.
CREATE TABLE IF NOT EXISTS tk_things (
  id INTEGER PRIMARY KEY AUTOINCREMENT, -- row of tk_thing_words
  kind TEXT NOT NULL,                -- node, command, page, ci, lesson, segment
  row INTEGER NOT NULL,              -- its number in its own table
  at INTEGER,                        -- when it happened
  source TEXT NOT NULL,              -- shell, agent, browser, ci
  harness TEXT,                      -- which agent, if one had a part in it
  cwd TEXT,                          -- the folder it happened in
  repo TEXT,                         -- owner/name, if known
  branch TEXT,
  outcome TEXT,                      -- success, partial, failure, unknown
  words INTEGER NOT NULL,            -- how many words it is indexed by
  hash INTEGER NOT NULL,             -- of its text: equal things are shown once
  UNIQUE (kind, row)
);
CREATE VIRTUAL TABLE IF NOT EXISTS tk_thing_words USING fts5 (
  text, content = '', tokenize = 'porter unicode61 remove_diacritics 2'
);

-- How far each table is indexed, and how long its texts are on average.
CREATE TABLE IF NOT EXISTS tk_indexed (
  kind TEXT PRIMARY KEY,             -- as in tk_things; `entry` for tk_turns
  upto INTEGER NOT NULL DEFAULT 0,   -- the last row looked at
  rows INTEGER NOT NULL DEFAULT 0,   -- how many were indexed since the beginning
  words INTEGER NOT NULL DEFAULT 0   -- how many words they had
) WITHOUT ROWID;

-- Rows that changed after they were indexed, or that came below the cursor.
CREATE TABLE IF NOT EXISTS tk_stale (
  kind TEXT NOT NULL,                -- as in tk_things; `job` for a job of a CI run
  row INTEGER NOT NULL,
  PRIMARY KEY (kind, row)
) WITHOUT ROWID;

-- Runs of CI come in any order of their numbers: each says itself that it is new.
CREATE TRIGGER IF NOT EXISTS tk_ci_came AFTER INSERT ON workflow_runs BEGIN
  INSERT INTO tk_stale (kind, row) SELECT 'ci', NEW.id WHERE NOT EXISTS (SELECT 1 FROM tk_stale WHERE kind = 'ci' AND row = NEW.id);
END;
CREATE TRIGGER IF NOT EXISTS tk_ci_gone AFTER DELETE ON workflow_runs BEGIN
  DELETE FROM tk_things WHERE kind = 'ci' AND row = OLD.id;
END;
CREATE TRIGGER IF NOT EXISTS tk_job_came AFTER INSERT ON workflow_jobs BEGIN
  INSERT INTO tk_stale (kind, row) SELECT 'ci', NEW.run_id WHERE NOT EXISTS (SELECT 1 FROM tk_stale WHERE kind = 'ci' AND row = NEW.run_id);
END;
CREATE TRIGGER IF NOT EXISTS tk_job_changed AFTER UPDATE OF name, conclusion ON workflow_jobs WHEN (OLD.name, OLD.conclusion) IS NOT (NEW.name, NEW.conclusion) BEGIN
  DELETE FROM tk_things WHERE kind = 'ci' AND row = NEW.run_id;
  INSERT INTO tk_stale (kind, row) SELECT 'ci', NEW.run_id WHERE NOT EXISTS (SELECT 1 FROM tk_stale WHERE kind = 'ci' AND row = NEW.run_id);
END;
CREATE TRIGGER IF NOT EXISTS tk_job_gone AFTER DELETE ON workflow_jobs BEGIN
  DELETE FROM tk_things WHERE kind = 'ci' AND row = OLD.run_id;
  INSERT INTO tk_stale (kind, row) SELECT 'ci', OLD.run_id WHERE NOT EXISTS (SELECT 1 FROM tk_stale WHERE kind = 'ci' AND row = OLD.run_id);
END;
CREATE TRIGGER IF NOT EXISTS tk_annotation_came AFTER INSERT ON workflow_annotations BEGIN
  INSERT INTO tk_stale (kind, row) SELECT 'job', NEW.job_id WHERE NOT EXISTS (SELECT 1 FROM tk_stale WHERE kind = 'job' AND row = NEW.job_id);
END;
CREATE TRIGGER IF NOT EXISTS tk_annotation_changed AFTER UPDATE OF path, message ON workflow_annotations BEGIN
  INSERT INTO tk_stale (kind, row) SELECT 'job', NEW.job_id WHERE NOT EXISTS (SELECT 1 FROM tk_stale WHERE kind = 'job' AND row = NEW.job_id);
END;
CREATE TRIGGER IF NOT EXISTS tk_annotation_gone AFTER DELETE ON workflow_annotations BEGIN
  INSERT INTO tk_stale (kind, row) SELECT 'job', OLD.job_id WHERE NOT EXISTS (SELECT 1 FROM tk_stale WHERE kind = 'job' AND row = OLD.job_id);
END;
CREATE TRIGGER IF NOT EXISTS tk_excerpt_came AFTER INSERT ON workflow_log_excerpts BEGIN
  INSERT INTO tk_stale (kind, row) SELECT 'job', NEW.job_id WHERE NOT EXISTS (SELECT 1 FROM tk_stale WHERE kind = 'job' AND row = NEW.job_id);
END;
CREATE TRIGGER IF NOT EXISTS tk_excerpt_changed AFTER UPDATE OF excerpt ON workflow_log_excerpts BEGIN
  INSERT INTO tk_stale (kind, row) SELECT 'job', NEW.job_id WHERE NOT EXISTS (SELECT 1 FROM tk_stale WHERE kind = 'job' AND row = NEW.job_id);
END;
CREATE TRIGGER IF NOT EXISTS tk_excerpt_gone AFTER DELETE ON workflow_log_excerpts BEGIN
  INSERT INTO tk_stale (kind, row) SELECT 'job', OLD.job_id WHERE NOT EXISTS (SELECT 1 FROM tk_stale WHERE kind = 'job' AND row = OLD.job_id);
END;
