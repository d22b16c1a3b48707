-- The time for a session without `lock_timeout`.
-- is: sql, immutable, parallel safe
CREATE OR REPLACE FUNCTION {schema}.lock_patience() RETURNS text
RETURN '10s';
