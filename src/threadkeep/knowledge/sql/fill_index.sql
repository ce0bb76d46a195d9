-- Index the nodes that the triggers have not seen.
INSERT INTO knowledge_fts (rowid, summary, embed_text, content)
SELECT
  id,
  COALESCE(CASE WHEN json_valid(content) THEN json_extract(content, '$.summary') END, ''),
  embed_text,
  content
FROM knowledge_nodes
WHERE id NOT IN (SELECT rowid FROM knowledge_fts);
