-- Return the lock of all entries of a group that a transaction has in hand, as `in_hand_lock` of one entry; '' is the
-- group of a queue without groups.
-- is: sql, stable, strict, parallel safe
CREATE OR REPLACE FUNCTION {schema}.group_in_hand_lock(of_queue integer, of_group text) RETURNS bigint
RETURN hashtextextended('in hand ' || of_group, ('{schema}'::regnamespace::oid::bigint << 32) | of_queue);
