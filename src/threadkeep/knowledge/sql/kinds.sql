-- Queries that are the same for every kind of rows; kinds.py says what stands for each word in <>.
-- A kind that lacks one of these has no such query, and one that is written out elsewhere counts instead.

-- name: drop_<kind>
DELETE FROM <table> WHERE <number> = :id

-- name: drop_<kind>_ticket
DELETE FROM <queue> WHERE <ticket> = :id

-- name: <kind>_between
SELECT <number> FROM <table>
WHERE (CAST(:since AS INTEGER) IS NULL OR <since> >= :since) AND (CAST(:until AS INTEGER) IS NULL OR <until> < :until)

-- ------------------------------------------------------------------ nodes and what they rest on

-- name: nodes_of_<kind>
SELECT knowledge_node_id FROM <links> WHERE <link> = :id

-- name: <kind>_of_node
SELECT <link> FROM <links> WHERE knowledge_node_id = :id

-- A row that went meanwhile is not linked to.
-- name: link_<kind>
INSERT OR IGNORE INTO <links> (knowledge_node_id, <link>) SELECT ?, id FROM <table> WHERE id = ?

-- name: unlink_<kind>
DELETE FROM <links> WHERE knowledge_node_id = ? AND <link> = ?

-- name: unlink_every_<kind>
DELETE FROM <links> WHERE knowledge_node_id = :id

-- What a node about such rows takes the place of. A node is about its run of CI; if it has none, about its segments or
-- its visits, and only then about its commands.
-- name: told_of_<kind>
SELECT DISTINCT n.id FROM <links> AS l JOIN knowledge_nodes AS n ON n.id = l.knowledge_node_id
WHERE l.<link> IN (SELECT value FROM json_each(:ids)) AND n.node_type = :node_type<unless>
