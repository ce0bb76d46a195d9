-- Queries that have to be other ones on PostgreSQL.

-- name: first_user_text
-- A text cannot be counted from its end by a negative number.
SELECT substr(m.content, 1, 800),
  CASE WHEN m.content LIKE '[IMPORTANT: The user has invoked the %' AND length(m.content) > 800
    THEN right(m.content, 400) END
FROM messages m
WHERE m.session_id = :session_id AND m.role = 'user' AND m.content IS NOT NULL
ORDER BY m.timestamp, m.id LIMIT 1;
