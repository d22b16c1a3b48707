-- Purpose: the transaction, or subtransaction, that has just handed messages out.
-- Index: known_groups_pkey, entries_pkey.
SELECT {schema}.handed_by(%(of_queue)s, %(of_group)s, %(entry_ids)s::bigint[])::text
