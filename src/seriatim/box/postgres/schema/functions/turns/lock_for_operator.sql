-- Lock a group for an operator, with a limited wait.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.lock_for_operator(
    of_queue integer, of_group text, patience_ms integer,
    OUT locked boolean, OUT now_us bigint, OUT isolation text, OUT version bigint
)
AS $function$
BEGIN
    PERFORM {schema}.permit('operate', ARRAY[of_queue]);
    locked := {schema}.lock_patiently(of_queue, of_group, patience_ms);
    now_us := {schema}.now_us();
    isolation := current_setting('transaction_isolation');
    version := (SELECT max(change.version) FROM {schema}.changes AS change);
END
$function$;
