-- Let the transaction commit before it is on disk. Not if a standby has to have it, too: a commit waits for that.
-- is: sql
CREATE OR REPLACE FUNCTION {schema}.commit_early() RETURNS text
RETURN CASE current_setting('synchronous_standby_names') WHEN '' THEN set_config('synchronous_commit', 'off', TRUE) END;
