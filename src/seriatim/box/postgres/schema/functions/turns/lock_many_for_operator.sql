-- Lock groups of a queue for an operator, in the order of their keys; with a limited wait for each, and for all of
-- them at most the time of forty. Groups that others keep, or that are in a lease, are left out.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.lock_many_for_operator(
    of_queue integer, of_groups text[], patience_ms integer,
    OUT group_keys text[], OUT now_us bigint, OUT isolation text, OUT version bigint
)
AS $function$
DECLARE
    one text;
    ends_at timestamptz := clock_timestamp() + make_interval(secs => patience_ms * 40 / 1000.0);
BEGIN
    PERFORM {schema}.permit('operate', ARRAY[of_queue]);
    group_keys := '{}';
    FOREACH one IN ARRAY of_groups LOOP
        IF {schema}.lock_patiently(
            of_queue, one, CASE WHEN clock_timestamp() < ends_at THEN patience_ms ELSE 1 END
        ) THEN
            group_keys := group_keys || one;
        END IF;
    END LOOP;
    now_us := {schema}.now_us();
    isolation := current_setting('transaction_isolation');
    version := (SELECT max(change.version) FROM {schema}.changes AS change);
END
$function$;
