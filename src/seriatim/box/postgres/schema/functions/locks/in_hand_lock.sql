-- Return the lock of an entry with a key that a transaction has in hand. Others only check whether it is held.
-- is: sql, stable, strict, parallel safe
CREATE OR REPLACE FUNCTION {schema}.in_hand_lock(of_entry bigint) RETURNS bigint
RETURN hashtextextended('in hand ' || of_entry, '{schema}'::regnamespace::oid::bigint);
