-- A table's CHECK cannot be changed: entities is built anew with env_var (and domain) in it.
CREATE TABLE entities_new (
  id INTEGER PRIMARY KEY,
  type TEXT NOT NULL CHECK (type IN (
    'project', 'file', 'tool', 'service', 'repo', 'host', 'person', 'concept', 'domain', 'env_var'
  )),
  name TEXT NOT NULL,
  canonical TEXT,
  metadata TEXT,
  first_seen INTEGER NOT NULL DEFAULT (unixepoch('now', 'subsec') * 1000),
  last_seen INTEGER NOT NULL DEFAULT (unixepoch('now', 'subsec') * 1000),
  created_at INTEGER NOT NULL DEFAULT (unixepoch('now', 'subsec') * 1000),
  UNIQUE (type, canonical)
);

CREATE INDEX IF NOT EXISTS idx_entities_type_name ON entities (type, name);
CREATE INDEX IF NOT EXISTS idx_entities_canonical ON entities (canonical) WHERE canonical IS NOT NULL;
