-- name: put_service
INSERT INTO tk_service (id, pid, mark, version, schema, started_at, heartbeat, stopped_at)
VALUES (1, :pid, :mark, :version, :schema, :started_at, :heartbeat, NULL)
ON CONFLICT (id) DO UPDATE SET pid = excluded.pid, mark = excluded.mark, version = excluded.version,
  schema = excluded.schema, started_at = excluded.started_at, heartbeat = excluded.heartbeat, stopped_at = NULL

-- name: beat_service
UPDATE tk_service SET heartbeat = :now WHERE mark = :mark

-- name: end_service
UPDATE tk_service SET heartbeat = :now, stopped_at = :now WHERE mark = :mark

-- name: the_service
SELECT pid, mark, version, schema, started_at, heartbeat, stopped_at FROM tk_service

-- name: put_service_part
INSERT INTO tk_service_parts (part, started_at, restarts, crashes, last_error, last_crash_at, waits_for)
VALUES (:part, :started_at, :restarts, :crashes, :last_error, :last_crash_at, :waits_for)
ON CONFLICT (part) DO UPDATE SET started_at = excluded.started_at, restarts = excluded.restarts,
  crashes = excluded.crashes, last_error = excluded.last_error, last_crash_at = excluded.last_crash_at,
  waits_for = excluded.waits_for

-- name: all_service_parts
SELECT part, started_at, restarts, crashes, last_error, last_crash_at, waits_for
FROM tk_service_parts ORDER BY part

-- name: tickets_wait
SELECT EXISTS (SELECT 1 FROM enrichment_queue WHERE status = 'pending')
  OR EXISTS (SELECT 1 FROM agentic_enrichment_queue WHERE status = 'pending')
  OR EXISTS (SELECT 1 FROM agentic_enrichment_queue WHERE status = 'skipped' AND locked_by = 'threadkeep')
  OR EXISTS (SELECT 1 FROM browser_enrichment_queue WHERE status = 'pending')
  OR EXISTS (SELECT 1 FROM workflow_enrichment_queue WHERE status = 'pending')
  OR EXISTS (SELECT 1 FROM memory_enrichment_queue AS q JOIN memory_revisions AS r ON r.id = q.revision_id
    JOIN memory_documents AS d ON d.id = r.document_id WHERE q.status = 'pending' AND d.repository != 'hippo/__hippo_probe__')
