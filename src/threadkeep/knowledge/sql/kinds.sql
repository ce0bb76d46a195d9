-- Queries that are the same for every kind of rows; kinds.py says what stands for each word in <>.
-- A kind that lacks one of these has no such query, and one that is written out elsewhere counts instead.

-- name: drop_<kind>
DELETE FROM <table> WHERE <number> = :id

-- name: drop_<kind>_ticket
DELETE FROM <ticket_name> WHERE <ticket_target> = :id

-- name: <kind>_between
SELECT <number> FROM <table>
WHERE (CAST(:since AS INTEGER) IS NULL OR <since> >= :since) AND (CAST(:until AS INTEGER) IS NULL OR <until> < :until)

-- ------------------------------------------------------------------ nodes and what they rest on

-- name: nodes_of_<kind>
SELECT knowledge_node_id FROM <links> WHERE <link> = :id

-- name: <kind>_of_node
SELECT <link> FROM <links> WHERE knowledge_node_id = :id

-- A row that went meanwhile is not linked to.
-- name: link_<kind>
INSERT INTO <links> (knowledge_node_id, <link>) SELECT CAST(:node AS INTEGER), id FROM <table> WHERE id = :row ON CONFLICT DO NOTHING

-- name: unlink_<kind>
DELETE FROM <links> WHERE knowledge_node_id = :node AND <link> = :row

-- name: unlink_every_<kind>
DELETE FROM <links> WHERE knowledge_node_id = :id

-- What a node about such rows takes the place of. A node is about its run of CI; if it has none, about its segments or
-- its visits, and only then about its commands.
-- name: told_of_<kind>
SELECT DISTINCT n.id FROM <links> AS l JOIN knowledge_nodes AS n ON n.id = l.knowledge_node_id
WHERE l.<link> IN ({ids:ids}) AND n.node_type = :node_type<unless>

-- ------------------------------------------------------------------ tickets

-- piece: this_<queue>
<ticket_id> = :id AND (CAST(:locked_at AS INTEGER) IS NULL OR locked_at = :locked_at)

-- A lock from the future is one of a clock that was put back: its time may not come for years.
-- piece: stale_<queue>
(coalesce(locked_at, 0) <= :stale OR locked_at > :ahead)

-- piece: dead_<queue>
locked_by IN ({texts:dead})

-- name: is_held_<queue>
SELECT 1 FROM <ticket_name> WHERE status = 'processing' AND {this_<queue>}

-- piece: retry_<queue>
UPDATE <ticket_name> SET retry_count = retry_count + 1, error_message = :message, updated_at = :now,
  status = CASE WHEN retry_count + 1 >= max_retries THEN 'failed' ELSE 'pending' END, locked_at = NULL, locked_by = NULL
WHERE status = 'processing'

-- name: retry_<queue>
{retry_<queue>} AND {this_<queue>} RETURNING <ticket_target>, status

-- name: retry_dead_<queue>
{retry_<queue>} AND {dead_<queue>} RETURNING <ticket_target>, status

-- name: retry_stale_<queue>
{retry_<queue>} AND {stale_<queue>} RETURNING <ticket_target>, status

-- piece: end_<queue>
UPDATE <ticket_name> SET status = :status, error_message = :message, updated_at = :now, locked_at = NULL, locked_by = NULL

-- name: end_<queue>
{end_<queue>} WHERE status = 'processing' AND {this_<queue>}

-- name: end_tickets_<queue>
{end_<queue>} WHERE <ticket_id> IN ({ids:ids})

-- name: end_rows_<queue>
{end_<queue>} WHERE <ticket_target> IN ({ids:ids})

-- name: mark_<queue>
UPDATE <table> SET <ticket_enriched> WHERE id IN ({ids:ids})

-- piece: release_<queue>
UPDATE <ticket_name> SET status = 'pending', updated_at = coalesce(locked_at, updated_at), locked_at = NULL, locked_by = NULL
WHERE status = 'processing'

-- name: release_<queue>
{release_<queue>} AND {this_<queue>}

-- name: release_all_<queue>
{release_<queue>} AND (CAST(:worker AS TEXT) IS NULL OR locked_by = :worker)

-- name: wait_again_<queue>
UPDATE <ticket_name> SET status = 'pending', retry_count = 0, error_message = NULL
WHERE <ticket_target> IN ({ids:ids}) AND status != 'processing'

-- name: requeue_<queue>
INSERT INTO <ticket_name> (<ticket_target>, status, priority, max_retries, <ticket_since>, updated_at)
SELECT id, 'pending', 5, 5, :now, :now FROM <table> WHERE id IN ({ids:ids}) AND <ticket_is_real>
ON CONFLICT (<ticket_target>) DO UPDATE SET status = 'pending', retry_count = 0, error_message = NULL,
  locked_at = NULL, locked_by = NULL, updated_at = excluded.updated_at
WHERE <ticket_name>.status != 'processing'

-- name: drop_lost_<queue>
DELETE FROM <ticket_name> WHERE (status IN ('pending', 'processing') OR locked_by = 'threadkeep')
  AND NOT EXISTS (SELECT 1 FROM <table> WHERE <table>.id = <ticket_name>.<ticket_target> AND <ticket_is_real>)

-- name: failed_<queue>
SELECT <ticket_target> FROM <ticket_name> WHERE status = 'failed'

-- name: holders_<queue>
SELECT DISTINCT locked_by FROM <ticket_name> WHERE status = 'processing'

-- name: locks_<queue>
SELECT count(*), count(*) FILTER (WHERE {dead_<queue>} OR {stale_<queue>}) FROM <ticket_name> WHERE status = 'processing'

-- name: present_<queue>
SELECT id FROM <table> WHERE id IN ({ids:ids}) AND <ticket_is_real> ORDER BY id

-- What is skipped for Hippo's brain alone waits for us.
-- name: depths_<queue>
SELECT CASE WHEN status = 'skipped' AND locked_by = 'threadkeep' THEN 'pending' ELSE status END AS told, count(*)
FROM <ticket_name> GROUP BY told ORDER BY told
