-- Delete the messages to be delivered in dialogs, since the original of this copy delivers them. The sides that have
-- sent them fail, because their later messages could never be delivered in order.
-- is: no seqscan
CREATE OR REPLACE FUNCTION {schema}.drop_transmission(why text, OUT messages bigint, OUT dialogs bigint)
AS $function$
DECLARE
    one record;
BEGIN
    messages := 0;
    dialogs := 0;
    FOR one IN
        SELECT known.handle FROM {schema}.endpoints AS known
        WHERE EXISTS (SELECT FROM {schema}.known_transmission AS waiting WHERE waiting.handle = known.handle)
        ORDER BY known.handle FOR UPDATE
    LOOP
        WITH gone AS (DELETE FROM {schema}.known_transmission AS waiting WHERE waiting.handle = one.handle RETURNING 1)
        SELECT messages + count(*) INTO messages FROM gone;
        dialogs := dialogs + 1;
        PERFORM {schema}.happen(one.handle, 'error comes', NULL, {COPY_CODE}, why);
    END LOOP;
END
$function$;
