-- Who is asking, and what may be seen. The functions name the schema in their text, so a home that is renamed gets them again.

-- Neither setting can be forged: `role` changes by SET ROLE alone, which asks for membership. A revoked member is nobody.
CREATE OR REPLACE FUNCTION {home}.tk_me() RETURNS bigint
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$BEGIN RETURN (SELECT id FROM {home}.tk_members WHERE revoked_at IS NULL
  AND role = CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role') END); END$$;

-- The scopes that the one who asks may write, and those that he may read.
CREATE OR REPLACE FUNCTION {home}.tk_mine() RETURNS bigint[]
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$BEGIN RETURN (SELECT coalesce(array_agg(id), '{}') FROM {home}.tk_scopes WHERE owner = {home}.tk_me()); END$$;
CREATE OR REPLACE FUNCTION {home}.tk_visible() RETURNS bigint[]
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$DECLARE me bigint := {home}.tk_me(); BEGIN
  IF me IS NULL THEN RETURN '{}'; END IF;
  RETURN (SELECT coalesce(array_agg(s.id), '{}') FROM {home}.tk_scopes AS s WHERE s.owner = me OR s.everyone
    OR EXISTS (SELECT 1 FROM {home}.tk_shares AS h WHERE h.scope = s.id AND h.member = me));
END$$;
