-- Queries that have to be other ones on PostgreSQL.

-- name: known_projects
-- No limit may stand inside a recursion.
SELECT cwd FROM (SELECT DISTINCT cwd FROM agentic_sessions WHERE cwd IS NOT NULL ORDER BY cwd LIMIT :sessions)
UNION
SELECT cwd FROM (SELECT cwd FROM events ORDER BY id DESC LIMIT :commands)

-- name: last_entry_id
-- A number is not given again, so the largest that is there will do.
SELECT coalesce(max(id), 0) FROM tk_entries

-- name: new_entry_numbers
SELECT nextval('tk_entries_id_seq') AS number FROM generate_series(1, CAST(:count AS bigint)) ORDER BY 1
