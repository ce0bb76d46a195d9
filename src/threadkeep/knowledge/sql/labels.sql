-- name: labels_of_session
SELECT key, what, value FROM tk_labels WHERE harness = :harness AND session_id = :session_id ORDER BY value, id

-- name: labels_of_sessions
SELECT s.id, l.what, l.value FROM ({ids:ids}) AS i CROSS JOIN tk_sessions AS s
JOIN tk_labels AS l ON l.harness = s.harness AND l.session_id = s.session_id
WHERE s.id = i.value AND l.key = '' ORDER BY l.value, l.id

-- name: put_label
INSERT INTO tk_labels (harness, session_id, key, what, value, at)
VALUES (:harness, :session_id, :key, :what, :value, :now) ON CONFLICT DO NOTHING

-- name: take_label
DELETE FROM tk_labels WHERE harness = :harness AND session_id = :session_id AND key = :key AND what = :what AND value = :value

-- name: take_note
DELETE FROM tk_labels WHERE harness = :harness AND session_id = :session_id AND key = :key AND what = 'note'

-- name: labels_latest
SELECT l.harness, l.session_id, l.key, max(l.at), max(l.id) FROM tk_labels AS l
GROUP BY l.harness, l.session_id, l.key ORDER BY 5 DESC LIMIT :limit

-- name: tags_counted
SELECT value, count(*) FROM tk_labels WHERE what = 'tag' GROUP BY value ORDER BY 2 DESC, 1

-- name: labelled_entry
SELECT s.harness, s.session_id, e.key FROM tk_entries AS e JOIN tk_sessions AS s ON s.id = e.session WHERE e.id = :id

-- name: entry_of_label
SELECT e.id FROM tk_sessions AS s JOIN tk_entries AS e ON e.session = s.id
WHERE s.harness = :harness AND s.session_id = :session_id AND e.key = :key
