-- Purpose: what is remembered of the groups of a turn.
-- Caller: deliver.py, after it has locked them, so that what it reads is younger than the lock.
-- Locks: none.
-- Index: groups_pkey.
SELECT
    group_key,
    incarnation,
    ARRAY[flags, first, next, mark, last, ordinal, since, reports, clock] AS state,
    skipped,
    arrivals,
    decided
FROM {schema}.groups
WHERE queue_id = %(queue_id)s AND group_key = ANY (%(group_keys)s)
