-- The lock of an entry with a key that a transaction has in hand. It is only checked for its holder.
-- is: sql, stable, strict, parallel safe
CREATE OR REPLACE FUNCTION {schema}.in_hand_lock(of_entry bigint) RETURNS bigint
RETURN hashtextextended('in hand ' || of_entry, '{schema}'::regnamespace::oid::bigint);
