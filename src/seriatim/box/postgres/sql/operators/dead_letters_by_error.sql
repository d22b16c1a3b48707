-- Purpose: how many dead letters there are by the error at which their handlers failed last, or by the reason if none failed;
-- the most frequent first; filtered as dead_letters.sql.
-- Caller: dead_letters.py.
-- Locks: none.
-- Index: aside_dead, aside_pkey, faults_of_entry; spool_pkey where properties are asked for.
SELECT
    coalesce(fault.error_class, letter.reason) AS error, count(*) AS count,
    (array_agg(fault.error ORDER BY letter.aside_at DESC))[1] AS example, max(letter.aside_at) AS last
FROM {schema}.aside AS letter
JOIN {schema}.queues AS place USING (queue_id)
LEFT JOIN LATERAL (
    SELECT one.error_class, one.error, one.error_class || ': ' || one.error AS told FROM {schema}.faults AS one
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
    AND (%(names)s::text[] IS NULL OR EXISTS (
        SELECT FROM {schema}.spool AS its
        WHERE its.arrival_id = letter.arrival_id AND its.position = letter.position
            AND ({schema}.has_properties(its.context, %(names)s::text[], %(of_values)s::text[]) OR EXISTS (
                SELECT FROM {schema}.edits AS edit
                WHERE edit.arrival_id = its.arrival_id AND edit.position = its.position AND edit.context IS NOT NULL
                    AND {schema}.has_properties(edit.context, %(names)s::text[], %(of_values)s::text[])
            ))
    ))
    AND (%(error_class)s::text IS NULL OR coalesce(fault.error_class, letter.reason) = %(error_class)s)
    AND (%(text)s::text IS NULL OR letter.reason ILIKE %(text)s OR fault.told ILIKE %(text)s)
GROUP BY 1
ORDER BY count(*) DESC, 1
LIMIT %(limit)s
