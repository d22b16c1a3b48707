-- Purpose: delete the next tickets that were dispensed at once and belong to no message, but of a location never the
-- newest.
-- Locks: the deleted rows, which no other transaction needs.
-- Index: tickets_arrival_id_key, tickets_pkey.
WITH old AS MATERIALIZED (
    SELECT location, epoch, number FROM {schema}.tickets AS run
    WHERE arrival_id IS NULL AND EXISTS (
        SELECT FROM {schema}.tickets AS newer
        WHERE newer.location = run.location AND (newer.epoch, newer.number) > (run.epoch, run.number)
    )
    LIMIT %(batch)s
), gone AS (
    DELETE FROM {schema}.tickets AS run USING old
    WHERE run.location = old.location AND run.epoch = old.epoch AND run.number = old.number
    RETURNING run.number
)
SELECT count(*) AS tickets FROM gone
