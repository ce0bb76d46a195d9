-- What agents ask of the contract's tables in the contract's own shapes; probes are never among it.

-- piece: in_project
(:projects = '[]' OR EXISTS (SELECT 1 FROM ({texts:projects}) AS p WHERE e.cwd LIKE p.value ESCAPE '\' OR e.git_repo LIKE p.value ESCAPE '\'))

-- piece: session_in_project
(:projects = '[]' OR EXISTS (SELECT 1 FROM ({texts:projects}) AS p WHERE a.cwd LIKE p.value ESCAPE '\' OR a.project_dir LIKE p.value ESCAPE '\'))

-- ------------------------------------------------------------------ nodes

-- name: viewed_nodes
SELECT id, uuid, {raw:content}, {raw:embed_text}, {raw:outcome}, {raw:tags}, created_at
FROM knowledge_nodes WHERE id IN ({ids:ids})

-- name: viewed_links
SELECT 'event', '', event_id FROM knowledge_node_events WHERE knowledge_node_id = :id
UNION ALL
SELECT 'segment', a.harness, a.id FROM knowledge_node_agentic_sessions AS l JOIN agentic_sessions AS a ON a.id = l.agentic_session_id
WHERE l.knowledge_node_id = :id
UNION ALL
SELECT 'visit', '', browser_event_id FROM knowledge_node_browser_events WHERE knowledge_node_id = :id
UNION ALL
SELECT 'run', '', run_id FROM knowledge_node_workflow_runs WHERE knowledge_node_id = :id
UNION ALL
SELECT 'memory', '', memory_chunk_id FROM knowledge_node_memory_chunks WHERE knowledge_node_id = :id
ORDER BY 1, 3 LIMIT :limit

-- name: viewed_entities
SELECT {raw:e.name} FROM knowledge_node_entities AS l JOIN entities AS e ON e.id = l.entity_id
WHERE l.knowledge_node_id = :id AND e.type IN ('tool', 'file', 'service', 'project', 'env_var') ORDER BY e.id LIMIT :limit

-- ------------------------------------------------------------------ events

-- name: viewed_commands
SELECT e.id, e.timestamp, {raw:e.command}, e.exit_code, e.duration_ms, {raw:e.cwd}, {raw:e.git_branch} FROM events AS e
WHERE e.probe_tag IS NULL AND (CAST(:text AS TEXT) IS NULL OR e.command LIKE :text ESCAPE '\')
  AND (CAST(:since AS INTEGER) IS NULL OR e.timestamp >= :since) AND (CAST(:until AS INTEGER) IS NULL OR e.timestamp < :until) AND {in_project}
  AND (:branches = '[]' OR e.git_branch IN ({texts:branches}))
ORDER BY e.timestamp DESC, e.id DESC LIMIT :limit

-- name: viewed_segments
SELECT a.id, a.start_time, {raw:substr(a.summary_text, 1, 4000)}, a.message_count,
  CASE WHEN json_valid(a.tool_calls_json) THEN json_array_length(a.tool_calls_json) ELSE 0 END, {raw:a.cwd}, {raw:a.git_branch}
FROM agentic_sessions AS a
WHERE a.probe_tag IS NULL AND (CAST(:text AS TEXT) IS NULL OR a.summary_text LIKE :text ESCAPE '\')
  AND (CAST(:since AS INTEGER) IS NULL OR a.start_time >= :since) AND (CAST(:until AS INTEGER) IS NULL OR a.start_time < :until) AND {session_in_project}
  AND (:branches = '[]' OR a.git_branch IN ({texts:branches}))
ORDER BY a.start_time DESC, a.id DESC LIMIT :limit

-- name: viewed_visits
SELECT id, timestamp, {raw:url}, {raw:title}, domain, dwell_ms, scroll_depth FROM browser_events
WHERE probe_tag IS NULL AND (CAST(:text AS TEXT) IS NULL OR url LIKE :text ESCAPE '\' OR title LIKE :text ESCAPE '\')
  AND (CAST(:since AS INTEGER) IS NULL OR timestamp >= :since) AND (CAST(:until AS INTEGER) IS NULL OR timestamp < :until)
ORDER BY timestamp DESC, id DESC LIMIT :limit

-- ------------------------------------------------------------------ entities, projects, CI

-- name: viewed_all_entities
SELECT n.type, {raw:n.name}, {raw:n.canonical}, n.first_seen, n.last_seen FROM entities AS n
WHERE (CAST(:type AS TEXT) IS NULL OR n.type = :type) AND (CAST(:text AS TEXT) IS NULL OR n.name LIKE :text ESCAPE '\')
  AND (CAST(:since AS INTEGER) IS NULL OR n.last_seen >= :since) AND (CAST(:until AS INTEGER) IS NULL OR n.last_seen < :until)
  AND (:projects = '[]' OR EXISTS (
    SELECT 1 FROM knowledge_node_entities AS l WHERE l.entity_id = n.id AND (
      EXISTS (SELECT 1 FROM knowledge_node_events AS k JOIN events AS e ON e.id = k.event_id
        WHERE k.knowledge_node_id = l.knowledge_node_id AND {in_project})
      OR EXISTS (SELECT 1 FROM knowledge_node_agentic_sessions AS k JOIN agentic_sessions AS a ON a.id = k.agentic_session_id
        WHERE k.knowledge_node_id = l.knowledge_node_id AND {session_in_project}))))
ORDER BY n.last_seen DESC, n.id DESC LIMIT :limit

-- name: viewed_projects
SELECT {raw:repo}, {raw:root}, max(seen) FROM (
  SELECT git_repo AS repo, cwd AS root, max(timestamp) AS seen FROM events WHERE cwd != '' AND probe_tag IS NULL GROUP BY git_repo, cwd
  UNION ALL
  -- Claude Code names the folder of a project's logs after it, in a way that cannot be undone: then it is where the session worked
  SELECT NULL, CASE WHEN project_dir LIKE '/%' OR cwd = '' THEN project_dir ELSE cwd END AS place, max(start_time)
  FROM agentic_sessions WHERE project_dir != '' AND probe_tag IS NULL GROUP BY place
) GROUP BY repo, root ORDER BY 3 DESC, root LIMIT :limit

-- name: viewed_run
SELECT id FROM workflow_runs
WHERE repo = :repo AND (CAST(:sha AS TEXT) IS NULL OR head_sha = :sha) AND (CAST(:branch AS TEXT) IS NULL OR head_branch = :branch)
ORDER BY coalesce(started_at, last_seen_at) DESC, id DESC LIMIT 1
