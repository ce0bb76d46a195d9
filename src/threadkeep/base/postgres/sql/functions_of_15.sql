-- The same for servers before version 16, slower.

CREATE FUNCTION json_valid(value text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE STRICT
AS $$BEGIN PERFORM CAST(value AS json); RETURN true; EXCEPTION WHEN invalid_text_representation THEN RETURN false; END$$;
