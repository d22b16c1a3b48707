-- A message that was set aside as a request, and put back, may be set aside again.
CREATE TRIGGER untell_asker AFTER DELETE ON {schema}.aside
REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION {schema}.untell_asker();
ALTER TABLE {schema}.aside ENABLE ALWAYS TRIGGER untell_asker;

DELETE FROM {schema}.replies AS told
WHERE told.entry_id > 0 AND NOT EXISTS (SELECT FROM {schema}.aside AS one WHERE one.entry_id = told.entry_id);
