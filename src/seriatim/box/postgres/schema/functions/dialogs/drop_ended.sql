-- Delete the messages for a side that ended while its turn had them in hand, and that were put back.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.drop_ended(handles uuid[]) RETURNS void
AS $function$
DECLARE
    one record;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY(
        SELECT known.queue_id FROM {schema}.endpoints AS known WHERE known.handle = ANY (handles)
    ));
    FOR one IN
        SELECT known.handle FROM {schema}.endpoints AS known
        WHERE known.handle = ANY (handles) AND known.state IN ('DO', 'CD')
    LOOP
        PERFORM {schema}.drop_unread(one.handle, ARRAY[]::text[], NULL);
    END LOOP;
END
$function$;
