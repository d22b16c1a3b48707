-- Purpose: the queue and the conversation group of a dialog.
-- Caller: dialogs.py.
-- Locks: none.
-- Index: endpoints_pkey.
SELECT queue, group_key FROM {schema}.group_of(%(handle)s::uuid)
