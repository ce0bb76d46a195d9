-- Rows whose parent was gone before we came; made only in a file that has some.
CREATE TABLE IF NOT EXISTS tk_orphans (
  table_name TEXT NOT NULL,                 -- where the row was
  row_json TEXT NOT NULL,                   -- the whole row by column; what is no text is {"blob": hex}
  reason TEXT NOT NULL,                     -- what it referred to
  found_at INTEGER NOT NULL                 -- epoch milliseconds
);
