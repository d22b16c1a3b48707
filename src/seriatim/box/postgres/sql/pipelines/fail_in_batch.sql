-- Purpose: as fail_dialogs.sql, of messages that were put into a reader's next batch, which they leave.
-- Caller: batch_check.py, under the locks of their groups.
-- Locks: these messages, which only a turn locks; the rows of both sides.
-- Index: endpoints_pkey, entries_in_hand, entries_of_group, spool_pkey, aside_pkey.
SELECT {schema}.fail_in_batch(
    %(queue_id)s, %(batch)s, %(handles)s::uuid[], %(message_ids)s::text[], %(sequences)s::bigint[], %(whys)s::text[]
) AS set_aside
