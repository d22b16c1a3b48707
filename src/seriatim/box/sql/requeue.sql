-- Purpose: put a dead letter back into its queue; FALSE where it is none any more.
-- Caller: dead_letters.py, under the lock of its group.
-- Locks: the row of the group, which only a turn locks.
-- Index: aside_pkey, spool_pkey, known_groups_pkey.
SELECT {schema}.requeue(%(entry_id)s, %(status)s, %(ordinal)s, %(to_the_end)s)
