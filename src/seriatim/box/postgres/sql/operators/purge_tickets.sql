-- Purpose: of the next tickets, delete those whose messages are gone, but of a location never the newest: the next
-- number is computed from it. The sweep continues where it stopped, and begins anew at the end.
-- Locks: the deleted rows, which no other transaction needs; the box's row of keeping.
-- Index: tickets_arrival_id_key, spool_pkey, tickets_pkey.
WITH looked AS MATERIALIZED (
    SELECT location, epoch, number, arrival_id FROM {schema}.tickets
    WHERE arrival_id > (SELECT swept_through FROM {schema}.keeping)
    ORDER BY arrival_id LIMIT %(batch)s
), gone AS (
    DELETE FROM {schema}.tickets AS run USING looked
    WHERE run.arrival_id = looked.arrival_id
        AND NOT EXISTS (SELECT FROM {schema}.spool AS stored WHERE stored.arrival_id = looked.arrival_id)
        AND EXISTS (
            SELECT FROM {schema}.tickets AS newer
            WHERE newer.location = looked.location AND (newer.epoch, newer.number) > (looked.epoch, looked.number)
        )
    RETURNING run.arrival_id
), moved AS (
    UPDATE {schema}.keeping SET swept_through = CASE
        WHEN (SELECT count(*) FROM looked) < %(batch)s THEN 0 ELSE (SELECT max(arrival_id) FROM looked) END
    RETURNING swept_through
)
SELECT (SELECT swept_through FROM moved) AS through, (SELECT count(*) FROM gone) AS tickets
