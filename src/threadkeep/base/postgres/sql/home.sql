-- What every home has beside the tables of its stores, in a schema of its own: who is a member, what each may see, and
-- which version each store has. `{home}` is the name of the schema.

CREATE TABLE {home}.tk_home (
  owner_role text,                          -- owns the tables; NULL where the login that made them does
  member_role text,                         -- has the rights on them; NULL where the login may make no roles
  made_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE {home}.tk_versions (
  store text PRIMARY KEY,
  version bigint NOT NULL
);
CREATE TABLE {home}.tk_members (
  id bigint PRIMARY KEY,                    -- random: a small one could be guessed
  role text NOT NULL UNIQUE,                -- the login, or the role that a gateway takes
  name text NOT NULL,
  revoked_at bigint                         -- epoch milliseconds; from then on nothing is seen
);
-- A scope is what is shared as one: the rows of one owner, or of one project of one owner.
CREATE TABLE {home}.tk_scopes (
  id bigint PRIMARY KEY,                    -- random, too
  owner bigint NOT NULL REFERENCES {home}.tk_members (id),
  project text NOT NULL,                    -- empty: what belongs to none
  everyone boolean NOT NULL DEFAULT false,  -- shared with all members
  channel text NOT NULL DEFAULT 'tk_' || replace(CAST(gen_random_uuid() AS text), '-', ''),
  UNIQUE (owner, project)
);
CREATE TABLE {home}.tk_shares (
  scope bigint NOT NULL REFERENCES {home}.tk_scopes (id) ON DELETE CASCADE,
  member bigint NOT NULL REFERENCES {home}.tk_members (id),
  PRIMARY KEY (scope, member)
);
-- For which members the rows that a store begins with are there.
CREATE TABLE {home}.tk_begun (
  store text NOT NULL,
  owner bigint NOT NULL REFERENCES {home}.tk_members (id),
  PRIMARY KEY (store, owner)
);
