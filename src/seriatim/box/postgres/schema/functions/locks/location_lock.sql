-- Return the lock of a location's numbers.
-- is: sql, stable, strict, parallel safe
CREATE OR REPLACE FUNCTION {schema}.location_lock(of_location text) RETURNS bigint
RETURN hashtextextended(of_location, '{schema}'::regnamespace::oid::bigint << 32);
