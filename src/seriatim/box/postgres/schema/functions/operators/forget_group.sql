-- Forget a group, as `forget` does, if the caller may operate on its queue.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.forget_group(of_queue integer, of_group text, fresh bigint[]) RETURNS integer
AS $function$
BEGIN
    PERFORM {schema}.permit('operate', ARRAY[of_queue]);
    RETURN {schema}.forget(of_queue, of_group, fresh);
END
$function$;
