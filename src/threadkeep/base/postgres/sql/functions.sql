-- Functions that SQLite has built in and queries use, made once in the schema of a home. As there,
-- the greater or the smaller of two values is NULL if one of them is: greatest() would skip it.

CREATE FUNCTION max(a bigint, b bigint) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$SELECT CASE WHEN a >= b THEN a WHEN a < b THEN b END$$;
CREATE FUNCTION max(a double precision, b double precision) RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$SELECT CASE WHEN a >= b THEN a WHEN a < b THEN b END$$;
CREATE FUNCTION max(a text, b text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$SELECT CASE WHEN a >= b THEN a WHEN a < b THEN b END$$;
CREATE FUNCTION min(a bigint, b bigint) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$SELECT CASE WHEN a <= b THEN a WHEN a > b THEN b END$$;
CREATE FUNCTION min(a double precision, b double precision) RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$SELECT CASE WHEN a <= b THEN a WHEN a > b THEN b END$$;
CREATE FUNCTION min(a text, b text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$SELECT CASE WHEN a <= b THEN a WHEN a > b THEN b END$$;

-- Where a text begins in another, from 1; 0 if nowhere.
CREATE FUNCTION instr(whole text, part text) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$SELECT strpos(whole, part)$$;

-- JSON is kept as text: what is no JSON is asked for with json_valid() first.
CREATE FUNCTION json_extract(value text, path text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$SELECT jsonb_path_query_first(CAST(value AS jsonb), CAST(path AS jsonpath)) #>> '{}'$$;

-- The local day of a time in seconds, as YYYY-MM-DD: the modifiers are always these two.
CREATE FUNCTION date(at double precision, unixepoch text, localtime_ text) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
AS $$SELECT to_char(to_timestamp(at), 'YYYY-MM-DD')$$;

-- A column of texts holds nothing else here.
CREATE FUNCTION typeof(value text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$SELECT 'text'$$;

-- How many values a JSON list has; anything else has none.
CREATE FUNCTION json_array_length(value text) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$SELECT CASE json_typeof(CAST(value AS json)) WHEN 'array' THEN json_array_length(CAST(value AS json)) ELSE 0 END$$;
