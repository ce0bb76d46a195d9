-- What a chat store keeps beside its rows on PostgreSQL, made from rows that were copied.

INSERT INTO tk_streams (stream_id, seq)
SELECT stream_id, max(seq) FROM (SELECT stream_id, seq FROM chat_events UNION ALL SELECT stream_id, seq FROM tk_finished) AS f
GROUP BY stream_id;
-- Words are indexed again with the next search.
INSERT INTO tk_search_dirty (part_id) SELECT id FROM chat_parts;
