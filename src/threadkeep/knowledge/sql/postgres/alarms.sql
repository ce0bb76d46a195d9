-- Queries that have to be other ones on PostgreSQL.

-- name: twin_nodes
SELECT l.agentic_session_id, CAST(json_agg(n.id) AS TEXT) FROM knowledge_node_agentic_sessions AS l
JOIN knowledge_nodes AS n ON n.id = l.knowledge_node_id
GROUP BY l.agentic_session_id, n.node_type, n.content, n.embed_text HAVING count(*) > 1
