-- Purpose: put messages that waited to be routed into queues, and call who waits there. Answers FALSE, and does
-- nothing, where the definitions have changed meanwhile.
-- Caller: sql_arrivals.py, after it has read them.
-- Locks: their rows in the spool and in to_route; who completes one of them waits for the first.
-- Index: spool_pkey, to_route_pkey, changes_pkey.
SELECT {schema}.route(
    %(version)s, %(arrival_ids)s::bigint[], %(positions)s::bigint[], %(contexts)s::text[], %(property_types)s::text[],
    %(destinations)s::integer[], %(problems)s::text[],
    %(entry_places)s::bigint[], %(entry_queues)s::integer[], %(entry_groups)s::text[], %(entry_sequences)s::bigint[],
    %(entry_sizes)s::bigint[], %(entry_priorities)s::integer[], %(entry_problems)s::text[],
    %(entry_subscriptions)s::text[]
)
