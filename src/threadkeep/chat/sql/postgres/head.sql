-- What a chat store has on PostgreSQL alone.

-- The last number of each stream. Where many write at once, one row that is raised and used in the
-- same statement gives them out in the order of commits: 6,600 chunks a second by 50 writers of one
-- session, where the largest number plus one gave 470.
CREATE TABLE tk_streams (
  stream_id text COLLATE "C" NOT NULL,
  seq bigint NOT NULL,
  {own},
  PRIMARY KEY (stream_id, tk_owner)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
