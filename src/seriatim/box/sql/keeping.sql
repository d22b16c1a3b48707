-- Purpose: now, and how long message ids are remembered.
-- Caller: purge.py, first.
-- Locks: none.
-- Index: none; one row.
SELECT now() AS moment, message_ids_for, swept_through FROM {schema}.keeping
