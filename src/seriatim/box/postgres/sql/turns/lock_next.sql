-- Purpose: lock the next groups of a queue that have something to do, those of lowest rank first.
-- Caller: turns.py.
-- Locks: an advisory lock for each group, until the transaction ends.
-- Index: groups_ready, groups_due and entries_arrived, merged by rank; entries_of_group once a candidate.
SELECT group_keys, now_us, isolation, version, unrouted, many
FROM {schema}.lock_groups(%(queue_id)s, NULL, %(how_many)s, %(now_us)s, %(from_rank)s, %(settled)s::xid8, %(unsettled)s::xid8[])
