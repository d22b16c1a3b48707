-- Purpose: give a queue back to workers, with what its pipeline had in hand.
-- Caller: queue_release.py.
-- Locks: the definitions, the queue's row, and the entries in hand.
-- Index: readers_pkey, entries_in_hand, known_groups_pkey.
SELECT {schema}.release_queue(%(queue_id)s) AS released
