-- Nodes can be searched by their words. The first files had no table of nodes yet.
CREATE TABLE IF NOT EXISTS knowledge_nodes (
  id INTEGER PRIMARY KEY,
  uuid TEXT NOT NULL UNIQUE,
  content TEXT NOT NULL,
  embed_text TEXT NOT NULL,
  node_type TEXT NOT NULL DEFAULT 'observation',
  outcome TEXT,
  tags TEXT,
  enrichment_model TEXT,
  enrichment_version INTEGER NOT NULL DEFAULT 1,
  created_at INTEGER NOT NULL DEFAULT (unixepoch('now', 'subsec') * 1000),
  updated_at INTEGER NOT NULL DEFAULT (unixepoch('now', 'subsec') * 1000)
);

CREATE VIRTUAL TABLE IF NOT EXISTS knowledge_fts USING fts5(
  summary, embed_text, content, tokenize = 'porter unicode61 remove_diacritics 2'
);

CREATE TRIGGER IF NOT EXISTS knowledge_nodes_fts_ai AFTER INSERT ON knowledge_nodes BEGIN
  INSERT INTO knowledge_fts (rowid, summary, embed_text, content) VALUES (
    NEW.id,
    COALESCE(CASE WHEN json_valid(NEW.content) THEN json_extract(NEW.content, '$.summary') END, ''),
    NEW.embed_text,
    NEW.content
  );
END;

CREATE TRIGGER IF NOT EXISTS knowledge_nodes_fts_ad AFTER DELETE ON knowledge_nodes BEGIN
  DELETE FROM knowledge_fts WHERE rowid = OLD.id;
END;

CREATE TRIGGER IF NOT EXISTS knowledge_nodes_fts_au AFTER UPDATE ON knowledge_nodes BEGIN
  DELETE FROM knowledge_fts WHERE rowid = OLD.id;
  INSERT INTO knowledge_fts (rowid, summary, embed_text, content) VALUES (
    NEW.id,
    COALESCE(CASE WHEN json_valid(NEW.content) THEN json_extract(NEW.content, '$.summary') END, ''),
    NEW.embed_text,
    NEW.content
  );
END;
