-- Return the lock of a thing that a box has once.
-- is: sql, stable, strict, parallel safe
CREATE OR REPLACE FUNCTION {schema}.lock_of(what text) RETURNS bigint
RETURN hashtextextended('seriatim ' || what, '{schema}'::regnamespace::oid::bigint);
