-- Lock the next groups of a queue that have something to do, to judge them before they are requested; none if another
-- process does that already. Judging can be repeated: if any are locked, no receiver has to wait until it is on disk.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.lock_ahead(
    of_queue integer, how_many integer, at_us bigint, from_rank bigint,
    OUT group_keys text[], OUT now_us bigint, OUT isolation text, OUT version bigint
)
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    now_us := coalesce(at_us, {schema}.now_us());
    isolation := current_setting('transaction_isolation');
    version := (SELECT max(change.version) FROM {schema}.changes AS change);
    group_keys := CASE
        WHEN pg_try_advisory_xact_lock(
            hashtextextended('seriatim judging ' || of_queue, '{schema}'::regnamespace::oid::bigint)
        )
        THEN {schema}.lock_next(of_queue, how_many, now_us, from_rank)
        ELSE ARRAY[]::text[]
    END;
    IF cardinality(group_keys) > 0 THEN
        PERFORM set_config('synchronous_commit', 'off', TRUE);
    END IF;
END
$function$;
