-- Queries that have to be other ones on PostgreSQL.

-- name: has_dbstat
SELECT 1;

-- name: pages_by_tree
SELECT c.relname, coalesce(t.relname, c.relname),
  CASE c.relkind WHEN 'i' THEN 'index' ELSE 'table' END,
  CASE c.relkind WHEN 'i' THEN pg_relation_size(c.oid) ELSE pg_table_size(c.oid) END
FROM pg_class c LEFT JOIN pg_index i ON i.indexrelid = c.oid LEFT JOIN pg_class t ON t.oid = i.indrelid
WHERE c.relnamespace = CAST(current_schema() AS regnamespace) AND c.relkind IN ('r', 'i');
