-- Purpose: lock the next groups of a queue that have something to do, to judge them ahead; none where somebody does it.
-- Caller: turns.py, in a transaction of its own.
-- Locks: an advisory lock for each group and one for the queue, until the transaction ends.
-- Index: groups_ready, groups_due and entries_arrived, merged by rank; entries_of_group once a candidate.
SELECT group_keys, now_us, isolation, version
FROM {schema}.lock_ahead(%(queue_id)s, %(how_many)s, %(now_us)s, %(from_rank)s)
