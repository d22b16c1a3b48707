-- Take free slots of a queue's readers, for as long as the connection lasts.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.take_slots(of_queue integer, slots integer[]) RETURNS SETOF integer
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    RETURN QUERY SELECT slot FROM unnest(slots) AS slot
    WHERE pg_try_advisory_lock({schema}.lock_of('reader ' || of_queue || ' ' || slot));
END
$function$;
