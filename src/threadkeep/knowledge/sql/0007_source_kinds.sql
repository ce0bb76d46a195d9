-- Events that agents' tools made, beside those of the shell.
CREATE INDEX IF NOT EXISTS idx_events_source_kind ON events (source_kind) WHERE source_kind != 'shell';
