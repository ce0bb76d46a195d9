-- Queries that have to be other ones on PostgreSQL.

-- name: exact_messages
-- The key of a session is a text, so the column is one: ids of messages are compared as numbers.
SELECT CAST(key AS INTEGER), field, kind, value FROM tk_exact
WHERE owner = 'message'
  AND CASE owner WHEN 'message' THEN CAST(key AS INTEGER) END BETWEEN :first AND :last;

-- name: key_tables
-- All tables are there from the beginning.
VALUES ('tk_keys'), ('tk_rewound');
