-- What knowledge has on PostgreSQL alone: numbers of rows where SQLite has its `rowid`, and the host that a log and a session are from.

CREATE SEQUENCE sha_watchlist_id_seq;
ALTER TABLE sha_watchlist ADD COLUMN id bigint NOT NULL DEFAULT nextval('sha_watchlist_id_seq');
ALTER SEQUENCE sha_watchlist_id_seq OWNED BY sha_watchlist.id;
CREATE SEQUENCE lesson_pending_id_seq;
ALTER TABLE lesson_pending ADD COLUMN id bigint NOT NULL DEFAULT nextval('lesson_pending_id_seq');
ALTER SEQUENCE lesson_pending_id_seq OWNED BY lesson_pending.id;
CREATE SEQUENCE source_health_id_seq;
ALTER TABLE source_health ADD COLUMN id bigint NOT NULL DEFAULT nextval('source_health_id_seq');
ALTER SEQUENCE source_health_id_seq OWNED BY source_health.id;
CREATE SEQUENCE tk_orphans_id_seq;
ALTER TABLE tk_orphans ADD COLUMN id bigint NOT NULL DEFAULT nextval('tk_orphans_id_seq');
ALTER SEQUENCE tk_orphans_id_seq OWNED BY tk_orphans.id;

-- Logs of two hosts often have the same path.
ALTER TABLE tk_logs ADD COLUMN host text COLLATE "C" NOT NULL DEFAULT coalesce(current_setting('tk.host', true), '');
DROP INDEX tk_logs_place;
CREATE UNIQUE INDEX tk_logs_place ON tk_logs (reader, path, item, host, tk_owner);
-- Who captured it first.
ALTER TABLE tk_sessions ADD COLUMN hostname text COLLATE "C" NOT NULL DEFAULT coalesce(current_setting('tk.host', true), '');
ALTER TABLE tk_sessions ADD COLUMN username text COLLATE "C" NOT NULL DEFAULT coalesce(current_setting('tk.user', true), '');
