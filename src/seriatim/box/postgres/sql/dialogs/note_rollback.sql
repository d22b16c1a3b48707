-- Purpose: count a rollback of a message, and suspend its group at so many in a row.
-- Caller: rollbacks.py, in a transaction apart from the one that has the group.
-- Locks: the row of the group in rollbacks.
-- Index: rollbacks_pkey, entries_pkey, spool_pkey.
SELECT {schema}.note_rollback(
    %(queue_id)s, %(group_key)s, %(entry_id)s, %(rolled_back)s, %(own)s, %(at_most)s
)
