-- Purpose: note how many messages a part has from each location.
-- Locks: their rows.
-- Index: staged_arrivals_pkey.
UPDATE {schema}.staged_arrivals AS arrival SET count = known.count
FROM unnest(%(arrival_ids)s::bigint[], %(counts)s::bigint[]) AS known (arrival_id, count)
WHERE arrival.arrival_id = known.arrival_id
