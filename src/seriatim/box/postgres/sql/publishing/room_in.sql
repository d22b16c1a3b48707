-- Purpose: how many more messages some queues may take.
-- Caller: queue_room.py, where queues that say how many they may have get some.
-- Locks: none.
-- Index: entries_of_group, at most as many entries as a queue may have.
SELECT {schema}.room_in(%(queue_ids)s::integer[], %(mosts)s::bigint[])
