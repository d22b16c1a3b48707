-- Purpose: put messages into a queue that had set them aside as invalid. Answers FALSE, and does nothing, where the
-- definitions have changed meanwhile.
-- Caller: resubmit.py, which has locked the rows of what was set aside.
-- Locks: none beyond those rows, and those of the spool.
-- Index: aside_pkey, spool_pkey, entries_of_message.
SELECT {schema}.enter_again(
    %(version)s, %(entry_ids)s::bigint[], %(arrival_ids)s::bigint[], %(positions)s::bigint[], %(contexts)s::text[],
    %(property_types)s::text[], %(destinations)s::integer[],
    %(entry_places)s::bigint[], %(entry_queues)s::integer[], %(entry_groups)s::text[], %(entry_sequences)s::bigint[],
    %(entry_sizes)s::bigint[], %(entry_priorities)s::integer[], %(entry_problems)s::text[],
    %(entry_subscriptions)s::text[]
) AS routed
