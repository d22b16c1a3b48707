-- Purpose: all tokens.
-- Index: none; the table is small.
SELECT
    one.name, pg_get_userbyid(one.role::oid)::text AS role,
    ARRAY(
        SELECT place.queue::text FROM {schema}.queues AS place WHERE place.queue_id = ANY (one.publish) ORDER BY 1
    ) AS publish,
    ARRAY(
        SELECT place.queue::text FROM {schema}.queues AS place WHERE place.queue_id = ANY (one.receive) ORDER BY 1
    ) AS receive,
    pg_get_userbyid(one.server::oid)::text AS server, one.created_at, one.created_by, one.expires_at
FROM {schema}.tokens AS one ORDER BY one.name
