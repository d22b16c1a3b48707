-- Delete the batches of a queue before this one, or keep them as history, as `complete` does.
-- is: no seqscan, no mergejoin
CREATE OR REPLACE FUNCTION {schema}.drop_batches(of_queue integer, before bigint, keep text) RETURNS void
-- A plan from a time of small tables must not read all of them when they are large.
AS $function$
BEGIN
    WITH finished AS (
        DELETE FROM {schema}.entries AS entry WHERE entry.queue_id = of_queue AND entry.batch < before
        RETURNING entry.*
    ), kept AS (
        INSERT INTO {schema}.history (
            entry_id, queue_id, group_key, incarnation, ordinal, late, arrival_id, position, sequence,
            subscription_ids, attempt
        )
        SELECT
            entry_id, queue_id, group_key, coalesce(known.incarnation, 0), finished.ordinal, late, arrival_id,
            position, sequence, subscription_ids, attempt
        FROM finished LEFT JOIN {schema}.known_groups AS known USING (queue_id, group_key)
        WHERE keep = 'everything' OR keep = 'faults' AND attempt > 0
    ), alone AS (
        DELETE FROM {schema}.spool AS stored USING finished
        WHERE stored.arrival_id = finished.arrival_id AND stored.position = finished.position
            AND stored.destinations = 1 AND (keep = 'nothing' OR keep = 'faults' AND finished.attempt = 0)
        RETURNING stored.arrival_id, stored.position
    )
    INSERT INTO {schema}.dropped (arrival_id, position)
    SELECT arrival_id, position FROM finished
    WHERE (keep = 'nothing' OR keep = 'faults' AND attempt = 0)
        AND NOT EXISTS (
            SELECT FROM alone WHERE alone.arrival_id = finished.arrival_id AND alone.position = finished.position
        );
END
$function$;
