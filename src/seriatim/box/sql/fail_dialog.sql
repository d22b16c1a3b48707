-- Purpose: end a dialog on both sides, because a message isn't what its type says.
-- Caller: dialog_delivery.py, under the lock of its group.
-- Locks: the rows of both sides.
-- Index: endpoints_pkey, entries_of_group, spool_pkey, aside_of_group.
SELECT {schema}.fail_dialog(%(handle)s::uuid, %(message_id)s, %(sequence)s, %(why)s)
