-- Queries that have to be other ones on PostgreSQL.

-- name: evidence_excerpts
-- A text cannot be counted from its end by a negative number.
SELECT right(excerpt, CAST(CAST(:length AS INTEGER) AS int)) FROM workflow_log_excerpts WHERE job_id = :id ORDER BY id
