-- Purpose: lock groups of a queue that have a timer which is due.
-- Caller: turns.py, for a tick.
-- Locks: an advisory lock for each group, until the transaction ends.
-- Index: groups_due.
SELECT group_keys, now_us, isolation, version FROM {schema}.lock_due(%(queue_id)s, %(how_many)s, %(now_us)s)
