-- Sessions: where a conversation goes on, which of them a list shows, and what it shows of them.
-- In the pieces `s` is the session, `p` its parent, `r` what we were told of the two; `:marked` is 1 where children
-- without a mark in model_config are continuations, 0 in a file of version 6, where their times must tell.

-- piece: branched_from
CASE WHEN json_valid(s.model_config) THEN json_extract({json:s.model_config}, '$._branched_from') END

-- piece: delegate_from
CASE WHEN json_valid(s.model_config) THEN json_extract({json:s.model_config}, '$._delegate_from') END

-- piece: reset_from
CASE WHEN json_valid(s.model_config) THEN json_extract({json:s.model_config}, '$._reset_from') END

-- piece: reset_child
-- Before there was a mark: the conversation of the same messenger key went on after a reset of its parent.
(s.session_key <> '' AND s.session_key = p.session_key AND p.end_reason IN (
  'session_reset', 'session_switch', 'idle', 'daily', 'suspended', 'resume_pending_expired'))

-- piece: continues
(p.end_reason = 'compression' AND CASE
  WHEN r.kind IS NOT NULL THEN r.kind = 'compression'
  WHEN {branched_from} IS NOT NULL OR {delegate_from} IS NOT NULL THEN false
  WHEN :marked THEN s.source IS DISTINCT FROM 'tool' ELSE s.started_at >= p.ended_at END)

-- piece: continues_in_lineage
-- A continuation inherits the settings of a branch or delegate with their marks: these name another parent.
(p.end_reason = 'compression' AND CASE
  WHEN r.kind IS NOT NULL THEN r.kind = 'compression'
  WHEN {branched_from} IS NOT DISTINCT FROM p.id OR {delegate_from} IS NOT DISTINCT FROM p.id OR s.source IS NOT DISTINCT FROM 'tool' THEN false
  WHEN :marked THEN true ELSE s.started_at >= p.ended_at END)

-- piece: last_message
(SELECT max(m.timestamp) FROM messages m WHERE m.session_id = s.id)

-- piece: last_active
-- The later of heartbeat and newest message, either of which may be missing.
coalesce(max(coalesce(s.last_activity_at, {last_message}), coalesce({last_message}, s.last_activity_at)), s.started_at)

-- piece: listed
-- Roots, branches and what began after a reset; other children only when asked for.
(:children OR s.parent_session_id IS NULL OR r.kind = 'branch'
    OR {branched_from} IS NOT NULL OR {reset_from} IS NOT NULL OR (:marked AND EXISTS (
      SELECT 1 FROM full.sessions p WHERE p.id = s.parent_session_id
      AND (p.end_reason = 'branched' AND s.started_at >= p.ended_at OR {reset_child}))))
  AND (:children OR {delegate_from} IS NULL)
  AND (CAST(:sources AS TEXT) IS NULL OR s.source IN ({texts:sources}))
  AND (CAST(:excluded AS TEXT) IS NULL OR s.source NOT IN ({texts:excluded}))
  AND (CAST(:session_key AS TEXT) IS NULL OR s.session_key = :session_key)
  AND (CAST(:cwd AS TEXT) IS NULL OR s.cwd = :cwd OR s.cwd LIKE :below ESCAPE '\' OR s.cwd LIKE :below_windows ESCAPE '\')
  AND (CAST(:least AS INTEGER) <= 0 OR s.message_count >= :least)
  AND (CAST(:archived AS INTEGER) IS NULL OR s.archived = :archived)
  AND (:hidden OR s.hidden = 0)

-- ---------------------------------------------------------------- lineage

-- name: continuation
-- Of several, one that goes on itself or is still open; then the one used last. In version 6 the newest.
SELECT s.id FROM full.sessions s JOIN full.sessions p ON p.id = s.parent_session_id
LEFT JOIN full.tk_relations r ON r.session_id = s.id
WHERE s.parent_session_id = :id AND {continues}
ORDER BY CASE WHEN NOT :marked THEN NULL WHEN s.end_reason = 'compression' THEN 0 WHEN s.ended_at IS NULL THEN 1 ELSE 2 END,
  CASE WHEN :marked THEN {last_active} END DESC, s.started_at DESC, CASE WHEN :marked THEN s.id END DESC
LIMIT 1;

-- name: continuations
SELECT s.id FROM full.sessions s JOIN full.sessions p ON p.id = s.parent_session_id
LEFT JOIN full.tk_relations r ON r.session_id = s.id
WHERE s.parent_session_id = :id AND {continues};

-- name: continued
SELECT p.id FROM full.sessions s JOIN full.sessions p ON p.id = s.parent_session_id
LEFT JOIN full.tk_relations r ON r.session_id = s.id
WHERE s.id = :id AND {continues};

-- name: lineage_parent
SELECT p.id FROM full.sessions s JOIN full.sessions p ON p.id = s.parent_session_id
LEFT JOIN full.tk_relations r ON r.session_id = s.id
WHERE s.id = :id AND {continues_in_lineage};

-- name: lineage_child
SELECT s.id FROM full.sessions s JOIN full.sessions p ON p.id = s.parent_session_id
LEFT JOIN full.tk_relations r ON r.session_id = s.id
WHERE s.parent_session_id = :id AND {continues_in_lineage}
ORDER BY CASE WHEN :marked THEN s.started_at END, s.started_at DESC LIMIT 1;

-- name: is_fork
-- A branch, a delegate or a tool's session of its parent; without a parent any mark counts.
SELECT 1 FROM sessions s WHERE s.id = :id AND (s.source = 'tool'
  OR ({branched_from}) = coalesce(s.parent_session_id, {branched_from})
  OR ({delegate_from}) = coalesce(s.parent_session_id, {delegate_from}));

-- name: plain_child
-- The newest child that is neither a branch nor a delegate nor what began after a reset.
SELECT s.id FROM full.sessions s JOIN full.sessions p ON p.id = s.parent_session_id
LEFT JOIN full.tk_relations r ON r.session_id = s.id
WHERE s.parent_session_id = :id AND coalesce(r.kind, '') NOT IN ('branch', 'delegate')
  AND {branched_from} IS NULL AND {delegate_from} IS NULL AND {reset_from} IS NULL
  AND NOT coalesce({reset_child}, false) AND s.source IS DISTINCT FROM 'tool'
ORDER BY s.started_at DESC, s.id DESC LIMIT 1;

-- name: any_message
SELECT 1 FROM messages WHERE session_id = :session_id LIMIT 1;

-- name: parent_of
SELECT parent_session_id FROM sessions WHERE id = :id;

-- piece: family_member
s.id, s.parent_session_id, s.title, s.source, s.started_at, s.ended_at, s.end_reason, s.message_count,
  CASE WHEN s.parent_session_id IS NULL THEN r.kind
    WHEN {branched_from} = s.parent_session_id THEN 'branch'
    WHEN {delegate_from} = s.parent_session_id THEN 'delegate'
    WHEN {reset_from} = s.parent_session_id THEN 'reset' ELSE r.kind END

-- name: family_member
SELECT {family_member}
FROM sessions s LEFT JOIN full.tk_relations r ON r.session_id = s.id WHERE s.id = :id;

-- name: family_member_children
SELECT {family_member}
FROM sessions s LEFT JOIN full.tk_relations r ON r.session_id = s.id
WHERE s.parent_session_id = :id ORDER BY s.started_at, s.id;

-- name: delegates_of
-- Those that lost their parent are found by reading all sessions: only where there may be such.
SELECT s.id FROM sessions s WHERE :lost_too AND {delegate_from} = :id
UNION SELECT s.id FROM sessions s WHERE s.parent_session_id = :id AND {delegate_from} IS NOT NULL;

-- name: stored_session
SELECT * FROM sessions WHERE id = :id;

-- name: model_config_of
SELECT model_config FROM sessions WHERE id = :id;

-- name: end_of_session
SELECT ended_at, end_reason FROM sessions WHERE id = :id;

-- name: title_and_source
SELECT s.title, s.title_source FROM full.sessions s WHERE s.id = :id;

-- name: compressed_family
-- Whatever hangs on a session by compressions, up and down.
WITH RECURSIVE up(id) AS (
  SELECT id FROM sessions WHERE id = :id UNION SELECT p.id FROM up JOIN sessions s ON s.id = up.id
  JOIN sessions p ON p.id = s.parent_session_id WHERE p.end_reason = 'compression'),
down(id) AS (
  SELECT id FROM sessions WHERE id = :id UNION SELECT s.id FROM down JOIN sessions p ON p.id = down.id
  JOIN sessions s ON s.parent_session_id = p.id WHERE p.end_reason = 'compression')
SELECT s.id FROM sessions s WHERE s.id IN (SELECT id FROM up UNION SELECT id FROM down);

-- name: compressed_ancestors
WITH RECURSIVE up(id) AS (
  SELECT id FROM sessions WHERE id = :id UNION SELECT p.id FROM up JOIN sessions s ON s.id = up.id
  JOIN sessions p ON p.id = s.parent_session_id WHERE p.end_reason = 'compression')
SELECT id FROM up WHERE id <> :id;

-- name: unmarked_reset_children
SELECT s.id FROM full.sessions s JOIN full.sessions p ON p.id = s.parent_session_id
WHERE s.parent_session_id = :id AND {reset_from} IS NULL AND {reset_child};

-- ---------------------------------------------------------------- prompts

-- name: put_prompt
INSERT INTO system_prompts(hash, prompt) VALUES (:hash, :prompt) ON CONFLICT DO NOTHING;

-- name: drop_unused_prompts
DELETE FROM system_prompts
WHERE NOT EXISTS (SELECT 1 FROM sessions s WHERE s.system_prompt_hash = system_prompts.hash);

-- ---------------------------------------------------------------- lists

-- name: list_by_start
SELECT s.started_at, s.id FROM full.sessions s LEFT JOIN full.tk_relations r ON r.session_id = s.id
WHERE {listed}
ORDER BY s.started_at DESC LIMIT :limit;


-- name: list_source_by_start
SELECT s.started_at, s.id FROM full.sessions s LEFT JOIN full.tk_relations r ON r.session_id = s.id
WHERE s.source = :source AND {listed}
ORDER BY s.started_at DESC LIMIT :limit;

-- name: list_pinned
SELECT s.id FROM full.sessions s LEFT JOIN full.tk_relations r ON r.session_id = s.id
WHERE s.pinned = 1 AND {listed}
ORDER BY s.started_at DESC;

-- name: list_some
-- Those of some sessions that belong into the list.
SELECT s.id FROM full.sessions s LEFT JOIN full.tk_relations r ON r.session_id = s.id
WHERE s.id IN ({texts:ids}) AND {listed}
ORDER BY s.started_at DESC, s.id DESC;

-- name: list_row
SELECT s.*, {last_active} AS last_active FROM full.sessions s WHERE s.id = :id;

-- name: ids_with
-- A pattern of LIKE would end at NUL in SQLite, and be refused when it is long.
SELECT id FROM sessions WHERE instr(lower(id), :needle) > 0;

-- name: ids_or_titles_with
-- Also without punctuation: `an94` finds `AN-94`.
SELECT id FROM sessions WHERE instr(lower(id), :needle) > 0 OR instr(lower(title), :needle) > 0
  OR (:bare <> ''
    AND instr(replace(replace(replace(replace(lower(title), '-', ''), '_', ''), '.', ''), ' ', ''), :bare) > 0);

-- name: first_user_text
-- Of the long text of a skill also the end: what was typed stands behind the skill.
SELECT substr(m.content, 1, 800),
  CASE WHEN m.content LIKE '[IMPORTANT: The user has invoked the %' AND length(m.content) > 800
    THEN substr(m.content, -400) END
FROM messages m
WHERE m.session_id = :session_id AND m.role = 'user' AND m.content IS NOT NULL
ORDER BY m.timestamp, m.id LIMIT 1;

-- name: first_source
SELECT min(source) FROM sessions;

-- name: next_source
SELECT min(source) FROM sessions WHERE source > :source;

-- name: count_some
SELECT count(*) FROM (SELECT 1 FROM sessions WHERE source = :source LIMIT :limit);

-- name: sessions_by_activity
SELECT s.*, {last_active} AS last_active FROM full.sessions s
WHERE (CAST(:source AS TEXT) IS NULL OR s.source = :source)
  AND (CAST(:workspace AS TEXT) IS NULL OR s.git_repo_root = :workspace OR (coalesce(s.git_repo_root, '') = ''
    AND (s.cwd = :workspace OR s.cwd LIKE :below ESCAPE '\' OR s.cwd LIKE :below_windows ESCAPE '\')))
ORDER BY CASE WHEN :recent THEN {last_active} END DESC, s.started_at DESC, CASE WHEN :recent THEN s.id END DESC
LIMIT :limit OFFSET :offset;

-- name: cron_runs
SELECT s.id FROM sessions s WHERE s.source = 'cron' AND s.id >= :first AND s.id < :behind
ORDER BY s.started_at DESC, s.id DESC LIMIT :limit OFFSET :offset;

-- ---------------------------------------------------------------- counts

-- name: count_listed
SELECT count(*) FROM full.sessions s LEFT JOIN full.tk_relations r ON r.session_id = s.id WHERE {listed};

-- name: count_listed_by_source
SELECT coalesce(nullif(s.source, ''), 'cli'), count(*)
FROM full.sessions s LEFT JOIN full.tk_relations r ON r.session_id = s.id WHERE {listed}
GROUP BY 1 ORDER BY 2 DESC, 1;

-- name: count_sessions
SELECT count(*) FROM sessions;

-- name: some_sessions
SELECT 1 FROM sessions LIMIT :limit;

-- ---------------------------------------------------------------- activity

-- name: activity_of
SELECT CAST({last_active} AS REAL) FROM full.sessions s WHERE s.id = :id;

-- name: all_activity
SELECT s.id, CAST({last_active} AS REAL) FROM full.sessions s;

-- name: heartbeats
SELECT s.id, CAST({last_active} AS REAL) FROM full.sessions s WHERE s.last_activity_at IS NOT NULL;

-- name: heartbeat_of
SELECT s.last_activity_at, s.last_activity_description, s.last_activity_provenance
FROM full.sessions s WHERE s.id = :id;

-- name: last_messages_of
SELECT m.session_id, m.role, m.tool_calls IS NOT NULL, m.finish_reason FROM messages m
WHERE m.id IN (SELECT (SELECT max(x.id) FROM messages x WHERE x.session_id = w.value) FROM ({texts:ids}) w);

-- ---------------------------------------------------------------- folders

-- name: workspace_of
SELECT s.cwd, s.git_metadata_generation FROM full.sessions s WHERE s.id = :id;

-- name: sessions_without_root
SELECT s.id FROM full.sessions s WHERE s.cwd = :cwd AND coalesce(s.git_repo_root, '') = '';

-- name: folders_of_sessions
SELECT s.cwd AS cwd, count(*) AS sessions, max(coalesce(s.ended_at, s.started_at, 0)) AS last_active
FROM full.sessions s WHERE trim(s.cwd) <> '' AND (:archived OR s.archived = 0) GROUP BY s.cwd;

-- ---------------------------------------------------------------- first texts

-- name: begun_with_skill
SELECT s.id, s.title, m.content FROM sessions s JOIN messages m ON m.id = (
  SELECT x.id FROM messages x WHERE x.session_id = s.id AND x.role = 'user' AND x.content IS NOT NULL
  ORDER BY x.timestamp, x.id LIMIT 1)
WHERE s.title IS NOT NULL AND m.content LIKE '[IMPORTANT: The user has invoked the %'
ORDER BY s.started_at DESC LIMIT :limit;

-- name: first_assistant_text
SELECT m.content FROM messages m
WHERE m.session_id = :session_id AND m.role = 'assistant' AND m.content IS NOT NULL
ORDER BY m.timestamp, m.id LIMIT 1;

-- ---------------------------------------------------------------- processes that serve sessions

-- name: put_backend
INSERT INTO gateway_heartbeats(backend_id, pid, started_at, last_heartbeat, profile, host)
VALUES (:backend_id, :pid, :started_at, :last_heartbeat, :profile, :host)
ON CONFLICT(backend_id) DO UPDATE SET pid = excluded.pid, started_at = excluded.started_at,
  last_heartbeat = excluded.last_heartbeat, profile = excluded.profile, host = excluded.host;

-- name: drop_backend
DELETE FROM gateway_heartbeats WHERE backend_id = :id;

-- name: stale_backends
SELECT b.backend_id FROM full.gateway_heartbeats b WHERE b.last_heartbeat < :cutoff;

-- name: backends
SELECT b.backend_id, b.pid, b.started_at, b.last_heartbeat, b.profile, b.host
FROM full.gateway_heartbeats b ORDER BY b.last_heartbeat DESC;

-- name: idle_open_sessions
-- A process may have the sessions that began after it did, or shortly before.
SELECT s.id FROM full.sessions s
WHERE s.ended_at IS NULL AND s.started_at < :cutoff AND {last_active} < :cutoff
  AND s.source IN ({texts:sources}) AND (:pinned_too OR s.pinned = 0)
  AND (:any_backend OR NOT EXISTS (SELECT 1 FROM full.gateway_heartbeats b
    WHERE b.last_heartbeat >= :heard_since AND b.started_at <= s.started_at + :grace));

-- name: drop_compression_lock
DELETE FROM compression_locks WHERE session_id = :session_id;

-- name: drop_turn_lease
DELETE FROM session_turn_leases WHERE conversation_id = :conversation_id;

-- name: goes_on_in_child
SELECT 1 FROM sessions s WHERE s.parent_session_id = :id AND s.source IS DISTINCT FROM 'tool'
  AND {branched_from} IS DISTINCT FROM :id AND {delegate_from} IS DISTINCT FROM :id AND {reset_from} IS DISTINCT FROM :id LIMIT 1;
