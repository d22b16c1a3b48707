-- Purpose: of the next references that are gone, delete the messages without any reference left. One statement: so it
-- sees a reference that moves between two tables in one of them.
-- Locks: the notes, and the deleted rows of the spool, which no other transaction needs.
-- Index: dropped_pkey, entries_of_message, aside_of_message, history_of_message, unrouted_pkey, to_route_pkey,
-- replies_pkey, region_numbers_of_place, spool_pkey.
WITH noted AS (
    DELETE FROM {schema}.dropped WHERE drop_id IN (
        SELECT drop_id FROM {schema}.dropped WHERE drop_id > %(after)s ORDER BY drop_id LIMIT %(batch)s
    ) RETURNING drop_id, arrival_id, position
), loose AS MATERIALIZED (
    SELECT DISTINCT arrival_id, position FROM noted AS message
    WHERE {is_loose()}
), gone AS (
    DELETE FROM {schema}.spool AS stored USING loose
    WHERE stored.arrival_id = loose.arrival_id AND stored.position = loose.position
    RETURNING octet_length(stored.body) AS octets
)
SELECT
    (SELECT count(*) FROM noted) AS looked,
    (SELECT coalesce(max(drop_id), 0) FROM noted) AS after,
    (SELECT count(*) FROM gone) AS messages,
    (SELECT coalesce(sum(octets), 0)::bigint FROM gone) AS message_bytes
