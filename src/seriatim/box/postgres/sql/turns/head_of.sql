-- Purpose: where a queue begins, and how long it took to find that.
-- Caller: turns.py, every now and then.
-- Locks: none.
-- Index: groups_ready, entries_arrived.
SELECT rank, took_us FROM {schema}.head_of(%(queue_id)s)
