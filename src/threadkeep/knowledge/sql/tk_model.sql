-- What models were asked: tables of our own beside the contract's. Every statement can be run again.

-- What was used on a day. A call is written down with its estimate before it is made, and set right after it: nothing is free because a process died.
CREATE TABLE IF NOT EXISTS tk_model_days (
  day TEXT NOT NULL, -- in UTC, like 2026-11-16
  model TEXT NOT NULL, -- its name on the server
  purpose TEXT NOT NULL, -- enrich, answer
  calls INTEGER NOT NULL, -- requests that were sent, the failed ones and those made again included
  failures INTEGER NOT NULL, -- those of them without an answer that could be used
  input_tokens INTEGER NOT NULL, -- as the server counted, else our estimate
  output_tokens INTEGER NOT NULL, -- as the server counted, else our estimate; what is set aside while a call runs
  updated_at INTEGER NOT NULL, -- epoch milliseconds
  PRIMARY KEY (day, model, purpose)
) WITHOUT ROWID;

-- Servers whose last call failed: they are left alone for a while. A call that succeeds takes the row away.
CREATE TABLE IF NOT EXISTS tk_model_troubles (
  endpoint TEXT PRIMARY KEY, -- the address, without anything secret
  failures INTEGER NOT NULL, -- in a row
  last_at INTEGER NOT NULL, -- epoch milliseconds
  message TEXT NOT NULL -- stage, model, endpoint and what happened
) WITHOUT ROWID;

-- Evidence of which a model could make nothing: it is not asked for it again, as that would cost the same tokens each time.
CREATE TABLE IF NOT EXISTS tk_model_refused (
  digest TEXT NOT NULL, -- of the evidence: when it grows, it is asked for again
  model TEXT NOT NULL, -- another model may do better
  reason TEXT NOT NULL, -- what was wrong with its last answer
  at INTEGER NOT NULL, -- epoch milliseconds; rows of a quarter ago are dropped
  PRIMARY KEY (digest, model)
) WITHOUT ROWID;

-- Nodes that a model was asked to write better, whether or not it could; rows go after a while.
CREATE TABLE IF NOT EXISTS tk_model_tried (
  node INTEGER PRIMARY KEY,          -- row of knowledge_nodes
  at INTEGER NOT NULL
);
