-- Purpose: how many groups there are, of one queue or pattern of keys.
-- Index: known_groups_pkey, entries_arrived, entries_on_way, entries_placed: all of them.
SELECT count(*) AS groups FROM (
    SELECT known.queue_id, known.group_key FROM {schema}.known_groups AS known
    JOIN {schema}.queues AS place USING (queue_id)
    WHERE (%(queue)s::text IS NULL OR place.queue = %(queue)s)
        AND (%(key)s::text IS NULL OR known.group_key LIKE %(key)s)
    UNION
    SELECT entry.queue_id, entry.group_key FROM {schema}.entries AS entry
    JOIN {schema}.queues AS place USING (queue_id)
    WHERE entry.status = 'arrived' AND place.definition #>> '{policy,name}' IS DISTINCT FROM 'unordered'
        AND (%(queue)s::text IS NULL OR place.queue = %(queue)s)
        AND (%(key)s::text IS NULL OR entry.group_key LIKE %(key)s)
    UNION
    SELECT entry.queue_id, entry.group_key FROM {schema}.entries AS entry
    JOIN {schema}.queues AS place USING (queue_id)
    WHERE entry.status = 'placed' AND (%(queue)s::text IS NULL OR place.queue = %(queue)s)
        AND (%(key)s::text IS NULL OR entry.group_key LIKE %(key)s)
    UNION
    -- Groups of a gate of which a place is open.
    SELECT gate.queue_id, coalesce(entry.origin_group, entry.group_key) FROM {schema}.entries AS entry
    JOIN {schema}.queues AS gate ON gate.queue_id = entry.gate_id
    WHERE entry.gate_id <> entry.queue_id AND coalesce(entry.origin_number, entry.ordinal) IS NOT NULL
        AND (%(queue)s::text IS NULL OR gate.queue = %(queue)s)
        AND (%(key)s::text IS NULL OR coalesce(entry.origin_group, entry.group_key) LIKE %(key)s)
) AS one
