-- Purpose: what is kept of a dialog.
-- Caller: dialogs.py.
-- Locks: none.
-- Index: dialog_messages_of_dialog, aside_of_group, spool_pkey.
SELECT sent, sequence, type, content_type, body, at, reason FROM {schema}.history_of(%(handle)s::uuid)
