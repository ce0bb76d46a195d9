-- What a command that follows reads: the newest entries, and what answers took lately.

-- name: tail_upto
SELECT max(id) FROM (SELECT id FROM tk_entries WHERE id > :mark ORDER BY id LIMIT :limit)

-- piece: spent
u.at, u.harness, u.model, u.input, u.output, u.cache_read, u.cache_write, u.cache_write_1h, u.reasoning

-- An answer may be written down a little after the last entry of its session.
-- name: tail_spent
SELECT {spent} FROM tk_sessions AS s CROSS JOIN tk_usage AS u
WHERE u.session = s.id AND s.ended_at >= CAST(:since AS INTEGER) - 3600000 AND u.at >= :since

-- name: tail_spent_in
SELECT {spent} FROM tk_sessions AS s CROSS JOIN tk_usage AS u WHERE u.session = s.id AND s.session_id = :session_id

-- name: tail_unfinished
SELECT count(*) FROM tk_usage AS u
WHERE u.final = 0 AND (CAST(:since AS INTEGER) IS NULL OR u.at >= :since) AND (CAST(:until AS INTEGER) IS NULL OR u.at < :until)

-- name: tail_totals_of
SELECT count(*), coalesce(sum(input), 0), coalesce(sum(output), 0), coalesce(sum(cache_read), 0), coalesce(sum(cache_write), 0),
  coalesce(sum(cache_write_1h), 0), coalesce(sum(reasoning), 0), count(*) FILTER (WHERE final = 0)
FROM tk_usage WHERE session = :session
