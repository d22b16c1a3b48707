-- Purpose: hand out what was released before, of the next group that has some, and lock the group.
-- Caller: turns.py, before it judges anything.
-- Locks: the group's advisory lock, until the transaction ends.
-- Index: groups_ready, entries_arrived (first entry), entries_of_group, spool_pkey, tickets_arrival_id_key.
SELECT * FROM {schema}.hand_out(%(queue_id)s, %(group_key)s, %(at_most)s, %(now_us)s, %(from_rank)s)
