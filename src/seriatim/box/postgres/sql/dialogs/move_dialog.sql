-- Purpose: move a side of a dialog into another conversation group.
-- Caller: dialogs.py.
-- Locks: both groups and its row; its entries.
-- Index: endpoints_pkey, entries_of_group, spool_pkey.
SELECT refused, what, remedy FROM {schema}.try_move(%(handle)s::uuid, %(group)s::uuid, %(in_hand)s::text[])
