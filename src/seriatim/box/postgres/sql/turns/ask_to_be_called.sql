-- Purpose: register for notifications of queues, and no others, and return when the next timer of each is due.
-- Locks: the row of each waiter that leaves.
-- Index: waiters_pkey.
SELECT
    {schema}.unregister(one.waiter),
    CASE WHEN one.asks THEN {schema}.register(one.queue_id) END AS waiter,
    CASE WHEN one.queue_id > 0 THEN {schema}.next_due(one.queue_id) END AS due_s
FROM unnest(%(queue_ids)s::integer[], %(waiters)s::bigint[], %(asks)s::boolean[]) WITH ORDINALITY
    AS one (queue_id, waiter, asks, place)
ORDER BY one.place
