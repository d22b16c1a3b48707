-- Who calls: the role of the session. Within a function that runs as somebody else there is no other way to know.
-- is: sql, stable
CREATE OR REPLACE FUNCTION {schema}.caller() RETURNS name
RETURN CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role')::name END;
