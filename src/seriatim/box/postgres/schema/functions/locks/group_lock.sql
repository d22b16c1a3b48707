-- Return the lock of a group: one transaction at a time works on it; publishers don't take it.
-- is: sql, stable, strict, parallel safe
CREATE OR REPLACE FUNCTION {schema}.group_lock(of_queue integer, of_group text) RETURNS bigint
RETURN hashtextextended(of_group, ('{schema}'::regnamespace::oid::bigint << 32) | of_queue);
