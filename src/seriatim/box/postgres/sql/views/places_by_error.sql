-- Purpose: how many messages there are by the error at which their handlers failed last, or by the reason if none failed; those
-- without either aren't counted; the most frequent first; filtered as places.sql.
-- Caller: message_places.py.
-- Locks: none.
-- Index: as places.sql.
SELECT
    coalesce(failed.error_class, reason) AS error, count(*) AS count,
    (array_agg(failed.told ORDER BY coalesce(failed.at, since) DESC))[1] AS example,
    max(coalesce(failed.at, since)) AS last
FROM {schema}.message_places AS place
LEFT JOIN LATERAL (
    SELECT one.error_class, one.error AS told, one.error_class || ': ' || one.error AS error, one.at
    FROM {schema}.faults AS one JOIN {schema}.queues AS its USING (queue_id)
    WHERE one.message_id = place.message_id AND its.queue = place.queue
    ORDER BY one.fault_id DESC LIMIT 1
) AS failed ON TRUE
WHERE (%(queue)s::text IS NULL OR queue = %(queue)s)
    AND (%(group)s::text IS NULL OR group_key = %(group)s)
    AND (%(status)s::text IS NULL OR status = %(status)s)
    AND (%(type)s::text IS NULL OR type = %(type)s)
    AND (%(message_id)s::text IS NULL OR message_id = %(message_id)s)
    AND (%(id_space)s::text IS NULL OR id_space = %(id_space)s)
    AND (%(since)s::timestamptz IS NULL OR received_at >= %(since)s::timestamptz)
    AND (%(since_ago)s::interval IS NULL OR received_at >= clock_timestamp() - %(since_ago)s::interval)
    AND (%(until)s::timestamptz IS NULL OR received_at < %(until)s::timestamptz)
    AND (%(until_ago)s::interval IS NULL OR received_at < clock_timestamp() - %(until_ago)s::interval)
    AND (%(names)s::text[] IS NULL OR EXISTS (
        SELECT FROM {schema}.spool AS stored
        WHERE stored.arrival_id = place.arrival_id AND stored.position = place.position
            AND ({schema}.has_properties(stored.context, %(names)s::text[], %(of_values)s::text[]) OR EXISTS (
                SELECT FROM {schema}.edits AS edit
                WHERE edit.arrival_id = stored.arrival_id AND edit.position = stored.position AND edit.context IS NOT NULL
                    AND {schema}.has_properties(edit.context, %(names)s::text[], %(of_values)s::text[])
            ))
    ))
    AND (%(text)s::text IS NULL OR reason ILIKE %(text)s OR failed.error ILIKE %(text)s)
    AND coalesce(failed.error_class, reason) IS NOT NULL
GROUP BY 1
ORDER BY count(*) DESC, 1
LIMIT %(limit)s
