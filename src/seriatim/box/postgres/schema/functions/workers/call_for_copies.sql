-- Notify receivers: its messages may be handed out after that, and none was notified.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.call_for_copies(of_queue integer, how_many bigint) RETURNS void
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    PERFORM {schema}.call_waiters(ARRAY[of_queue], how_many);
END
$function$;
