-- Purpose: set, or take away, the timer of a side of a dialog.
-- Caller: dialogs.py.
-- Locks: its group and its row.
-- Index: endpoints_pkey.
SELECT refused, what, remedy FROM {schema}.try_set_timer(%(handle)s::uuid, %(delay)s::interval)
