-- An alarm that went away by itself is no longer active.
DROP INDEX IF EXISTS idx_capture_alarms_invariant_active;
CREATE INDEX idx_capture_alarms_invariant_active ON capture_alarms (invariant_id, acked_at)
  WHERE acked_at IS NULL AND resolved_at IS NULL;
