-- Purpose: let messages be handed out at once.
-- Caller: failed_message.py, under the lock of their group.
-- Locks: the entries, which only a turn locks.
-- Index: entries_pkey.
UPDATE {schema}.entries SET visible_at = NULL WHERE entry_id = ANY (%(entry_ids)s::bigint[]) AND visible_at IS NOT NULL
