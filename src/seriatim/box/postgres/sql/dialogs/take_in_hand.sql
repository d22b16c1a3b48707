-- Purpose: mark the first message of a delivery, and return the transaction that had it in hand and was rolled back.
-- Locks: the row of its entry, which only a turn locks; those of dialogs that have begun.
-- Index: entries_pkey, rollbacks_pkey, endpoints_pkey.
SELECT
    {schema}.take_in_hand(%(of_queue)s, %(of_group)s, %(of_entry)s, %(begun)s::uuid[]) AS rolled_back,
    pg_current_xact_id()::text::bigint & 4294967295 AS own
