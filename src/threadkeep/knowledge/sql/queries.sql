-- The named queries of the knowledge store: the archive and what capture writes.

-- piece: log
reader, harness, path, item, id, session_id, size, mtime_ns, device, inode, fingerprint, read_to, head, head_size, tail, lines,
bad_lines, source_bytes, parser, excluded, captured_at, gone_at, error

-- ------------------------------------------------------------------ logs

-- name: log_by_place
SELECT {log} FROM tk_logs WHERE reader = :reader AND path = :path AND item = :item AND {here:tk_logs}

-- name: log_by_id
SELECT {log} FROM tk_logs WHERE id = :id

-- name: logs_of_session
SELECT {log} FROM tk_logs WHERE id IN (
  SELECT id FROM tk_logs WHERE harness = :harness AND session_id = :session_id AND lines > 0
  UNION
  SELECT e.log_id FROM tk_entries AS e JOIN tk_sessions AS s ON s.id = e.session
  WHERE s.harness = :harness AND s.session_id = :session_id
) ORDER BY id

-- name: all_logs
SELECT {log} FROM tk_logs WHERE CAST(:harness AS TEXT) IS NULL OR harness = :harness ORDER BY id

-- name: log_marks
SELECT ctime_ns, crc, checked_at FROM tk_logs WHERE id = :id

-- name: log_looks
SELECT path, id, size, mtime_ns, device, inode, ctime_ns, head, head_size, read_to, tail, gone_at IS NOT NULL, error IS NOT NULL,
  NULLIF(fingerprint, ''), crc, checked_at, captured_at
FROM tk_logs
WHERE reader = :reader AND item = '' AND {here:tk_logs}

-- name: old_log_looks
-- of a file that an older version wrote and this one has only open to look at
SELECT path, id, size, mtime_ns, device, inode, 0, head, head_size, read_to, tail, gone_at IS NOT NULL, error IS NOT NULL,
  NULLIF(fingerprint, ''), NULL, NULL, captured_at
FROM tk_logs
WHERE reader = :reader AND item = ''

-- name: log_fingerprints
SELECT item, fingerprint FROM tk_logs WHERE reader = :reader AND path = :path AND item != '' AND {here:tk_logs}

-- name: insert_log
INSERT INTO tk_logs (reader, harness, path, item, session_id, size, mtime_ns, device, inode, fingerprint, read_to, head, head_size,
  tail, lines, bad_lines, source_bytes, parser, excluded, captured_at, gone_at, error, ctime_ns, crc, checked_at)
VALUES (:reader, :harness, :path, :item, :session_id, :size, :mtime_ns, :device, :inode, :fingerprint, :read_to, :head, :head_size,
  :tail, :lines, :bad_lines, :source_bytes, :parser, :excluded, :captured_at, :gone_at, :error, coalesce(:ctime_ns, CAST(0 AS INTEGER)), :crc,
  :checked_at)

-- name: place_log
-- apart, because to set a column that is indexed writes its index, also where it stays as it was
UPDATE tk_logs SET path = :path, session_id = :session_id, inode = :inode
WHERE id = :id AND (path, session_id, inode) IS DISTINCT FROM (:path, :session_id, :inode)

-- name: update_log
UPDATE tk_logs SET size = :size, mtime_ns = :mtime_ns, device = :device,
  fingerprint = :fingerprint, read_to = :read_to, head = :head, head_size = :head_size, tail = :tail, lines = :lines,
  bad_lines = :bad_lines, source_bytes = :source_bytes, parser = :parser, excluded = :excluded, captured_at = :captured_at,
  gone_at = :gone_at, error = :error, ctime_ns = coalesce(:ctime_ns, ctime_ns), crc = coalesce(:crc, crc),
  checked_at = coalesce(:checked_at, checked_at)
WHERE id = :id

-- name: known_projects
-- one step in the index for each folder
WITH RECURSIVE folders (cwd) AS (
  SELECT min(cwd) FROM agentic_sessions
  UNION ALL
  SELECT (SELECT min(cwd) FROM agentic_sessions WHERE cwd > f.cwd) FROM folders AS f WHERE f.cwd IS NOT NULL LIMIT :sessions
)
SELECT cwd FROM folders WHERE cwd IS NOT NULL
UNION
SELECT cwd FROM (SELECT cwd FROM events ORDER BY id DESC LIMIT :commands)

-- name: logs_in_projects
SELECT path FROM tk_logs WHERE reader = 'aider' AND item = '' AND {here:tk_logs}

-- name: log_is_gone
UPDATE tk_logs SET gone_at = :now WHERE id = :id AND gone_at IS NULL

-- ------------------------------------------------------------------ archive

-- name: last_blocks
SELECT l.first_line, l.lines, l.block_id, b.size FROM tk_log_blocks AS l JOIN tk_blocks AS b ON b.id = l.block_id
WHERE l.log_id = :log ORDER BY l.first_line DESC LIMIT :most

-- name: block_by_digest
SELECT id FROM tk_blocks WHERE digest = :digest

-- name: insert_block
INSERT INTO tk_blocks (digest, size, codec, data) VALUES (:digest, :size, 'zstd', :data)

-- name: read_block
SELECT digest, size, data FROM tk_blocks WHERE id = :block

-- name: put_log_block
INSERT INTO tk_log_blocks (log_id, first_line, lines, block_id) VALUES (:log, :first, :lines, :block)
ON CONFLICT (log_id, first_line) DO UPDATE SET lines = excluded.lines, block_id = excluded.block_id

-- name: drop_unused_block
DELETE FROM tk_blocks WHERE id = :block AND NOT EXISTS (SELECT 1 FROM tk_log_blocks WHERE block_id = :block)

-- name: blocks_from
SELECT first_line, block_id FROM tk_log_blocks WHERE log_id = :log AND first_line + lines > :first ORDER BY first_line

-- name: delete_log_blocks_behind
DELETE FROM tk_log_blocks WHERE log_id = :log AND first_line > :first

-- name: delete_log_blocks
DELETE FROM tk_log_blocks WHERE log_id = :log

-- name: known_records
SELECT key, digest, line FROM tk_records WHERE log_id = :log

-- name: records_by_key
SELECT key, digest, line FROM tk_records
WHERE log_id = :log AND key IN ({texts:keys})

-- name: put_record
INSERT INTO tk_records (log_id, key, digest, line) VALUES (:log, :key, :digest, :line)
ON CONFLICT (log_id, key) DO UPDATE SET digest = excluded.digest, line = excluded.line

-- name: put_mask
INSERT INTO tk_masks (log_id, line, place, rule) VALUES (:log, :line, :place, :rule)
ON CONFLICT (log_id, line, place) DO UPDATE SET rule = excluded.rule

-- name: delete_line_masks
DELETE FROM tk_masks WHERE log_id = :log AND line = :line

-- name: masks_of_log
SELECT line, rule, place FROM tk_masks WHERE log_id = :log ORDER BY line, place

-- name: mask_rules
SELECT DISTINCT rule FROM tk_masks

-- name: exempt_rules
SELECT rule FROM tk_exempt_rules WHERE harness = :harness AND session_id = :session_id

-- name: rules_exempt_anywhere
SELECT DISTINCT rule FROM tk_exempt_rules

-- name: put_exempt_rule
INSERT INTO tk_exempt_rules (harness, session_id, rule, undone_at) VALUES (:harness, :session_id, :rule, :now)
ON CONFLICT (harness, session_id, rule) DO NOTHING

-- ------------------------------------------------------------------ sessions

-- name: session_number
SELECT id FROM tk_sessions WHERE harness = :harness AND session_id = :session_id

-- name: insert_session
INSERT INTO tk_sessions (harness, session_id) VALUES (:harness, :session_id)

-- name: grow_session
UPDATE tk_sessions SET entries = entries + :entries, prompts = prompts + :prompts, tool_calls = tool_calls + :tool_calls,
  errors = errors + :errors,
  first_prompt = CASE WHEN first_prompt = '' THEN :first_prompt ELSE first_prompt END,
  started_at = min(coalesce(started_at, :started_at), coalesce(:started_at, started_at)),
  ended_at = max(coalesce(ended_at, :ended_at), coalesce(:ended_at, ended_at))
WHERE id = :session

-- name: session_may_wait
-- what comes is neither its first nor later than its place in the lists tells by more than :ms
SELECT 1 FROM tk_sessions WHERE id = :session AND entries > 0 AND (first_prompt <> '' OR :first_prompt = '')
  AND coalesce(:started_at, started_at) >= started_at AND coalesce(:ended_at, ended_at) < ended_at + :ms

-- name: learn_session
UPDATE tk_sessions SET
  parent_session_id = CASE WHEN :parent_session_id = '' THEN parent_session_id ELSE :parent_session_id END,
  is_subagent = max(is_subagent, :is_subagent),
  hidden = max(hidden, :hidden),
  title = CASE WHEN :title = '' THEN title ELSE :title END,
  agent = CASE WHEN :agent = '' THEN agent ELSE :agent END,
  model = CASE WHEN :model = '' THEN model ELSE :model END,
  project = CASE WHEN :project = '' THEN project ELSE :project END,
  cwd = CASE WHEN :cwd = '' THEN cwd ELSE :cwd END,
  git_branch = CASE WHEN :git_branch = '' THEN git_branch ELSE :git_branch END,
  slug = CASE WHEN :slug = '' THEN slug ELSE :slug END,
  version = CASE WHEN :version = '' THEN version ELSE :version END
-- only where something is new: eight indexes would be written for what stays as it was
WHERE id = :session AND (
  (:parent_session_id <> '' AND parent_session_id IS DISTINCT FROM :parent_session_id) OR is_subagent < :is_subagent OR hidden < :hidden
  OR (:title <> '' AND title <> :title) OR (:agent <> '' AND agent <> :agent) OR (:model <> '' AND model <> :model)
  OR (:project <> '' AND project <> :project) OR (:cwd <> '' AND cwd <> :cwd) OR (:git_branch <> '' AND git_branch <> :git_branch)
  OR (:slug <> '' AND slug <> :slug) OR (:version <> '' AND version <> :version)
)

-- name: project_of_session
SELECT s.project, s.cwd, coalesce(p.shown, :name) FROM tk_sessions AS s LEFT JOIN tk_projects AS p ON p.name = :name WHERE s.id = :session

-- name: place_session
UPDATE tk_sessions SET project = :project WHERE id = :session AND project <> :project

-- name: recount_session
UPDATE tk_sessions SET (entries, prompts, tool_calls, errors, started_at, ended_at) = (
  SELECT count(*), count(*) FILTER (WHERE kind = 'prompt'), count(*) FILTER (WHERE kind = 'tool_call'),
    coalesce(sum(error) FILTER (WHERE kind != 'copy'), 0), min(at), max(at)
  FROM tk_entries WHERE session = :session
) WHERE id = :session

-- name: recount_sessions_of_log
UPDATE tk_sessions SET (entries, prompts, tool_calls, errors, started_at, ended_at) = (
  SELECT count(*), count(*) FILTER (WHERE kind = 'prompt'), count(*) FILTER (WHERE kind = 'tool_call'),
    coalesce(sum(error) FILTER (WHERE kind != 'copy'), 0), min(at), max(at)
  FROM tk_entries WHERE session = tk_sessions.id
) WHERE id IN (SELECT session FROM tk_entries WHERE log_id = :log)

-- ------------------------------------------------------------------ entries

-- name: last_entry_id
SELECT seq FROM sqlite_sequence WHERE name = 'tk_entries'

-- name: new_entry_numbers
WITH RECURSIVE new (number) AS (
  SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'tk_entries'), 0) + 1
  UNION ALL SELECT number + 1 FROM new LIMIT :count
)
SELECT number FROM new

-- name: session_has_entries
SELECT 1 FROM tk_entries WHERE session = :session LIMIT 1

-- name: log_has_entries
SELECT 1 FROM tk_entries WHERE log_id = :log LIMIT 1

-- name: entry_by_key
SELECT id, hash FROM tk_entries WHERE session = :session AND key = :key

-- name: delete_entry
DELETE FROM tk_entries WHERE id = :id

-- name: insert_entry
INSERT INTO tk_entries (id, session, key, log_id, line, part, role, kind, at, tool, error, hash)
VALUES (:id, :session, :key, :log_id, :line, :part, :role, :kind, :at, :tool, :error, :hash)

-- ------------------------------------------------------------------ sessions of which only slices are here

-- name: last_slice
SELECT max(id) FROM agentic_sessions

-- name: captured_by_another
SELECT 1 FROM tk_logs WHERE reader <> :reader LIMIT 1

-- name: noted_sessions
SELECT DISTINCT a.harness, a.session_id FROM agentic_sessions AS a
WHERE a.id > :after AND a.probe_tag IS NULL AND a.session_id <> ''
  AND NOT EXISTS (SELECT 1 FROM tk_logs AS l WHERE l.harness = a.harness AND l.session_id = a.session_id AND l.reader <> :reader)
  AND NOT EXISTS (SELECT 1 FROM tk_sessions AS s JOIN tk_entries AS e ON e.session = s.id JOIN tk_logs AS l ON l.id = e.log_id
    WHERE s.harness = a.harness AND s.session_id = a.session_id AND l.reader <> :reader)
ORDER BY a.harness, a.session_id

-- name: slices_of_sessions
SELECT a.session_id, a.harness, a.segment_index, a.model, a.agent, a.project_dir, a.cwd, a.git_branch, a.slug, a.title, a.parent_session_id,
  a.is_subagent, a.summary_text, a.tool_calls_json, a.user_prompts_json, a.commit_messages_json, a.source_file, a.message_count,
  a.token_count, a.start_time, a.end_time
FROM ({texts:names}) AS n CROSS JOIN agentic_sessions AS a
WHERE a.session_id = n.value AND a.harness = :harness AND a.probe_tag IS NULL ORDER BY a.session_id, a.segment_index

-- name: notes_of_session
SELECT l.id, s.id FROM tk_logs AS l LEFT JOIN tk_sessions AS s ON s.harness = l.harness AND s.session_id = l.session_id
WHERE l.harness = :harness AND l.session_id = :session_id AND l.reader = :reader

-- name: drop_usage_of_notes
DELETE FROM tk_usage WHERE harness = :harness AND key >= :session_id || '/slice-' AND key < :session_id || '/slice.'

-- name: unname_noted
UPDATE tk_sessions SET first_prompt = '', version = '' WHERE id = :session

-- ------------------------------------------------------------------ copies

-- A session with nothing but copies holds no words of its own, unless it was handed on.
-- name: holds_words
SELECT 1 FROM tk_sessions AS s JOIN tk_entries AS e ON e.session = s.id
WHERE s.harness = :harness AND s.session_id = :session_id AND s.id != :session AND e.kind != 'copy'
UNION ALL SELECT 1 FROM tk_retold WHERE harness = :harness AND session_id = :session_id LIMIT 1

-- Copies among a session's entries prove nothing.
-- name: told_in_session
SELECT e.hash FROM tk_sessions AS s JOIN tk_entries AS e ON e.session = s.id
WHERE s.harness = :harness AND s.session_id = :session_id AND e.kind != 'copy'
UNION SELECT hash FROM tk_retold WHERE harness = :harness AND session_id = :session_id

-- name: put_retold
INSERT INTO tk_retold (harness, session_id, hash) VALUES (:harness, :session_id, :hash) ON CONFLICT DO NOTHING

-- name: put_origin
INSERT INTO tk_origins (session, harness, session_id) VALUES (:session, :harness, :session_id)
ON CONFLICT (session) DO UPDATE SET harness = excluded.harness, session_id = excluded.session_id

-- name: put_first_origin
INSERT INTO tk_origins (session, harness, session_id) VALUES (:session, :harness, :session_id) ON CONFLICT DO NOTHING

-- name: put_lone_copy
INSERT INTO tk_lone_copies (entry, session, harness, session_id) VALUES (:entry, :session, :harness, :session_id)

-- name: origins_of_lone_copies
SELECT DISTINCT session, harness, session_id FROM tk_lone_copies

-- name: lone_copies
SELECT e.id, e.session, e.key, e.log_id, e.line, e.part, e.role, 'copy' AS kind, e.at, e.tool, e.error, e.hash
FROM tk_lone_copies AS l JOIN tk_entries AS e ON e.id = l.entry
WHERE l.session = :session AND l.harness = :harness AND l.session_id = :session_id ORDER BY e.id

-- name: drop_lone_copies
DELETE FROM tk_lone_copies WHERE session = :session AND harness = :harness AND session_id = :session_id

-- name: originals_of
SELECT o.session, o.harness, o.session_id FROM ({ids:ids}) AS i CROSS JOIN tk_origins AS o WHERE o.session = i.value

-- name: continuations_of
SELECT i.value, s.harness, s.session_id FROM ({ids:ids}) AS i CROSS JOIN tk_sessions AS o
CROSS JOIN tk_origins AS t
CROSS JOIN tk_sessions AS s WHERE s.id = t.session AND t.harness = o.harness AND t.session_id = o.session_id AND o.id = i.value ORDER BY s.id

-- The sessions that continue one, and those that continue these.
-- name: all_continuations_of
WITH RECURSIVE later (id, harness, session_id) AS (
  SELECT s.id, s.harness, s.session_id FROM tk_origins AS o JOIN tk_sessions AS s ON s.id = o.session
  WHERE o.harness = :harness AND o.session_id = :session_id
  UNION
  SELECT s.id, s.harness, s.session_id FROM later AS l JOIN tk_origins AS o ON o.harness = l.harness AND o.session_id = l.session_id
  JOIN tk_sessions AS s ON s.id = o.session
)
SELECT harness, session_id FROM later ORDER BY id

-- A session of nothing but copies is no work yet: it was handed over, and no agent has continued it.
-- name: folding
SELECT s.id, 2 FROM tk_origins AS o JOIN tk_sessions AS s ON s.id = o.session WHERE s.hidden = 0 AND s.entries > 0
  AND NOT EXISTS (SELECT 1 FROM tk_entries AS e WHERE e.session = s.id AND e.kind <> 'copy')
UNION ALL
SELECT s.id, 0 FROM tk_origins AS o JOIN tk_sessions AS s ON s.id = o.session WHERE s.hidden = 2
  AND EXISTS (SELECT 1 FROM tk_entries AS e WHERE e.session = s.id AND e.kind <> 'copy')

-- name: fold
UPDATE tk_sessions SET hidden = :hidden WHERE id = :session

-- name: copies_by_harness
SELECT s.harness, count(*) FROM tk_origins AS o CROSS JOIN tk_sessions AS s
CROSS JOIN tk_entries AS e WHERE e.session = s.id AND s.id = o.session AND e.kind = 'copy' GROUP BY s.harness

-- ------------------------------------------------------------------ usage

-- name: put_usage
-- What a fork copied counts once, and for the session that it was copied from, whichever of the two is read first.
INSERT INTO tk_usage (harness, key, session, at, model, input, output, cache_read, cache_write, cache_write_1h, reasoning, final)
VALUES (:harness, :key, :session, :at, :model, :input, :output, :cache_read, :cache_write, :cache_write_1h, :reasoning, :final)
ON CONFLICT (harness, key) DO UPDATE SET session = CASE WHEN tk_usage.session != excluded.session AND EXISTS (
    SELECT 1 FROM tk_sessions AS fork CROSS JOIN tk_sessions AS own WHERE fork.id = tk_usage.session AND own.id = excluded.session
    AND fork.harness = own.harness AND fork.parent_session_id = own.session_id) THEN excluded.session ELSE tk_usage.session END,
  at = coalesce(tk_usage.at, excluded.at), model = excluded.model, input = excluded.input, output = excluded.output,
  cache_read = excluded.cache_read, cache_write = excluded.cache_write, cache_write_1h = excluded.cache_write_1h,
  reasoning = excluded.reasoning, final = excluded.final
WHERE excluded.output > tk_usage.output OR (excluded.output = tk_usage.output
  AND (excluded.final > tk_usage.final OR (excluded.final = tk_usage.final AND excluded.session != tk_usage.session)))

-- name: has_another_log
SELECT 1 FROM tk_logs WHERE harness = :harness AND session_id = :session_id AND id != :log AND lines > 0 LIMIT 1

-- name: drop_stand_ins
DELETE FROM tk_usage WHERE harness = :harness AND key = :session_id || '/imported'

-- name: count_unknown
INSERT INTO tk_unknown (harness, kind, count, log_id, last_seen) VALUES (:harness, :kind, :count, :log, :now)
ON CONFLICT (harness, kind) DO UPDATE SET count = tk_unknown.count + excluded.count, log_id = excluded.log_id, last_seen = excluded.last_seen

-- ------------------------------------------------------------------ segments and their tickets

-- name: segment_by_key
SELECT id, last_enriched_content_hash FROM agentic_sessions
WHERE session_id = :session_id AND harness = :harness AND segment_index = :index

-- name: insert_segment
INSERT INTO agentic_sessions (session_id, harness, segment_index, model, agent, project_dir, cwd, git_branch, slug, title,
  parent_session_id, is_subagent, summary_text, tool_calls_json, user_prompts_json, source_file, snapshot_diffs_json,
  message_count, token_count, start_time, end_time, content_hash, created_at)
VALUES (:session_id, :harness, :index, :model, :agent, :project_dir, :cwd, :git_branch, :slug, :title, :parent, :is_subagent,
  :summary, :tools, :prompts, :source_file, :diffs, :messages, :tokens, :start, :end, :hash, :now)

-- name: update_segment
UPDATE agentic_sessions SET model = :model, agent = :agent, project_dir = :project_dir, git_branch = :git_branch,
  slug = :slug, title = :title, parent_session_id = :parent, is_subagent = :is_subagent, summary_text = :summary,
  tool_calls_json = :tools, user_prompts_json = :prompts, snapshot_diffs_json = :diffs, message_count = :messages,
  token_count = :tokens, end_time = :end, content_hash = :hash
WHERE id = :id AND (
  content_hash, end_time, message_count, token_count, summary_text, model, agent, project_dir, cwd, git_branch, slug, title,
  parent_session_id, is_subagent, snapshot_diffs_json
) IS DISTINCT FROM (
  :hash, :end, :messages, :tokens, :summary, :model, :agent, :project_dir, :cwd, :git_branch, :slug, :title,
  :parent, :is_subagent, :diffs
)

-- name: place_segment
UPDATE agentic_sessions SET cwd = :cwd WHERE id = :id AND cwd IS DISTINCT FROM :cwd

-- name: segment_ticket
SELECT status, updated_at FROM agentic_enrichment_queue WHERE session_id = :id

-- name: enqueue_segment
INSERT INTO agentic_enrichment_queue (session_id, status, enqueued_at, updated_at) VALUES (:id, 'pending', :now, :now)
ON CONFLICT (session_id) DO UPDATE SET status = 'pending', retry_count = 0, error_message = NULL, updated_at = excluded.updated_at
WHERE agentic_enrichment_queue.status != 'processing'

-- name: segments_at_rest
SELECT a.id FROM agentic_sessions AS a LEFT JOIN agentic_enrichment_queue AS q ON q.session_id = a.id
WHERE a.content_hash IS NOT NULL AND a.content_hash IS DISTINCT FROM a.last_enriched_content_hash AND a.end_time < :before
  AND a.probe_tag IS NULL AND (q.status IS NULL OR q.status IN ('done', 'failed')) AND a.message_count > 0
ORDER BY a.end_time LIMIT :limit

-- ------------------------------------------------------------------ tool calls as events

-- name: shell_session
SELECT s.id FROM tk_terminals AS t JOIN sessions AS s ON s.id = t.session_id WHERE t.terminal = :terminal

-- Sessions that came since the last time, ours or another program's; one that is gone gives way.
-- name: note_terminals
INSERT INTO tk_terminals (terminal, session_id)
SELECT terminal, id FROM sessions WHERE id > (SELECT coalesce(max(session_id), 0) FROM tk_terminals) AND terminal IS NOT NULL ORDER BY id
ON CONFLICT (terminal) DO UPDATE SET session_id = excluded.session_id
WHERE NOT EXISTS (SELECT 1 FROM sessions WHERE id = tk_terminals.session_id)

-- name: insert_shell_session
INSERT INTO sessions (start_time, terminal, shell, hostname, username, created_at)
VALUES (:start, :terminal, :shell, :hostname, :username, :now)

-- name: last_event
SELECT max(id) FROM events

-- A call whose result has come meanwhile is completed; what is complete stays as it is.
-- name: put_tool_event
INSERT INTO events (session_id, timestamp, command, stdout, stderr, stdout_truncated, stderr_truncated, exit_code, duration_ms,
  cwd, hostname, shell, git_branch, git_dirty, envelope_id, source_kind, tool_name, redaction_count, created_at)
VALUES (:session, :at, :command, :stdout, NULL, :truncated, NULL, :exit_code, :duration, :cwd, :hostname, :shell, :git_branch,
  :git_dirty, :envelope, 'claude-tool', :tool, :masked, :now)
ON CONFLICT (envelope_id) WHERE envelope_id IS NOT NULL DO UPDATE SET stdout = excluded.stdout,
  stdout_truncated = excluded.stdout_truncated, exit_code = excluded.exit_code, duration_ms = excluded.duration_ms
WHERE (events.stdout, events.exit_code, events.duration_ms) IS NOT DISTINCT FROM (NULL, 0, 0)

-- name: enqueue_events_after
INSERT INTO enrichment_queue (event_id, status, max_retries, created_at, updated_at)
SELECT id, 'pending', 5, :now, :now FROM events WHERE id > :last ORDER BY id

-- ------------------------------------------------------------------ health, and where the contract's own readers stand

-- name: health_success
INSERT INTO source_health (source, last_event_ts, last_success_ts, events_last_1h, events_last_24h, updated_at)
VALUES (:source, :at, :now, :count, :count, :now)
ON CONFLICT (source) DO UPDATE SET
  last_event_ts = max(coalesce(source_health.last_event_ts, excluded.last_event_ts),
    coalesce(excluded.last_event_ts, source_health.last_event_ts)),
  last_success_ts = excluded.last_success_ts, consecutive_failures = 0, events_last_1h = source_health.events_last_1h + excluded.events_last_1h,
  events_last_24h = source_health.events_last_24h + excluded.events_last_24h, updated_at = excluded.updated_at

-- name: health_failure
INSERT INTO source_health (source, last_error_ts, last_error_msg, consecutive_failures, updated_at) VALUES (:source, :now, :message, 1, :now)
ON CONFLICT (source) DO UPDATE SET last_error_ts = excluded.last_error_ts, last_error_msg = excluded.last_error_msg,
  consecutive_failures = source_health.consecutive_failures + 1, updated_at = excluded.updated_at

-- name: health_heartbeat
INSERT INTO source_health (source, last_success_ts, last_heartbeat_ts, updated_at) VALUES (:source, :now, :now, :now)
ON CONFLICT (source) DO UPDATE SET last_success_ts = excluded.last_success_ts, last_heartbeat_ts = excluded.last_heartbeat_ts,
  updated_at = excluded.updated_at

-- name: put_offset
INSERT INTO agentic_session_offsets (path, session_id, byte_offset, inode, device, size_at_last_read, updated_at)
VALUES (:path, :session_id, :size, :inode, :device, :size, :now)
ON CONFLICT (path) DO UPDATE SET session_id = excluded.session_id, byte_offset = excluded.byte_offset, inode = excluded.inode,
  device = excluded.device, size_at_last_read = excluded.size_at_last_read, updated_at = excluded.updated_at

-- name: put_cursor
INSERT INTO agentic_cursor (source_key, last_seen_updated_at, last_id, updated_at) VALUES (:key, :mtime, :last_id, :now)
ON CONFLICT (source_key) DO UPDATE SET last_seen_updated_at = excluded.last_seen_updated_at, last_id = excluded.last_id,
  updated_at = excluded.updated_at

-- name: any_forgotten
SELECT 1 FROM tk_forgotten UNION ALL SELECT 1 FROM tk_forgotten_lines LIMIT 1

-- name: is_forgotten
SELECT 1 FROM tk_forgotten WHERE harness = :harness AND session_id = :session_id

-- ------------------------------------------------------------------ reading

-- piece: session
s.id, s.harness, s.session_id, s.parent_session_id, s.is_subagent, s.hidden, s.title, s.agent, s.model, s.cwd, s.project, s.git_branch,
s.slug, s.version, s.first_prompt, s.started_at, s.ended_at, s.entries, s.prompts, s.tool_calls, s.errors

-- name: sessions_by_id
SELECT {session} FROM tk_sessions AS s
WHERE s.session_id >= :low AND s.session_id < :high AND (CAST(:agents AS TEXT) IS NULL OR s.harness IN ({texts:agents}))
ORDER BY s.session_id, s.id LIMIT :limit

-- name: children_of
SELECT {session} FROM tk_sessions AS s WHERE s.parent_session_id = :session_id AND s.harness = :harness ORDER BY s.started_at NULLS FIRST, s.id

-- piece: entry
e.id, e.session, e.key, e.log_id, e.line, e.part, e.role, e.kind, e.at, e.tool, e.error, e.hash

-- name: entries_of
SELECT {entry} FROM tk_entries AS e WHERE e.session = :session ORDER BY e.log_id, e.line, e.part

-- name: block_at
SELECT b.first_line, b.block_id, l.reader FROM tk_log_blocks AS b JOIN tk_logs AS l ON l.id = b.log_id
WHERE b.log_id = :log AND b.first_line <= :line ORDER BY b.first_line DESC LIMIT 1

-- name: source_totals
SELECT harness, count(*), sum(lines), sum(bad_lines), sum(source_bytes), count(gone_at), sum(excluded), count(error), max(captured_at)
FROM tk_logs WHERE item != '' OR lines > 0 OR excluded != 0 OR error IS NOT NULL GROUP BY harness ORDER BY harness

-- name: session_totals
SELECT harness, count(*), sum(entries) FROM tk_sessions WHERE entries > 0 GROUP BY harness

-- name: unknown_records
SELECT u.harness, u.kind, u.count, u.last_seen, l.path FROM tk_unknown AS u LEFT JOIN tk_logs AS l ON l.id = u.log_id
ORDER BY u.harness, u.count DESC, u.kind

-- name: session_totals_of
SELECT 1 FROM tk_sessions WHERE harness = :harness LIMIT 1
