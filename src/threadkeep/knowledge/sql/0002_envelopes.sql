-- The same envelope twice is one event.
CREATE UNIQUE INDEX IF NOT EXISTS idx_events_envelope_id ON events (envelope_id) WHERE envelope_id IS NOT NULL;
