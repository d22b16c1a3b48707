-- Give slots back.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.leave_slots(of_queue integer, slots integer[]) RETURNS SETOF boolean
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    RETURN QUERY SELECT pg_advisory_unlock({schema}.lock_of('reader ' || of_queue || ' ' || slot))
    FROM unnest(slots) AS slot;
END
$function$;
