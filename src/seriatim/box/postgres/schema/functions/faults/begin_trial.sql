-- Put a group on trial whose last turn was rolled back: it comes after the others, and its next `how_many` messages
-- are handed out one at a time.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.begin_trial(of_queue integer, of_group text, how_many integer) RETURNS void
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    INSERT INTO {schema}.trials (queue_id, unit, group_key, remaining)
    VALUES (of_queue, of_group, of_group, how_many)
    ON CONFLICT DO NOTHING;
END
$function$;
