-- Return the caller: the role of the session. A function that runs as another role has no other way to know.
-- is: sql, stable
CREATE OR REPLACE FUNCTION {schema}.caller() RETURNS name
RETURN CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role')::name END;
