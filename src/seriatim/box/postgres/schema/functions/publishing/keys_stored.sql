-- Return where the messages of entries with keys are stored: a row for each entry whose message is among those stored.
-- is: sql, stable, 50 rows, no nestloop
CREATE OR REPLACE FUNCTION {schema}.keys_stored(
    of_queues integer[], keys text[], ids text[], stored_ids text[], arrivals bigint[], positions bigint[]
) RETURNS TABLE (queue_id integer, unique_key text, arrival_id bigint, "position" bigint)
AS $function$
    SELECT mine.queue_id, mine.unique_key, stored.arrival_id, stored.position
    FROM unnest(of_queues, keys, ids) AS mine (queue_id, unique_key, message_id)
    JOIN unnest(stored_ids, arrivals, positions) AS stored (message_id, arrival_id, position) USING (message_id)
    WHERE mine.unique_key IS NOT NULL
$function$;
