-- Number messages of ended transactions that weren't numbered, because the trigger was switched off. They get the
-- next numbers of their locations, in the order of publishing, when this transaction commits. Return how many there
-- were.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.number_left() RETURNS bigint
AS $function$
DECLARE
    numbered bigint;
BEGIN
    PERFORM {schema}.permit('route', ARRAY[]::integer[]);
    -- Rows of a running transaction are visible to no other.
    WITH gone AS (
        DELETE FROM {schema}.arrivals WHERE transaction IS DISTINCT FROM pg_current_xact_id_if_assigned() RETURNING *
    ), again AS (
        INSERT INTO {schema}.arrivals (
            arrival_id, location, count, queue_ids, publisher, permitted, numbered_queues, entered, serial
        )
        SELECT arrival_id, location, count, queue_ids, publisher, permitted, numbered_queues, entered, serial FROM gone
        RETURNING count
    )
    SELECT coalesce(sum(count), 0) INTO numbered FROM again;
    RETURN numbered;
END
$function$;
