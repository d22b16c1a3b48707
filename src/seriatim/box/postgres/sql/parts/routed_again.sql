-- The next messages of the table {0} for which {1} holds, in order of commit, so that they can be routed again; locked. {2}: their entry.
-- All places are sorted, without the messages themselves; each message is looked up, even if PostgreSQL takes them for few.
SELECT
    next.stamp, next.serial, next.arrival_id, next.position, stored.message_id, stored.type, stored.content_type,
    stored.context::text, stored.property_types, stored.body, stored.received_at, next.entry_id
FROM (
    SELECT run.stamp, named.serial, waiting.arrival_id, waiting.position, {2} AS entry_id
    FROM {schema}.{0} AS waiting
    JOIN {schema}.tickets AS run USING (arrival_id)
    CROSS JOIN LATERAL (
        SELECT coalesce(one.serial, one.arrival_id + one.position) AS serial, one.type, one.message_id, one.context -> 'dialog' AS dialog FROM {schema}.spool AS one
        WHERE one.arrival_id = waiting.arrival_id AND one.position = waiting.position OFFSET 0
    ) AS named
    WHERE {1} AND (run.stamp, named.serial) > (%(stamp)s, %(serial)s)
        AND (%(type)s::text IS NULL OR named.type = %(type)s)
        AND (%(message_ids)s::text[] IS NULL OR named.message_id = ANY (%(message_ids)s))
    ORDER BY run.stamp, named.serial
    LIMIT %(limit)s
    FOR UPDATE OF waiting
) AS next
CROSS JOIN LATERAL (
    SELECT one.* FROM {schema}.spool AS one
    WHERE one.arrival_id = next.arrival_id AND one.position = next.position OFFSET 0
) AS stored
ORDER BY next.stamp, next.serial
