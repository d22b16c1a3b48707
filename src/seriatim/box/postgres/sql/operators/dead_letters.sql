-- Purpose: dead letters in the order in which their queues took them in, a page of them; of one queue, pattern of keys,
-- age, time, property or text, or some of them by their numbers.
-- Caller: dead_letters.py.
-- Locks: none.
-- Index: aside_dead, aside_pkey, spool_pkey, faults_of_entry.
SELECT
    letter.entry_id, place.queue, letter.group_key AS "group", stored.message_id, stored.type, letter.sequence,
    letter.ordinal, letter.attempt, letter.reason, fault.error, letter.aside_at, stored.received_at
FROM {schema}.aside AS letter
JOIN {schema}.queues AS place USING (queue_id)
CROSS JOIN LATERAL (
    SELECT * FROM {schema}.spool AS one WHERE one.arrival_id = letter.arrival_id AND one.position = letter.position LIMIT 1
) AS stored
LEFT JOIN LATERAL (
    SELECT one.error_class, one.error_class || ': ' || one.error AS error FROM {schema}.faults AS one
    WHERE one.entry_id = letter.entry_id ORDER BY one.fault_id DESC LIMIT 1
) AS fault ON TRUE
WHERE letter.disposition = 'dead'
    AND (%(entry_ids)s::bigint[] IS NULL OR letter.entry_id = ANY (%(entry_ids)s::bigint[]))
    AND (%(queue)s::text IS NULL OR place.queue = %(queue)s)
    AND (%(pattern)s::text IS NULL OR letter.group_key LIKE %(pattern)s)
    AND (%(older_than)s::interval IS NULL OR letter.aside_at < clock_timestamp() - %(older_than)s::interval)
    AND (%(since)s::timestamptz IS NULL OR letter.aside_at >= %(since)s::timestamptz)
    AND (%(since_ago)s::interval IS NULL OR letter.aside_at >= clock_timestamp() - %(since_ago)s::interval)
    AND (%(until)s::timestamptz IS NULL OR letter.aside_at < %(until)s::timestamptz)
    AND (%(until_ago)s::interval IS NULL OR letter.aside_at < clock_timestamp() - %(until_ago)s::interval)
    AND (
        %(names)s::text[] IS NULL OR {schema}.has_properties(stored.context, %(names)s::text[], %(of_values)s::text[])
        OR EXISTS (
            SELECT FROM {schema}.edits AS edit
            WHERE edit.arrival_id = stored.arrival_id AND edit.position = stored.position AND edit.context IS NOT NULL
                AND {schema}.has_properties(edit.context, %(names)s::text[], %(of_values)s::text[])
        )
    )
    AND (%(error_class)s::text IS NULL OR coalesce(fault.error_class, letter.reason) = %(error_class)s)
    AND (%(text)s::text IS NULL OR letter.reason ILIKE %(text)s OR fault.error ILIKE %(text)s)
    AND letter.entry_id > %(after)s
ORDER BY letter.entry_id
LIMIT %(limit)s
