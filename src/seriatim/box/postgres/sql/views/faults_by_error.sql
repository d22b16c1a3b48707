-- Purpose: how often handlers failed at which error, the most frequent first; filtered as faults.sql.
-- Caller: faults.py.
-- Locks: none.
-- Index: faults_of_group where a queue and a group are given; otherwise all faults are read.
SELECT
    one.error_class AS error, count(*) AS count, (array_agg(one.error ORDER BY one.fault_id DESC))[1] AS example,
    max(one.at) AS last
FROM {schema}.faults AS one LEFT JOIN {schema}.queues AS place USING (queue_id)
WHERE (%(queue)s::text IS NULL OR place.queue = %(queue)s)
    AND (%(group_key)s::text IS NULL OR one.group_key = %(group_key)s)
    AND (%(pattern)s::text IS NULL OR one.group_key LIKE %(pattern)s)
    AND (%(message_id)s::text IS NULL OR one.message_id = %(message_id)s)
    AND (%(kind)s::text IS NULL OR one.kind = %(kind)s)
    AND (%(older_than)s::interval IS NULL OR one.at < clock_timestamp() - %(older_than)s::interval)
    AND (%(since)s::timestamptz IS NULL OR one.at >= %(since)s::timestamptz)
    AND (%(since_ago)s::interval IS NULL OR one.at >= clock_timestamp() - %(since_ago)s::interval)
    AND (%(until)s::timestamptz IS NULL OR one.at < %(until)s::timestamptz)
    AND (%(until_ago)s::interval IS NULL OR one.at < clock_timestamp() - %(until_ago)s::interval)
    AND (%(names)s::text[] IS NULL OR EXISTS (
        SELECT FROM {schema}.spool AS stored
        WHERE stored.arrival_id = one.arrival_id AND stored.position = one.position
            AND ({schema}.has_properties(stored.context, %(names)s::text[], %(of_values)s::text[]) OR EXISTS (
                SELECT FROM {schema}.edits AS edit
                WHERE edit.arrival_id = stored.arrival_id AND edit.position = stored.position AND edit.context IS NOT NULL
                    AND {schema}.has_properties(edit.context, %(names)s::text[], %(of_values)s::text[])
            ))
    ))
    AND (%(error_class)s::text IS NULL OR one.error_class = %(error_class)s)
    AND (%(text)s::text IS NULL OR one.error_class || ': ' || one.error ILIKE %(text)s)
GROUP BY one.error_class
ORDER BY count(*) DESC, one.error_class
LIMIT %(limit)s
