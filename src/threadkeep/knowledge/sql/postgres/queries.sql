-- Queries that have to be other ones on PostgreSQL.

-- name: known_projects
-- No limit may stand inside a recursion.
SELECT cwd FROM (SELECT DISTINCT cwd FROM agentic_sessions WHERE cwd IS NOT NULL ORDER BY cwd LIMIT :sessions)
UNION
SELECT cwd FROM (SELECT cwd FROM events ORDER BY id DESC LIMIT :commands)
