-- Finding: what is indexed, candidates by words, and what stands behind a hit.

-- ------------------------------------------------------------------ where entries stand

-- name: entries_to_place
SELECT e.id, e.session, e.kind IN ('prompt', 'text', 'summary'), e.kind = 'copy', d.sz FROM tk_entries AS e
LEFT JOIN tk_entry_words_docsize AS d ON d.id = e.id
WHERE e.id > :after ORDER BY e.id LIMIT :limit

-- name: last_turn
SELECT max(turn) FROM tk_turns WHERE session = :session AND turn IS NOT NULL

-- name: place_entry
INSERT OR REPLACE INTO tk_turns (entry, session, turn, words) VALUES (?, ?, ?, ?)

-- name: last_entry_placed
SELECT coalesce((SELECT upto FROM tk_indexed WHERE kind = 'entry'), 0), coalesce((SELECT max(id) FROM tk_entries), 0)

-- ------------------------------------------------------------------ things and their words

-- name: indexed_upto
SELECT upto FROM tk_indexed WHERE kind = :kind

-- name: indexed_on
INSERT INTO tk_indexed (kind, upto, rows, words) VALUES (:kind, :upto, :rows, :words)
ON CONFLICT (kind) DO UPDATE SET upto = max(upto, excluded.upto), rows = rows + excluded.rows, words = words + excluded.words

-- name: stale_things
SELECT kind, row FROM tk_stale LIMIT :limit

-- name: any_stale
SELECT 1 FROM tk_stale LIMIT 1

-- name: not_stale
DELETE FROM tk_stale WHERE kind = ? AND row = ?

-- name: all_runs_stale
INSERT OR IGNORE INTO tk_stale (kind, row) SELECT 'ci', id FROM workflow_runs

-- name: run_of_job
SELECT run_id FROM workflow_jobs WHERE id = :job

-- name: drop_thing
DELETE FROM tk_things WHERE kind = ? AND row = ?

-- name: put_thing
INSERT INTO tk_things (kind, row, at, source, harness, cwd, repo, branch, outcome, words, hash)
VALUES (:kind, :row, :at, :source, :harness, :cwd, :repo, :branch, :outcome, :words, :hash)

-- name: clear_things
DELETE FROM tk_things

-- name: clear_stale
DELETE FROM tk_stale

-- name: clear_indexed
DELETE FROM tk_indexed WHERE kind != 'entry'

-- A call of an agent's tool whose session is archived is there as a message.
-- name: things_command
SELECT e.id, e.timestamp, CAST(e.command AS BLOB), CAST(e.cwd AS BLOB), CAST(e.git_repo AS BLOB), CAST(e.git_branch AS BLOB),
  e.exit_code, e.source_kind, CAST(substr(e.stdout, 1, 16384) AS BLOB), CAST(substr(e.stderr, 1, 16384) AS BLOB),
  e.probe_tag IS NOT NULL OR (e.source_kind != 'shell' AND EXISTS (
    SELECT 1 FROM sessions AS s JOIN tk_sessions AS a ON a.session_id = s.terminal WHERE s.id = e.session_id))
FROM events AS e WHERE e.id > :after AND e.id <= :through ORDER BY e.id LIMIT :limit

-- name: things_page
SELECT id, timestamp, CAST(title AS BLOB), CAST(url AS BLOB), CAST(search_query AS BLOB),
  CAST(substr(extracted_text, 1, 65536) AS BLOB), probe_tag IS NOT NULL
FROM browser_events WHERE id > :after AND id <= :through ORDER BY id LIMIT :limit

-- name: things_lesson
SELECT id, last_seen_at, CAST(repo AS BLOB), CAST(tool AS BLOB), CAST(rule_id AS BLOB), CAST(path_prefix AS BLOB), CAST(summary AS BLOB),
  CAST(fix_hint AS BLOB)
FROM lessons WHERE id > :after AND id <= :through ORDER BY id LIMIT :limit

-- name: things_segment
SELECT a.id, a.end_time, a.harness, CAST(a.cwd AS BLOB), CAST(a.git_branch AS BLOB), CAST(a.title AS BLOB), CAST(a.summary_text AS BLOB),
  CAST(a.user_prompts_json AS BLOB), CAST(a.tool_calls_json AS BLOB), CAST(a.commit_messages_json AS BLOB),
  a.probe_tag IS NOT NULL OR EXISTS (SELECT 1 FROM tk_sessions AS s WHERE s.harness = a.harness AND s.session_id = a.session_id)
FROM agentic_sessions AS a WHERE a.id > :after AND a.id <= :through ORDER BY a.id LIMIT :limit

-- name: things_node
SELECT id, created_at, CAST(content AS BLOB), CAST(embed_text AS BLOB), CAST(tags AS BLOB), CAST(outcome AS BLOB)
FROM knowledge_nodes WHERE id > :after AND id <= :through ORDER BY id LIMIT :limit

-- A memory of no repository lies beside the transcripts of its project: these say where the work was.
-- piece: memory_repo
CASE WHEN d.repository LIKE 'local:%' THEN NULL WHEN d.repository LIKE 'local-git:%' THEN substr(d.repository, 11) ELSE d.repository END

-- piece: memory_folder
CASE WHEN d.repository LIKE 'local:%/memory' THEN (
  SELECT a.cwd FROM agentic_sessions AS a
  WHERE a.source_file > substr(d.repository, 7, length(d.repository) - 12) AND a.source_file < substr(d.repository, 7, length(d.repository) - 13) || '0'
    AND a.cwd != '' LIMIT 1) END

-- piece: of_category
(CAST(:category AS TEXT) IS NULL OR EXISTS (
    SELECT 1 FROM knowledge_node_memory_chunks AS k JOIN memory_chunks AS c ON c.id = k.memory_chunk_id
    JOIN memory_documents AS d ON d.active_revision_id = c.revision_id JOIN memory_document_categories AS g ON g.document_id = d.id
    WHERE k.knowledge_node_id = n.id AND g.category = :category))

-- name: last_node
SELECT max(id) FROM knowledge_nodes

-- name: nodes_behind
SELECT n.id FROM knowledge_nodes AS n WHERE n.id > :after AND {of_category} ORDER BY n.id DESC LIMIT :limit

-- name: nodes_behind_with_words
SELECT n.id FROM {ranked:knowledge_fts} AS f JOIN knowledge_nodes AS n ON n.id = f.id
WHERE n.id > :after AND {of_category} ORDER BY f.score LIMIT :limit

-- What a node rests on: the latest of each kind; a probe is told apart.
-- A node about a run of CI is about the run, whatever sessions were at work then.
-- name: grounds_of_node
SELECT source, at, harness, CAST(cwd AS BLOB), CAST(repo AS BLOB), CAST(branch AS BLOB), probe FROM (
  SELECT 'shell' AS source, e.timestamp AS at, NULL AS harness, e.cwd AS cwd, e.git_repo AS repo, e.git_branch AS branch,
    e.probe_tag IS NOT NULL AS probe
  FROM knowledge_node_events AS l JOIN events AS e ON e.id = l.event_id WHERE l.knowledge_node_id = :id
  UNION ALL
  SELECT 'agent', a.end_time, a.harness, a.cwd, NULL, a.git_branch, a.probe_tag IS NOT NULL
  FROM knowledge_node_agentic_sessions AS l JOIN agentic_sessions AS a ON a.id = l.agentic_session_id WHERE l.knowledge_node_id = :id
  UNION ALL
  SELECT 'agent', c.end_time, 'claude-code', c.cwd, NULL, c.git_branch, c.probe_tag IS NOT NULL
  FROM knowledge_node_claude_sessions AS l JOIN claude_sessions AS c ON c.id = l.claude_session_id WHERE l.knowledge_node_id = :id
  UNION ALL
  SELECT 'browser', b.timestamp, NULL, NULL, NULL, NULL, b.probe_tag IS NOT NULL
  FROM knowledge_node_browser_events AS l JOIN browser_events AS b ON b.id = l.browser_event_id WHERE l.knowledge_node_id = :id
  UNION ALL
  SELECT 'ci', coalesce(r.completed_at, r.started_at, r.first_seen_at), NULL, NULL, r.repo, r.head_branch, 0
  FROM knowledge_node_workflow_runs AS l JOIN workflow_runs AS r ON r.id = l.run_id WHERE l.knowledge_node_id = :id
  UNION ALL
  SELECT 'memory', r.source_mtime_ms, 'claude-code', {memory_folder}, {memory_repo}, NULL, d.repository = 'hippo/__hippo_probe__'
  FROM knowledge_node_memory_chunks AS l JOIN memory_chunks AS c ON c.id = l.memory_chunk_id
  JOIN memory_revisions AS r ON r.id = c.revision_id JOIN memory_documents AS d ON d.id = r.document_id WHERE l.knowledge_node_id = :id
) ORDER BY source = 'ci' DESC, at DESC LIMIT 50

-- name: things_ci
SELECT id, coalesce(completed_at, started_at, first_seen_at), CAST(repo AS BLOB), CAST(head_branch AS BLOB), head_sha, event, status,
  conclusion, CAST(actor AS BLOB), CAST(raw_json AS BLOB)
FROM workflow_runs WHERE id > :after AND id <= :through ORDER BY id LIMIT :limit

-- name: texts_of_run
SELECT CAST(j.name AS BLOB), j.conclusion, NULL, NULL FROM workflow_jobs AS j WHERE j.run_id = :id
UNION ALL
SELECT CAST(a.message AS BLOB), a.level, CAST(a.path AS BLOB), CAST(coalesce(a.tool, '') || ' ' || coalesce(a.rule_id, '') AS BLOB)
FROM workflow_jobs AS j JOIN workflow_annotations AS a ON a.job_id = j.id WHERE j.run_id = :id
UNION ALL
SELECT CAST(substr(x.excerpt, 1, 16384) AS BLOB), CAST(x.step_name AS BLOB), NULL, NULL
FROM workflow_jobs AS j JOIN workflow_log_excerpts AS x ON x.job_id = j.id WHERE j.run_id = :id

-- ------------------------------------------------------------------ candidates

-- name: last_id_entry
SELECT max(id) FROM tk_entries

-- name: last_id_thing
SELECT max(id) FROM tk_things

-- name: averages_of_words
SELECT kind = 'entry', sum(words), sum(rows) FROM tk_indexed GROUP BY kind = 'entry'

-- name: entries_at_turns
SELECT t.session, t.turn, t.entry FROM json_each(:places) AS p
CROSS JOIN tk_turns AS t ON t.session = json_extract(p.value, '$[0]') AND t.turn = json_extract(p.value, '$[1]')

-- ------------------------------------------------------------------ what was found

-- name: found_things
SELECT t.id, t.at, t.kind, t.hash, t.row FROM json_each(:ids) AS i CROSS JOIN tk_things AS t ON t.id = i.value

-- name: is_probe_session
SELECT 1 FROM agentic_sessions WHERE session_id = :session_id AND harness = :harness AND probe_tag IS NOT NULL LIMIT 1

-- ------------------------------------------------------------------ what is shown

-- name: shown_entries
SELECT e.id, e.session, e.key, e.log_id, e.line, e.part, e.role, e.kind, e.at, e.tool, e.error, e.hash,
  s.id, s.harness, s.session_id, s.parent_session_id, s.is_subagent, s.hidden, s.title, s.agent, s.model, s.cwd, s.project, s.git_branch,
  s.slug, s.version, s.first_prompt, s.started_at, s.ended_at, s.entries, s.prompts, s.tool_calls, s.errors
FROM json_each(:ids) AS i CROSS JOIN tk_entries AS e ON e.id = i.value JOIN tk_sessions AS s ON s.id = e.session

-- name: segment_at
SELECT id FROM agentic_sessions WHERE session_id = :session_id AND harness = :harness
ORDER BY start_time <= coalesce(:at, start_time) DESC, CASE WHEN start_time <= coalesce(:at, start_time) THEN -start_time ELSE start_time END
LIMIT 1

-- What is shown of a thing: row, time, title, text, source, harness, cwd, branch, session id, outcome, uuid, url, repo.
-- name: shown_command
SELECT e.id, e.timestamp, CAST(e.command AS BLOB),
  CAST(e.command || coalesce(char(10) || e.stdout, '') || coalesce(char(10) || e.stderr, '') AS BLOB),
  'shell-' || e.id, CASE e.source_kind WHEN 'claude-tool' THEN 'claude-code' END, CAST(e.cwd AS BLOB), CAST(e.git_branch AS BLOB),
  s.terminal, CASE WHEN e.exit_code IS NULL THEN 'unknown' WHEN e.exit_code = 0 THEN 'success' ELSE 'failure' END,
  NULL, NULL, CAST(e.git_repo AS BLOB)
FROM events AS e LEFT JOIN sessions AS s ON s.id = e.session_id WHERE e.id = :id AND e.probe_tag IS NULL

-- name: shown_page
SELECT id, timestamp, CAST(coalesce(nullif(title, ''), url) AS BLOB),
  CAST(coalesce(title, '') || char(10) || url || coalesce(char(10) || search_query, '') || coalesce(char(10) || extracted_text, '') AS BLOB),
  'browser-' || id, NULL, NULL, NULL, NULL, NULL, NULL, CAST(url AS BLOB), NULL
FROM browser_events WHERE id = :id AND probe_tag IS NULL

-- name: shown_lesson
SELECT id, last_seen_at, CAST(summary AS BLOB),
  CAST(summary || coalesce(char(10) || fix_hint, '') || char(10) || repo || ' ' || tool || ' ' || rule_id || ' ' || path_prefix AS BLOB),
  'lesson-' || id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, CAST(repo AS BLOB)
FROM lessons WHERE id = :id

-- name: shown_segment
SELECT id, end_time, CAST(coalesce(nullif(title, ''), substr(summary_text, 1, 120)) AS BLOB),
  CAST(summary_text || coalesce(char(10) || user_prompts_json, '') || coalesce(char(10) || tool_calls_json, '') AS BLOB),
  id, harness, CAST(cwd AS BLOB), CAST(git_branch AS BLOB), session_id, NULL, NULL, NULL, NULL
FROM agentic_sessions AS a WHERE id = :id AND probe_tag IS NULL
  AND NOT EXISTS (SELECT 1 FROM tk_sessions AS s WHERE s.harness = a.harness AND s.session_id = a.session_id)

-- name: shown_node
SELECT n.id, coalesce(t.at, n.created_at), CAST(n.content AS BLOB), CAST(n.embed_text AS BLOB), 'node-' || n.id, t.harness,
  CAST(t.cwd AS BLOB), CAST(t.branch AS BLOB), NULL, CAST(n.outcome AS BLOB), n.uuid, NULL, CAST(t.repo AS BLOB)
FROM knowledge_nodes AS n LEFT JOIN tk_things AS t ON t.kind = 'node' AND t.row = n.id WHERE n.id = :id

-- name: shown_node_plainly
SELECT id, created_at, CAST(content AS BLOB), CAST(embed_text AS BLOB), 'node-' || id, NULL, NULL, NULL, NULL, CAST(outcome AS BLOB),
  uuid, NULL, NULL
FROM knowledge_nodes WHERE id = :id

-- name: shown_ci
SELECT id, coalesce(completed_at, started_at, first_seen_at), CAST(raw_json AS BLOB), NULL, 'workflow-' || id, NULL, NULL,
  CAST(head_branch AS BLOB), NULL, coalesce(conclusion, status), head_sha, CAST(html_url AS BLOB), CAST(repo AS BLOB)
FROM workflow_runs WHERE id = :id

-- name: shown_memory
SELECT c.id, r.source_mtime_ms, CAST(coalesce(nullif(c.heading_path, ''), d.logical_path) AS BLOB), CAST(c.content AS BLOB),
  'memory-' || c.id, 'claude-code', CAST({memory_folder} AS BLOB), NULL, NULL, NULL,
  (SELECT n.uuid FROM knowledge_node_memory_chunks AS l JOIN knowledge_nodes AS n ON n.id = l.knowledge_node_id
    WHERE l.memory_chunk_id = c.id LIMIT 1), NULL, CAST({memory_repo} AS BLOB)
FROM memory_chunks AS c JOIN memory_revisions AS r ON r.id = c.revision_id JOIN memory_documents AS d ON d.id = r.document_id
WHERE c.id = :id AND d.repository != 'hippo/__hippo_probe__'

-- name: facts_of_memory
SELECT CAST(d.repository AS BLOB), CAST(d.logical_path AS BLOB), d.uuid, d.state, r.revision_number, c.ordinal, CAST(c.heading_path AS BLOB),
  d.active_revision_id = r.id
FROM memory_chunks AS c JOIN memory_revisions AS r ON r.id = c.revision_id JOIN memory_documents AS d ON d.id = r.document_id WHERE c.id = :id

-- name: is_agent
SELECT 1 FROM agentic_sessions WHERE harness = :harness LIMIT 1

-- The session of a node: that of its latest slice, else that of an agent's command.
-- name: session_of_node
SELECT harness, session_id FROM (
  SELECT 0 AS nth, a.harness AS harness, a.session_id AS session_id, a.end_time AS at
  FROM knowledge_node_agentic_sessions AS l JOIN agentic_sessions AS a ON a.id = l.agentic_session_id WHERE l.knowledge_node_id = :id
  UNION ALL
  SELECT 0, 'claude-code', c.session_id, c.end_time
  FROM knowledge_node_claude_sessions AS l JOIN claude_sessions AS c ON c.id = l.claude_session_id WHERE l.knowledge_node_id = :id
  UNION ALL
  SELECT 1, t.harness, t.session_id, e.timestamp
  FROM knowledge_node_events AS l JOIN events AS e ON e.id = l.event_id JOIN sessions AS s ON s.id = e.session_id
  JOIN tk_sessions AS t ON t.session_id = s.terminal WHERE l.knowledge_node_id = :id
) ORDER BY nth, at DESC LIMIT 1

-- name: key_of_lesson
SELECT repo, tool, rule_id, path_prefix FROM lessons WHERE id = :id

-- name: session_of_lesson
SELECT harness, session_id FROM (
  SELECT t.harness AS harness, t.session_id AS session_id, e.at AS at FROM tk_counted AS c
  JOIN tk_entries AS e ON e.id = c.row JOIN tk_sessions AS t ON t.id = e.session WHERE c.lesson = :lesson AND c.origin = 'entry'
  UNION ALL
  SELECT t.harness, t.session_id, e.timestamp FROM tk_counted AS c JOIN events AS e ON e.id = c.row
  JOIN sessions AS s ON s.id = e.session_id JOIN tk_sessions AS t ON t.session_id = s.terminal WHERE c.lesson = :lesson AND c.origin = 'event'
) ORDER BY at DESC LIMIT 1

-- name: node_number
SELECT id FROM knowledge_nodes WHERE uuid = :uuid

-- name: source_of_node
SELECT name, number, harness FROM (
  SELECT 'shell' AS name, event_id AS number, NULL AS harness FROM knowledge_node_events WHERE knowledge_node_id = :id
  UNION ALL
  SELECT 'agent', a.id, a.harness FROM knowledge_node_agentic_sessions AS l JOIN agentic_sessions AS a ON a.id = l.agentic_session_id
  WHERE l.knowledge_node_id = :id
  UNION ALL
  SELECT 'browser', browser_event_id, NULL FROM knowledge_node_browser_events WHERE knowledge_node_id = :id
  UNION ALL
  SELECT 'workflow', run_id, NULL FROM knowledge_node_workflow_runs WHERE knowledge_node_id = :id
  UNION ALL
  SELECT 'lesson', lesson_id, NULL FROM knowledge_node_lessons WHERE knowledge_node_id = :id
  UNION ALL
  SELECT 'memory', memory_chunk_id, NULL FROM knowledge_node_memory_chunks WHERE knowledge_node_id = :id
) LIMIT :limit

-- name: entities_of_node_named
SELECT n.type, CAST(n.name AS BLOB) FROM knowledge_node_entities AS k JOIN entities AS n ON n.id = k.entity_id
WHERE k.knowledge_node_id = :id ORDER BY n.type, n.name LIMIT 100

-- name: first_entry_of_segment
SELECT e.id FROM agentic_sessions AS a JOIN tk_sessions AS s ON s.harness = a.harness AND s.session_id = a.session_id
JOIN tk_entries AS e ON e.session = s.id
WHERE a.id = :id AND e.kind = 'prompt' AND (e.at IS NULL OR e.at >= a.start_time) ORDER BY e.id LIMIT 1

-- ------------------------------------------------------------------ around an opened hit

-- name: entries_before
SELECT id FROM tk_entries WHERE session = :session AND (log_id, line, part) < (:log, :line, :part)
ORDER BY log_id DESC, line DESC, part DESC LIMIT :limit

-- name: entries_after
SELECT id FROM tk_entries WHERE session = :session AND (log_id, line, part) > (:log, :line, :part)
ORDER BY log_id, line, part LIMIT :limit

-- name: commands_before
SELECT id FROM events WHERE session_id = (SELECT session_id FROM events WHERE id = :id) AND probe_tag IS NULL
  AND (timestamp, id) < (SELECT timestamp, id FROM events WHERE id = :id) ORDER BY timestamp DESC, id DESC LIMIT :limit

-- name: commands_after
SELECT id FROM events WHERE session_id = (SELECT session_id FROM events WHERE id = :id) AND probe_tag IS NULL
  AND (timestamp, id) > (SELECT timestamp, id FROM events WHERE id = :id) ORDER BY timestamp, id LIMIT :limit

-- name: facts_of_command
SELECT exit_code, duration_ms, hostname, shell, CAST(git_commit AS BLOB), git_dirty, tool_name FROM events WHERE id = :id

-- name: facts_of_page
SELECT domain, dwell_ms, scroll_depth, CAST(search_query AS BLOB), CAST(referrer AS BLOB) FROM browser_events WHERE id = :id

-- name: facts_of_lesson
SELECT CAST(tool AS BLOB), CAST(rule_id AS BLOB), CAST(path_prefix AS BLOB), CAST(fix_hint AS BLOB), occurrences, first_seen_at
FROM lessons WHERE id = :id

-- name: facts_of_run
SELECT event, status, conclusion, CAST(actor AS BLOB), head_sha FROM workflow_runs WHERE id = :id

-- name: entries_of_sessions
SELECT entry FROM tk_turns WHERE session IN (SELECT value FROM json_each(:sessions)) AND turn IS NOT NULL LIMIT :limit
