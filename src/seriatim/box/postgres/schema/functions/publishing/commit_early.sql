-- The transaction commits before it is on disk. Not where a standby has to have it, too: that is waited for at a
-- commit.
-- is: sql
CREATE OR REPLACE FUNCTION {schema}.commit_early() RETURNS text
RETURN CASE current_setting('synchronous_standby_names') WHEN '' THEN set_config('synchronous_commit', 'off', TRUE) END;
