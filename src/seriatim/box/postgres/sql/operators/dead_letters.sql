-- Purpose: dead letters in the order in which their queues took them in, a page of them, or those up to a number (`upto`); of one queue,
-- pattern of keys, age, time, property or text, or some of them by their numbers.
-- Caller: dead_letters.py.
-- Locks: none.
-- Index: aside_dead, aside_pkey, faults_of_entry; spool_pkey for those that fit.
SELECT
    letter.entry_id, letter.queue, letter.group_key AS "group", stored.message_id, stored.type, letter.sequence,
    letter.ordinal, letter.attempt, letter.reason, letter.error, letter.aside_at, stored.received_at
FROM (
    SELECT one.*, place.queue, fault.error
    FROM {schema}.aside AS one
    JOIN {schema}.queues AS place USING (queue_id)
    LEFT JOIN LATERAL (
        SELECT its.error_class, its.error_class || ': ' || its.error AS error FROM {schema}.faults AS its
        WHERE its.entry_id = one.entry_id ORDER BY its.fault_id DESC LIMIT 1
    ) AS fault ON TRUE
    WHERE one.disposition = 'dead'
        AND (%(entry_ids)s::bigint[] IS NULL OR one.entry_id = ANY (%(entry_ids)s::bigint[]))
        AND (%(queue)s::text IS NULL OR place.queue = %(queue)s)
        AND (%(pattern)s::text IS NULL OR one.group_key LIKE %(pattern)s)
        AND (%(older_than)s::interval IS NULL OR one.aside_at < clock_timestamp() - %(older_than)s::interval)
        AND (%(since)s::timestamptz IS NULL OR one.aside_at >= %(since)s::timestamptz)
        AND (%(since_ago)s::interval IS NULL OR one.aside_at >= clock_timestamp() - %(since_ago)s::interval)
        AND (%(until)s::timestamptz IS NULL OR one.aside_at < %(until)s::timestamptz)
        AND (%(until_ago)s::interval IS NULL OR one.aside_at < clock_timestamp() - %(until_ago)s::interval)
        AND (%(names)s::text[] IS NULL OR EXISTS (
            SELECT FROM {schema}.spool AS its
            WHERE its.arrival_id = one.arrival_id AND its.position = one.position
                AND ({schema}.has_properties(its.context, %(names)s::text[], %(of_values)s::text[]) OR EXISTS (
                    SELECT FROM {schema}.edits AS edit
                    WHERE edit.arrival_id = its.arrival_id AND edit.position = its.position AND edit.context IS NOT NULL
                        AND {schema}.has_properties(edit.context, %(names)s::text[], %(of_values)s::text[])
                ))
        ))
        AND (%(error_class)s::text IS NULL OR coalesce(fault.error_class, one.reason) = %(error_class)s)
        AND (%(text)s::text IS NULL OR one.reason ILIKE %(text)s OR fault.error ILIKE %(text)s)
        AND one.entry_id > %(after)s
        AND (%(upto)s::bigint IS NULL OR one.entry_id <= %(upto)s::bigint)
    ORDER BY one.entry_id
    LIMIT %(limit)s
) AS letter
CROSS JOIN LATERAL (
    SELECT * FROM {schema}.spool AS one WHERE one.arrival_id = letter.arrival_id AND one.position = letter.position LIMIT 1
) AS stored
ORDER BY letter.entry_id
