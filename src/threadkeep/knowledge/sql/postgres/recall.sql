-- Queries that have to be other ones on PostgreSQL.

-- name: entries_at_turns
-- A list of pairs.
SELECT t.session, t.turn, t.entry FROM json_array_elements(CAST(:places AS json)) AS p (pair)
JOIN tk_turns AS t ON t.session = CAST(p.pair ->> 0 AS INTEGER) AND t.turn = CAST(p.pair ->> 1 AS INTEGER)
