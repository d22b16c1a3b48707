-- Purpose: check that no run of a pipeline reads a queue, and keep others from beginning until the transaction ends.
-- Locks: the advisory lock that hold_reader.sql takes for as long as a run lives, here for the transaction.
SELECT pg_try_advisory_xact_lock(
    hashtextextended('seriatim reader ' || %(queue_id)s::integer, '{schema}'::regnamespace::oid::bigint)
) AS held
