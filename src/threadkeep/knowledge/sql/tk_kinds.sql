-- These keep the index right whoever writes the file; kinds.py says what stands for each word in <>. They name no table but
-- their own and ours: a table that another program rebuilds takes its triggers with it, and one that a trigger elsewhere named
-- could not be renamed into its place.
CREATE TRIGGER IF NOT EXISTS tk_<indexed>_changed AFTER UPDATE OF <watched> ON <table>
WHEN (<before>) IS NOT (<after>) BEGIN
  DELETE FROM tk_things WHERE kind = '<indexed>' AND row = OLD.id;
  INSERT INTO tk_stale (kind, row) SELECT '<indexed>', NEW.id WHERE NOT EXISTS (SELECT 1 FROM tk_stale WHERE kind = '<indexed>' AND row = NEW.id);
END;
CREATE TRIGGER IF NOT EXISTS tk_<indexed>_gone AFTER DELETE ON <ordered> BEGIN
  DELETE FROM tk_things WHERE kind = '<indexed>' AND row = OLD.id;
  UPDATE tk_indexed SET upto = (SELECT coalesce(max(id), 0) FROM <ordered>)
  WHERE kind = '<indexed>' AND upto > (SELECT coalesce(max(id), 0) FROM <ordered>);
END;
