-- Lock groups whose worker has learned that numbers are over elsewhere. Groups at work are left out: their turn comes
-- again.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.lock_copies(
    of_queue integer, of_groups text[], at_us bigint,
    OUT group_keys text[], OUT now_us bigint, OUT isolation text, OUT version bigint
)
AS $function$
DECLARE
    one text;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    group_keys := '{}';
    FOREACH one IN ARRAY of_groups LOOP
        IF pg_try_advisory_xact_lock({schema}.group_lock(of_queue, one)) AND NOT {schema}.is_leased(of_queue, one) THEN
            group_keys := group_keys || one;
        END IF;
    END LOOP;
    now_us := coalesce(at_us, {schema}.now_us());
    isolation := current_setting('transaction_isolation');
    version := (SELECT max(change.version) FROM {schema}.changes AS change);
END
$function$;
