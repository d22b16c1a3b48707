-- Purpose: turn a queue off because a handler failed for good.
-- Caller: faults.py.
-- Locks: that of the definitions, until the transaction ends; the queue's row.
-- Index: queues_pkey, changes_pkey.
SELECT {schema}.stop_queue(%(queue_id)s, %(group_key)s, %(worker)s, %(why)s)
