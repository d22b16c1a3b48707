-- Purpose: put messages that were unrouted into queues. Answers FALSE, and does nothing, where the definitions have
-- changed meanwhile.
-- Caller: resubmit.py, which has locked the rows of these messages.
-- Locks: none beyond those rows, and those of the spool.
-- Index: unrouted_pkey, spool_pkey, entries_of_message.
SELECT {schema}.route_again(
    %(version)s, %(arrival_ids)s::bigint[], %(positions)s::bigint[], %(contexts)s::text[],
    %(property_types)s::text[], %(destinations)s::integer[], %(problems)s::text[],
    %(entry_places)s::bigint[], %(entry_queues)s::integer[], %(entry_groups)s::text[], %(entry_sequences)s::bigint[],
    %(entry_sizes)s::bigint[], %(entry_priorities)s::integer[], %(entry_problems)s::text[],
    %(entry_subscriptions)s::text[]
) AS routed
