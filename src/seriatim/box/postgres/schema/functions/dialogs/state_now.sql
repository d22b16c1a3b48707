-- The state of a side: where its lifetime is over it has failed, whether somebody has noticed it or not.
-- is: sql
CREATE OR REPLACE FUNCTION {schema}.state_now(state text, expires_at timestamptz) RETURNS text
RETURN CASE WHEN expires_at <= clock_timestamp() AND state IN ('SO', 'SI', 'CO', 'DI') THEN 'ER' ELSE state END;
