-- Hide messages that come into queues once more until their published moment.
CREATE OR REPLACE FUNCTION {schema}.hide_again(
    arrival_ids bigint[], positions bigint[], of_queues integer[]
) RETURNS void
AS $function$
BEGIN
    UPDATE {schema}.entries AS entry SET visible_at = stored.visible_at
    FROM unnest(arrival_ids, positions) AS message (arrival_id, position)
    JOIN {schema}.spool AS stored
        ON stored.arrival_id = ANY (ARRAY[message.arrival_id]) AND stored.position = ANY (ARRAY[message.position])
    WHERE entry.arrival_id = ANY (ARRAY[message.arrival_id]) AND entry.position = ANY (ARRAY[message.position])
        AND entry.queue_id = ANY (of_queues) AND stored.visible_at > clock_timestamp();
END
$function$;
