-- Queries that have to be other ones on PostgreSQL.

-- name: insert_node
-- A number is never given again, so nobody has to choose one.
INSERT INTO knowledge_nodes (uuid, content, embed_text, node_type, outcome, tags, enrichment_model, enrichment_version, created_at, updated_at)
VALUES (:uuid, :content, :embed_text, :node_type, :outcome, :tags, :model, :version, :now, :now)
