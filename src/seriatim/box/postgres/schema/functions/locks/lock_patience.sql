-- Return how long a session without `lock_timeout` waits for a lock.
-- is: sql, immutable, parallel safe
CREATE OR REPLACE FUNCTION {schema}.lock_patience() RETURNS text
RETURN '10s';
