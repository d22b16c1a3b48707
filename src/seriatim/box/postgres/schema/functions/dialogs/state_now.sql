-- Return the state of a side: after the end of its lifetime it has failed, even if that isn't noted yet.
-- is: sql
CREATE OR REPLACE FUNCTION {schema}.state_now(state text, expires_at timestamptz) RETURNS text
RETURN CASE WHEN expires_at <= clock_timestamp() AND state IN ('SO', 'SI', 'CO', 'DI') THEN 'ER' ELSE state END;
