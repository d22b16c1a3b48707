-- Purpose: the queues that have an activation, and how many of their groups there is something to do in.
-- Caller: activations.py.
-- Locks: none.
-- Index: groups_ready, groups_due, entries_arrived, requests_of_queue; each is read no further than needed.
SELECT queue_id, queue, activation, enabled, activated, owner, ready FROM {schema}.activations() ORDER BY queue
