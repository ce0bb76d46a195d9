-- What of a home's own tables a member may see and change. The tables of the stores have the same four rules each; see tables.py.

ALTER TABLE {home}.tk_members ENABLE ROW LEVEL SECURITY;
ALTER TABLE {home}.tk_scopes ENABLE ROW LEVEL SECURITY;
ALTER TABLE {home}.tk_shares ENABLE ROW LEVEL SECURITY;
ALTER TABLE {home}.tk_begun ENABLE ROW LEVEL SECURITY;
CREATE POLICY see ON {home}.tk_members FOR SELECT USING (true);
CREATE POLICY see ON {home}.tk_scopes FOR SELECT USING (id = ANY (CAST((SELECT {home}.tk_visible()) AS bigint[])));
CREATE POLICY own ON {home}.tk_scopes FOR ALL USING (owner = (SELECT {home}.tk_me()));
CREATE POLICY own ON {home}.tk_shares FOR ALL USING (scope = ANY (CAST((SELECT {home}.tk_mine()) AS bigint[])));
CREATE POLICY own ON {home}.tk_begun FOR ALL USING (owner = (SELECT {home}.tk_me()));
