-- Purpose: messages that have a text only in part, or with other capital letters, newest first: their ids begin with
-- one of its `beginnings`, if ids are remembered; or, of the newest messages, have it anywhere (`pattern`, if there is
-- one); or a property of these is one of its `variants`.
-- Index: message_ids_pkey for each beginning, up to `above`, below which are all ids that begin with it; the newest of
-- the spool by spool_pkey, without bodies. In an order of letters other than that of their codes ids of other kinds may
-- be missed.
WITH beginning AS MATERIALIZED (
    SELECT one.message_id, one.published_at AS received_at
    FROM unnest(%(beginnings)s::text[], %(above)s::text[]) AS given (variant, above)
    CROSS JOIN LATERAL (
        SELECT known.message_id, known.published_at FROM {schema}.message_ids AS known
        WHERE known.message_id >= given.variant AND known.message_id <= given.above
            AND starts_with(known.message_id, given.variant)
        LIMIT %(limit)s
    ) AS one
), newest AS MATERIALIZED (
    SELECT
        stored.message_id, stored.received_at, stored.arrival_id, stored.position,
        stored.message_id COLLATE "C" ILIKE %(pattern)s::text AS is_id, stored.context
    FROM (
        SELECT one.arrival_id, one.position, one.message_id, one.received_at, one.context FROM {schema}.spool AS one
        ORDER BY one.arrival_id DESC, one.position DESC LIMIT %(newest)s::bigint
    ) AS stored
    -- In the order of letters' codes: other orders take three times as long, and ids have letters of ASCII.
    WHERE stored.message_id COLLATE "C" ILIKE %(pattern)s::text
        OR jsonb_path_exists(stored.context, '$.* ? (@ == $given0 || @ == $given1 || @ == $given2 || @ == $given3)', %(given)s::jsonb)
    ORDER BY stored.arrival_id DESC, stored.position DESC LIMIT %(limit)s
), found AS (
    SELECT
        CASE WHEN is_id THEN 'message id' ELSE coalesce((
            SELECT its.name FROM unnest(%(variants)s::text[]) AS one (variant)
            CROSS JOIN LATERAL (SELECT {schema}.property_with(newest.context, one.variant) AS name) AS its
            WHERE its.name IS NOT NULL LIMIT 1
        ), 'property') END AS matched,
        message_id, received_at
    FROM newest
    UNION ALL
    SELECT 'message id', message_id, received_at FROM beginning
)
SELECT DISTINCT ON (found.received_at, found.message_id)
    found.matched, found.message_id, NULL AS queue, NULL AS "group", found.received_at AS at
FROM found
WHERE found.received_at >= coalesce(%(since)s::timestamptz, clock_timestamp() - %(since_ago)s::interval, '-infinity')
    AND found.received_at < coalesce(%(until)s::timestamptz, clock_timestamp() - %(until_ago)s::interval, 'infinity')
ORDER BY found.received_at DESC, found.message_id, found.matched
LIMIT %(limit)s
