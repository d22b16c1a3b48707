-- Purpose: which roles may do what.
-- Caller: grant.py.
-- Locks: none.
-- Index: none; the table is small.
SELECT
    pg_get_userbyid(known.role::oid)::text AS role,
    coalesce(array_agg(place.queue::text ORDER BY place.queue) FILTER (WHERE may = 'publish'), '{{}}') AS publish,
    coalesce(array_agg(place.queue::text ORDER BY place.queue) FILTER (WHERE may = 'receive'), '{{}}') AS receive,
    coalesce(array_agg(place.queue::text ORDER BY place.queue) FILTER (WHERE may = 'subscribe'), '{{}}') AS subscribe,
    bool_or(may = 'route') AS route,
    coalesce(array_agg(known.location ORDER BY known.location) FILTER (WHERE may = 'dispense'), '{{}}') AS dispense
FROM {schema}.grants AS known LEFT JOIN {schema}.queues AS place USING (queue_id)
GROUP BY known.role
ORDER BY role
