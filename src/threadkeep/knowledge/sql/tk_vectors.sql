-- Vectors: tables of our own beside the contract's. Every statement can be run again.

-- One row: the model that every vector here comes from. Vectors of two models are never mixed.
CREATE TABLE IF NOT EXISTS tk_vector_model (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  model TEXT NOT NULL,
  dimensions INTEGER NOT NULL,       -- numbers of each vector
  since INTEGER NOT NULL,            -- when its first vector was made
  stamp INTEGER NOT NULL,            -- grows with every change: who keeps vectors in memory sees it by this
  entries_done INTEGER NOT NULL DEFAULT 0 -- entries up to this one have their vectors: none is looked for there
);

-- The vectors themselves, many in a row: 100,000 rows of their own would take 20 times as long to load.
CREATE TABLE IF NOT EXISTS tk_vector_chunks (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  kind TEXT NOT NULL,                -- node, message
  count INTEGER NOT NULL,
  stamp INTEGER NOT NULL,            -- when it was last changed, as the model's row counts
  ids BLOB NOT NULL,                 -- whose they are: 64-bit integers, little-endian
  scales BLOB NOT NULL,              -- one 32-bit float for each: what its numbers are multiplied with
  numbers BLOB NOT NULL              -- one signed byte for each number of each vector
);
CREATE INDEX IF NOT EXISTS tk_vector_chunks_kind ON tk_vector_chunks (kind, id);

-- Who has a vector, and where. What a chunk holds beside that is old, and is not shown.
CREATE TABLE IF NOT EXISTS tk_vectors (
  kind TEXT NOT NULL,                -- node, message
  id INTEGER NOT NULL,               -- of the node, of the entry
  mark TEXT NOT NULL,                -- of a node: uuid/updated_at, because ids are given again and texts change
  chunk INTEGER,                     -- NULL: the model found nothing in its text
  PRIMARY KEY (kind, id)
) WITHOUT ROWID;

-- Chunks that hold vectors of nobody: to look for them among all vectors would take 0.4 s of 100,000.
CREATE TABLE IF NOT EXISTS tk_vector_old (
  chunk INTEGER PRIMARY KEY
);
CREATE TRIGGER IF NOT EXISTS tk_vector_entry_gone AFTER DELETE ON tk_entries BEGIN
  DELETE FROM tk_vectors WHERE kind = 'message' AND id = OLD.id;
END;
CREATE TRIGGER IF NOT EXISTS tk_vector_gone AFTER DELETE ON tk_vectors WHEN OLD.chunk IS NOT NULL BEGIN
  INSERT OR IGNORE INTO tk_vector_old (chunk) VALUES (OLD.chunk);
END;
CREATE TRIGGER IF NOT EXISTS tk_vector_moved AFTER UPDATE OF chunk ON tk_vectors
WHEN OLD.chunk IS NOT NULL AND OLD.chunk IS NOT NEW.chunk BEGIN
  INSERT OR IGNORE INTO tk_vector_old (chunk) VALUES (OLD.chunk);
END;
