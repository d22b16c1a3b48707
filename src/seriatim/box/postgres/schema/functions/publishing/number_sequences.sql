-- Give entries of some arrivals in these queues the positions of their tickets as sequences. A location's positions go
-- on by one over its epochs, which have `last_number` numbers each.
-- is: generic plan, no seqscan, no bitmapscan, no hashjoin, no mergejoin
CREATE OR REPLACE FUNCTION {schema}.number_sequences(of_queues integer[], of_arrivals bigint[]) RETURNS void
AS $function$
BEGIN
    UPDATE {schema}.entries AS entry SET sequence = run.epoch * place.last_number + run.number + entry.position
    FROM (SELECT DISTINCT unnest(of_arrivals) AS arrival_id) AS one
    JOIN {schema}.tickets AS run ON run.arrival_id = ANY (ARRAY[one.arrival_id])
    JOIN {schema}.locations AS place ON place.location = run.location
    WHERE entry.arrival_id = ANY (ARRAY[one.arrival_id]) AND (entry.queue_id = ANY (of_queues)) IS TRUE;
END
$function$;
