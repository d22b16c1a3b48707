-- Purpose: lock a queue for the one run of a pipeline that reads it, for as long as the connection lives.
-- Locks: an advisory lock of the session.
SELECT pg_try_advisory_lock(
    hashtextextended('seriatim reader ' || %(queue_id)s::integer, '{schema}'::regnamespace::oid::bigint)
) AS held
