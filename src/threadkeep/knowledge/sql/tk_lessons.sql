-- What counting failures remembers. No row holds a text: what is forgotten elsewhere leaves nothing here.

-- How far each kind of work was looked at.
CREATE TABLE IF NOT EXISTS tk_learned (
  origin TEXT PRIMARY KEY,           -- event: commands and tool calls as events; entry: archived tool calls
  seen INTEGER NOT NULL              -- the last row that was looked at
) WITHOUT ROWID;

-- Work that was looked at before it had ended: it is looked at again.
CREATE TABLE IF NOT EXISTS tk_unended (
  origin TEXT NOT NULL,
  row INTEGER NOT NULL,
  PRIMARY KEY (origin, row)
) WITHOUT ROWID;

-- Failures that were counted, so that none counts twice.
CREATE TABLE IF NOT EXISTS tk_counted (
  digest BLOB PRIMARY KEY,           -- of what names the failure: its envelope, or its session and key
  lesson BLOB NOT NULL,              -- digest of the lesson's key: what it counts for
  origin TEXT NOT NULL,
  row INTEGER NOT NULL               -- where it stands; when that is gone, so is what was learned from it
) WITHOUT ROWID;

-- The last failure of each command in each project, and the success that ended it.
CREATE TABLE IF NOT EXISTS tk_failures (
  command BLOB PRIMARY KEY,          -- digest of the project and the command's shape
  origin TEXT NOT NULL,
  failed INTEGER NOT NULL,           -- the row of the failure
  fixed INTEGER                      -- the row of the success; NULL: it still fails
) WITHOUT ROWID;
