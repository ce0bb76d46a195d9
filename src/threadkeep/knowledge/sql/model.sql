-- What a model was asked, and what it used.

-- name: model_day_total
SELECT coalesce(sum(input_tokens + output_tokens), 0) FROM tk_model_days WHERE day = :day

-- name: model_day_add
INSERT INTO tk_model_days (day, model, purpose, calls, failures, input_tokens, output_tokens, updated_at)
VALUES (:day, :model, :purpose, max(CAST(:calls AS INTEGER), 0), max(CAST(:failures AS INTEGER), 0),
  max(CAST(:input AS INTEGER), 0), max(CAST(:output AS INTEGER), 0), :now)
ON CONFLICT (day, model, purpose) DO UPDATE SET calls = max(tk_model_days.calls + :calls, 0),
  failures = max(tk_model_days.failures + :failures, 0), input_tokens = max(tk_model_days.input_tokens + :input, 0),
  output_tokens = max(tk_model_days.output_tokens + :output, 0), updated_at = :now

-- name: model_days
SELECT day, model, purpose, calls, failures, input_tokens, output_tokens FROM tk_model_days WHERE day >= :since AND day <= :until ORDER BY day, model, purpose

-- name: model_trouble
SELECT failures, last_at, message FROM tk_model_troubles WHERE endpoint = :endpoint

-- name: model_failed
INSERT INTO tk_model_troubles (endpoint, failures, last_at, message) VALUES (:endpoint, 1, :now, :message)
ON CONFLICT (endpoint) DO UPDATE SET failures = tk_model_troubles.failures + 1, last_at = excluded.last_at, message = excluded.message

-- name: model_answered
DELETE FROM tk_model_troubles WHERE endpoint = :endpoint

-- name: failed_look
SELECT consecutive_failures, last_error_ts, last_error_msg FROM source_health
WHERE source = :source AND consecutive_failures > 0 AND last_error_ts IS NOT NULL AND instr(last_error_msg, :endpoint) > 0

-- name: model_refused
SELECT 1 FROM tk_model_refused WHERE digest = :digest AND model = :model AND at >= :oldest

-- name: refuse_model
INSERT INTO tk_model_refused (digest, model, reason, at) VALUES (:digest, :model, :reason, :now)
ON CONFLICT (digest, model) DO UPDATE SET reason = excluded.reason, at = excluded.at

-- name: drop_old_refusals
DELETE FROM tk_model_refused WHERE at < :oldest
