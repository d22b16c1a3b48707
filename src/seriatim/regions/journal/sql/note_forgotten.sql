-- Note from when on messages are too old for sessions that are forgotten.
UPDATE {schema}.queues AS known
SET forgotten_before = greatest(coalesce(known.forgotten_before, old.used_at), old.used_at)
FROM unnest(%(queues)s::text[], %(used)s::bigint[]) AS old (queue, used_at)
WHERE known.name = %(name)s AND known.queue = old.queue
