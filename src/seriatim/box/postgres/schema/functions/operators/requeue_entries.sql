-- Requeue messages, as `requeue` does, if the caller may operate on their queue.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.requeue_entries(
    of_queue integer, of_group text, of_entries bigint[], its_statuses text[], its_ordinals bigint[],
    to_the_end boolean[]
) RETURNS bigint
AS $function$
BEGIN
    PERFORM {schema}.permit('operate', ARRAY[of_queue]);
    RETURN {schema}.requeue(of_queue, of_group, of_entries, its_statuses, its_ordinals, to_the_end);
END
$function$;
