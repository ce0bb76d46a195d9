-- What a server knows since version 16.

CREATE FUNCTION json_valid(value text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$SELECT value IS JSON$$;
