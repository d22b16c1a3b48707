-- Purpose: hand out the next messages of a queue that is first in, first out, and lock their group; no rows where a turn has to judge.
-- Caller: turns.py, before it judges anything.
-- Locks: the group's advisory lock, until the transaction ends; the group, its first entry, which only a turn locks.
-- Index: groups_ready, entries_arrived, entries_of_group, known_groups_pkey, endpoints_due, endpoints_of_group, spool_pkey,
-- to_route_of_transaction.
SELECT * FROM {schema}.hand_out_fifo(
    %(queue_id)s, %(group_key)s, %(at_most)s, %(now_us)s, %(version)s, %(fresh)s::bigint[], %(serves)s,
    %(marks)s, %(from_rank)s, %(settled)s::xid8, %(unsettled)s::xid8[]
)
