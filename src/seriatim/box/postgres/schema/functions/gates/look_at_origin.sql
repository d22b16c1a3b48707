-- Request a look at groups of an origin queue whose gate was full, and has room again.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.look_at_origin(of_gate integer, of_origin integer, of_groups text[]) RETURNS void
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_gate]);
    -- An unordered queue is asked for messages, and no group of it is judged.
    INSERT INTO {schema}.requests (queue_id, group_key, action, rank)
    SELECT of_origin, group_key, 'look', {schema}.now_us() FROM unnest(of_groups) AS wanted (group_key)
    WHERE (SELECT definition #>> '{policy,name}' FROM {schema}.queues WHERE queue_id = of_origin) <> 'unordered';
    PERFORM {schema}.call_waiters(ARRAY[of_origin], cardinality(of_groups));
END
$function$;
