-- Named queries of the index of mailboxes; columns come in the order of the records.

-- piece: agent_group
id, name, folder, agent_provider, created_at

-- piece: messaging_group
id, channel_type, platform_id, name, is_group, created_at

-- piece: wiring
id, messaging_group_id, agent_group_id, session_mode, priority, created_at

-- piece: session
id, agent_group_id, messaging_group_id, thread_id, agent_provider, status, container_status,
  last_active, created_at

-- piece: question
question_id, session_id, message_out_id, platform_id, channel_type, thread_id, title, options_json,
  created_at

-- ---------------------------------------------------------------- agent groups

-- name: insert_agent_group
INSERT INTO agent_groups(id, name, folder, agent_provider, created_at)
VALUES (:id, :name, :folder, :agent_provider, :now);

-- name: get_agent_group
SELECT {agent_group} FROM agent_groups WHERE id = :id;

-- name: agent_groups_named
SELECT {agent_group} FROM agent_groups WHERE name = :name ORDER BY created_at, rowid;

-- name: list_agent_groups
SELECT {agent_group} FROM agent_groups ORDER BY created_at, rowid;

-- name: get_zone
SELECT zone FROM agent_groups WHERE id = :id;

-- name: set_zone
UPDATE agent_groups SET zone = :zone WHERE id = :id;

-- name: agent_folders
SELECT folder FROM agent_groups;

-- ---------------------------------------------------------------- chats

-- name: insert_messaging_group
INSERT INTO messaging_groups(id, channel_type, platform_id, name, is_group, created_at)
VALUES (:id, :channel_type, :platform_id, :name, :is_group, :now);

-- name: update_messaging_group
UPDATE messaging_groups SET name = :name, is_group = :is_group WHERE id = :id;

-- name: get_messaging_group
SELECT {messaging_group} FROM messaging_groups WHERE id = :id;

-- name: find_messaging_group
SELECT {messaging_group} FROM messaging_groups
WHERE channel_type = :channel_type AND platform_id = :platform_id;

-- name: list_messaging_groups
SELECT {messaging_group} FROM messaging_groups ORDER BY created_at, rowid;

-- ---------------------------------------------------------------- wirings

-- name: put_wiring
INSERT INTO messaging_group_agents(
  id, messaging_group_id, agent_group_id, session_mode, priority, created_at)
VALUES (:id, :messaging_group_id, :agent_group_id, :session_mode, :priority, :now)
ON CONFLICT(messaging_group_id, agent_group_id)
DO UPDATE SET session_mode = excluded.session_mode, priority = excluded.priority;

-- name: get_wiring
SELECT {wiring} FROM messaging_group_agents
WHERE messaging_group_id = :messaging_group_id AND agent_group_id = :agent_group_id;

-- name: wirings_of
SELECT {wiring} FROM messaging_group_agents
WHERE messaging_group_id = (
  SELECT id FROM messaging_groups
  WHERE channel_type = :channel_type AND platform_id = :platform_id)
ORDER BY priority DESC, created_at, rowid;

-- ---------------------------------------------------------------- sessions

-- name: insert_session
INSERT INTO sessions(
  id, agent_group_id, messaging_group_id, thread_id, agent_provider, status, container_status,
  last_active, created_at)
VALUES (
  :id, :agent_group_id, :messaging_group_id, :thread_id, :agent_provider, 'active', 'stopped',
  NULL, :now);

-- name: get_session
SELECT {session} FROM sessions WHERE id = :id;

-- name: active_session_at
SELECT {session} FROM sessions
WHERE agent_group_id = :agent_group_id
  AND ifnull(messaging_group_id, '') = ifnull(:messaging_group_id, '')
  AND ifnull(thread_id, '') = ifnull(:thread_id, '')
  AND status = 'active';

-- name: newest_active_session
SELECT {session} FROM sessions
WHERE agent_group_id = :agent_group_id AND status = 'active'
ORDER BY created_at DESC, rowid DESC LIMIT 1;

-- name: list_sessions
-- One status, given twice, or both.
SELECT {session} FROM sessions
WHERE status IN (:status, :or_status)
  AND (CAST(:agent_group_id AS TEXT) IS NULL OR agent_group_id = :agent_group_id)
ORDER BY created_at, rowid;

-- name: set_session_status
UPDATE sessions SET status = :status WHERE id = :id;

-- name: set_container_status
UPDATE sessions SET container_status = :container_status WHERE id = :id;

-- name: touch_session
UPDATE sessions SET last_active = :now WHERE id = :id;

-- ---------------------------------------------------------------- destinations

-- name: insert_destination
INSERT INTO agent_destinations(agent_group_id, local_name, target_type, target_id, created_at)
VALUES (:agent_group_id, :local_name, :target_type, :target_id, :now);

-- name: delete_destination
DELETE FROM agent_destinations
WHERE agent_group_id = :agent_group_id AND local_name = :local_name;

-- name: destination_targets
SELECT local_name, target_type, target_id FROM agent_destinations
WHERE agent_group_id = :agent_group_id ORDER BY local_name;

-- name: list_destinations
-- A row whose target is gone joins neither table.
SELECT d.local_name, coalesce(m.name, a.name, d.local_name), d.target_type,
  m.channel_type, m.platform_id, a.id
FROM agent_destinations AS d
LEFT JOIN messaging_groups AS m ON d.target_type = 'channel' AND m.id = d.target_id
LEFT JOIN agent_groups AS a ON d.target_type = 'agent' AND a.id = d.target_id
WHERE d.agent_group_id = :agent_group_id AND (m.id IS NOT NULL OR a.id IS NOT NULL)
ORDER BY d.local_name;

-- name: may_send
SELECT EXISTS (
  SELECT 1 FROM agent_destinations AS d
  JOIN messaging_groups AS m ON m.id = d.target_id
  WHERE d.agent_group_id = :agent_group_id AND d.target_type = 'channel'
    AND m.channel_type = :channel_type AND m.platform_id = :platform_id);

-- name: may_reach_agent
SELECT EXISTS (
  SELECT 1 FROM agent_destinations AS d
  JOIN agent_groups AS a ON a.id = d.target_id
  WHERE d.agent_group_id = :source AND d.target_type = 'agent' AND a.id = :target);

-- ---------------------------------------------------------------- questions

-- name: insert_question
-- The first one stays: a mail that is sent again asks nothing new.
INSERT INTO pending_questions(
  question_id, session_id, message_out_id, platform_id, channel_type, thread_id, title,
  options_json, created_at)
VALUES (
  :question_id, :session_id, :message_out_id, :platform_id, :channel_type, :thread_id, :title,
  :options_json, :now)
ON CONFLICT(question_id) DO NOTHING;

-- name: get_question
SELECT {question} FROM pending_questions WHERE question_id = :question_id;

-- name: delete_question
DELETE FROM pending_questions WHERE question_id = :question_id;

-- name: delete_questions_of
DELETE FROM pending_questions WHERE session_id = :session_id;
