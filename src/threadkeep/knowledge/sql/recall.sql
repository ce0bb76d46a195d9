-- Finding: what is indexed, candidates by words, and what stands behind a hit.

-- ------------------------------------------------------------------ where entries stand

-- name: entries_to_place
SELECT e.id, e.session, e.kind IN ('prompt', 'text', 'summary'), e.kind = 'copy' FROM tk_entries AS e
WHERE {after:e} ORDER BY e.id LIMIT :limit

-- name: last_turn
SELECT max(turn) FROM tk_turns WHERE session = :session AND turn IS NOT NULL

-- name: place_entry
INSERT INTO tk_turns (entry, session, turn, words) VALUES (:entry, :session, :turn, :words)
ON CONFLICT (entry) DO UPDATE SET session = excluded.session, turn = excluded.turn, words = excluded.words

-- name: last_entry_placed
SELECT coalesce((SELECT upto FROM tk_indexed WHERE kind = 'entry'), 0), coalesce((SELECT max(id) FROM tk_entries), 0)

-- ------------------------------------------------------------------ things and their words

-- name: indexed_upto
SELECT upto FROM tk_indexed WHERE kind = :kind

-- name: indexed_on
INSERT INTO tk_indexed (kind, upto, rows, words) VALUES (:kind, :upto, :rows, :words)
ON CONFLICT (kind) DO UPDATE SET upto = max(tk_indexed.upto, excluded.upto), rows = tk_indexed.rows + excluded.rows,
  words = tk_indexed.words + excluded.words

-- name: stale_things
SELECT kind, row FROM tk_stale LIMIT :limit

-- name: any_stale
SELECT 1 FROM tk_stale LIMIT 1

-- name: not_stale
DELETE FROM tk_stale WHERE kind = :kind AND "row" = :row

-- name: all_runs_stale
INSERT INTO tk_stale (kind, row) SELECT 'ci', id FROM workflow_runs WHERE true ON CONFLICT DO NOTHING

-- name: run_of_job
SELECT run_id FROM workflow_jobs WHERE id = :job

-- name: drop_thing
DELETE FROM tk_things WHERE kind = :kind AND "row" = :row

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
SELECT e.id, e.timestamp, {raw:e.command}, {raw:e.cwd}, {raw:e.git_repo}, {raw:e.git_branch},
  e.exit_code, e.source_kind, {raw:substr(e.stdout, 1, 16384)}, {raw:substr(e.stderr, 1, 16384)},
  e.probe_tag IS NOT NULL OR (e.source_kind != 'shell' AND EXISTS (
    SELECT 1 FROM sessions AS s JOIN tk_sessions AS a ON a.session_id = s.terminal WHERE s.id = e.session_id))
FROM events AS e WHERE {after:e} AND e.id <= :through ORDER BY e.id LIMIT :limit

-- name: things_page
SELECT id, timestamp, {raw:title}, {raw:url}, {raw:search_query},
  {raw:substr(extracted_text, 1, 65536)}, probe_tag IS NOT NULL
FROM browser_events WHERE {after:browser_events} AND id <= :through ORDER BY id LIMIT :limit

-- name: things_lesson
SELECT id, last_seen_at, {raw:repo}, {raw:tool}, {raw:rule_id}, {raw:path_prefix}, {raw:summary},
  {raw:fix_hint}
FROM lessons WHERE {after:lessons} AND id <= :through ORDER BY id LIMIT :limit

-- name: things_segment
SELECT a.id, a.end_time, a.harness, {raw:a.cwd}, {raw:a.git_branch}, {raw:a.title}, {raw:a.summary_text},
  {raw:a.user_prompts_json}, {raw:a.tool_calls_json}, {raw:a.commit_messages_json},
  a.probe_tag IS NOT NULL OR EXISTS (SELECT 1 FROM tk_sessions AS s WHERE s.harness = a.harness AND s.session_id = a.session_id)
FROM agentic_sessions AS a WHERE {after:a} AND a.id <= :through ORDER BY a.id LIMIT :limit

-- name: things_node
SELECT id, created_at, {raw:content}, {raw:embed_text}, {raw:tags}, {raw:outcome}
FROM knowledge_nodes WHERE {after:knowledge_nodes} AND id <= :through ORDER BY id LIMIT :limit

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
SELECT source, at, harness, {raw:cwd}, {raw:repo}, {raw:branch}, probe FROM (
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
  SELECT 'ci', coalesce(r.completed_at, r.started_at, r.first_seen_at), NULL, NULL, r.repo, r.head_branch, false
  FROM knowledge_node_workflow_runs AS l JOIN workflow_runs AS r ON r.id = l.run_id WHERE l.knowledge_node_id = :id
  UNION ALL
  SELECT 'memory', r.source_mtime_ms, 'claude-code', {memory_folder}, {memory_repo}, NULL, d.repository = 'hippo/__hippo_probe__'
  FROM knowledge_node_memory_chunks AS l JOIN memory_chunks AS c ON c.id = l.memory_chunk_id
  JOIN memory_revisions AS r ON r.id = c.revision_id JOIN memory_documents AS d ON d.id = r.document_id WHERE l.knowledge_node_id = :id
) ORDER BY source = 'ci' DESC, at DESC LIMIT 50

-- name: things_ci
SELECT id, coalesce(completed_at, started_at, first_seen_at), {raw:repo}, {raw:head_branch}, head_sha, event, status,
  conclusion, {raw:actor}, {raw:raw_json}
FROM workflow_runs WHERE {after:workflow_runs} AND id <= :through ORDER BY id LIMIT :limit

-- name: texts_of_run
SELECT {raw:j.name}, j.conclusion, NULL, NULL FROM workflow_jobs AS j WHERE j.run_id = :id
UNION ALL
SELECT {raw:a.message}, a.level, {raw:a.path}, {raw:coalesce(a.tool, '') || ' ' || coalesce(a.rule_id, '')}
FROM workflow_jobs AS j JOIN workflow_annotations AS a ON a.job_id = j.id WHERE j.run_id = :id
UNION ALL
SELECT {raw:substr(x.excerpt, 1, 16384)}, {raw:x.step_name}, NULL, NULL
FROM workflow_jobs AS j JOIN workflow_log_excerpts AS x ON x.job_id = j.id WHERE j.run_id = :id

-- ------------------------------------------------------------------ candidates

-- name: last_id_entry
SELECT max(id) FROM tk_entries

-- name: last_id_thing
SELECT max(id) FROM tk_things

-- name: averages_of_words
SELECT kind = 'entry', sum(words), sum(rows) FROM tk_indexed GROUP BY kind = 'entry'

-- name: entries_at_turns
SELECT t.session, t.turn, t.entry FROM ({texts:places}) AS p
CROSS JOIN tk_turns AS t WHERE t.session = json_extract(p.value, '$[0]') AND t.turn = json_extract(p.value, '$[1]')

-- ------------------------------------------------------------------ what was found

-- name: found_things
SELECT t.id, t.at, t.kind, t.hash, t.row FROM ({ids:ids}) AS i CROSS JOIN tk_things AS t WHERE t.id = i.value

-- name: names_of_sessions
SELECT s.id, s.harness, s.session_id,
  EXISTS (SELECT 1 FROM agentic_sessions AS a WHERE a.session_id = s.session_id AND a.harness = s.harness AND a.probe_tag IS NOT NULL)
FROM ({ids:ids}) AS i CROSS JOIN tk_sessions AS s WHERE s.id = i.value

-- ------------------------------------------------------------------ what is shown

-- name: shown_entries
SELECT e.id, e.session, e.key, e.log_id, e.line, e.part, e.role, e.kind, e.at, e.tool, e.error, e.hash,
  s.id, s.harness, s.session_id, s.parent_session_id, s.is_subagent, s.hidden, s.title, s.agent, s.model, s.cwd, s.project, s.git_branch,
  s.slug, s.version, s.first_prompt, s.started_at, s.ended_at, s.entries, s.prompts, s.tool_calls, s.errors,
  coalesce((SELECT a.id FROM agentic_sessions AS a
      WHERE a.session_id = s.session_id AND a.harness = s.harness AND a.start_time <= coalesce(e.at, a.start_time)
      ORDER BY a.start_time DESC LIMIT 1),
    (SELECT a.id FROM agentic_sessions AS a WHERE a.session_id = s.session_id AND a.harness = s.harness ORDER BY a.start_time LIMIT 1))
FROM ({ids:ids}) AS i CROSS JOIN tk_entries AS e JOIN tk_sessions AS s ON s.id = e.session WHERE e.id = i.value

-- What is shown of a thing: row, time, title, text, source, harness, cwd, branch, session id, outcome, uuid, url, repo.
-- name: shown_command
SELECT e.id, e.timestamp, {raw:e.command},
  {raw:e.command || coalesce({newline} || e.stdout, '') || coalesce({newline} || e.stderr, '')},
  'shell-' || e.id, CASE e.source_kind WHEN 'claude-tool' THEN 'claude-code' END, {raw:e.cwd}, {raw:e.git_branch},
  s.terminal, CASE WHEN e.exit_code IS NULL THEN 'unknown' WHEN e.exit_code = 0 THEN 'success' ELSE 'failure' END,
  NULL, NULL, {raw:e.git_repo}
FROM events AS e LEFT JOIN sessions AS s ON s.id = e.session_id WHERE e.id = :id AND e.probe_tag IS NULL

-- name: shown_page
SELECT id, timestamp, {raw:coalesce(nullif(title, ''), url)},
  {raw:coalesce(title, '') || {newline} || url || coalesce({newline} || search_query, '') || coalesce({newline} || extracted_text, '')},
  'browser-' || id, NULL, NULL, NULL, NULL, NULL, NULL, {raw:url}, NULL
FROM browser_events WHERE id = :id AND probe_tag IS NULL

-- name: shown_lesson
SELECT id, last_seen_at, {raw:summary},
  {raw:summary || coalesce({newline} || fix_hint, '') || {newline} || repo || ' ' || tool || ' ' || rule_id || ' ' || path_prefix},
  'lesson-' || id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, {raw:repo}
FROM lessons WHERE id = :id

-- name: shown_segment
SELECT id, end_time, {raw:coalesce(nullif(title, ''), substr(summary_text, 1, 120))},
  {raw:summary_text || coalesce({newline} || user_prompts_json, '') || coalesce({newline} || tool_calls_json, '')},
  id, harness, {raw:cwd}, {raw:git_branch}, session_id, NULL, NULL, NULL, NULL
FROM agentic_sessions AS a WHERE id = :id AND probe_tag IS NULL
  AND NOT EXISTS (SELECT 1 FROM tk_sessions AS s WHERE s.harness = a.harness AND s.session_id = a.session_id)

-- name: shown_node
SELECT n.id, coalesce(t.at, n.created_at), {raw:n.content}, {raw:n.embed_text}, 'node-' || n.id, t.harness,
  {raw:t.cwd}, {raw:t.branch}, NULL, {raw:n.outcome}, n.uuid, NULL, {raw:t.repo}
FROM knowledge_nodes AS n LEFT JOIN tk_things AS t ON t.kind = 'node' AND t.row = n.id WHERE n.id = :id

-- name: shown_node_plainly
SELECT id, created_at, {raw:content}, {raw:embed_text}, 'node-' || id, NULL, NULL, NULL, NULL, {raw:outcome},
  uuid, NULL, NULL
FROM knowledge_nodes WHERE id = :id

-- name: shown_ci
SELECT id, coalesce(completed_at, started_at, first_seen_at), {raw:raw_json}, NULL, 'workflow-' || id, NULL, NULL,
  {raw:head_branch}, NULL, coalesce(conclusion, status), head_sha, {raw:html_url}, {raw:repo}
FROM workflow_runs WHERE id = :id

-- name: shown_memory
SELECT c.id, r.source_mtime_ms, {raw:coalesce(nullif(c.heading_path, ''), d.logical_path)}, {raw:c.content},
  'memory-' || c.id, 'claude-code', {raw:{memory_folder}}, NULL, NULL, NULL,
  (SELECT n.uuid FROM knowledge_node_memory_chunks AS l JOIN knowledge_nodes AS n ON n.id = l.knowledge_node_id
    WHERE l.memory_chunk_id = c.id LIMIT 1), NULL, {raw:{memory_repo}}
FROM memory_chunks AS c JOIN memory_revisions AS r ON r.id = c.revision_id JOIN memory_documents AS d ON d.id = r.document_id
WHERE c.id = :id AND d.repository != 'hippo/__hippo_probe__'

-- name: facts_of_memory
SELECT {raw:d.repository}, {raw:d.logical_path}, d.uuid, d.state, r.revision_number, c.ordinal, {raw:c.heading_path},
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
SELECT n.type, {raw:n.name} FROM knowledge_node_entities AS k JOIN entities AS n ON n.id = k.entity_id
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
SELECT exit_code, duration_ms, hostname, shell, {raw:git_commit}, git_dirty, tool_name FROM events WHERE id = :id

-- name: facts_of_page
SELECT domain, dwell_ms, scroll_depth, {raw:search_query}, {raw:referrer} FROM browser_events WHERE id = :id

-- name: facts_of_lesson
SELECT {raw:tool}, {raw:rule_id}, {raw:path_prefix}, {raw:fix_hint}, occurrences, first_seen_at
FROM lessons WHERE id = :id

-- name: facts_of_run
SELECT event, status, conclusion, {raw:actor}, head_sha FROM workflow_runs WHERE id = :id

-- name: entries_of_sessions
SELECT entry FROM tk_turns WHERE session IN ({ids:sessions}) AND turn IS NOT NULL LIMIT :limit
