-- Purpose: end dialogs on both sides, because a message of each isn't what its type says. Gives what is set aside.
-- Caller: delivery.py, under the locks of their groups.
-- Locks: the rows of both sides.
-- Index: endpoints_pkey, entries_of_group, spool_pkey, aside_pkey.
SELECT {schema}.fail_dialogs(
    %(handles)s::uuid[], %(message_ids)s::text[], %(sequences)s::bigint[], %(whys)s::text[]
) AS set_aside
