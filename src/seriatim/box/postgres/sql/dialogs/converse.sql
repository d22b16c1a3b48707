-- Purpose: the first message of dialogs has been received.
-- Caller: delivery.py, under the lock of their group.
-- Locks: their rows.
-- Index: endpoints_pkey.
SELECT {schema}.converse(%(handles)s::uuid[])
