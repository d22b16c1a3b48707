-- Set the timer of a side, or remove it with NULL.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.try_set_timer(
    of_handle uuid, delay interval, OUT refused text, OUT what text, OUT remedy text
)
AS $function$
DECLARE
    own record;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[]::integer[]);
    PERFORM {schema}.lock_dialogs(ARRAY[of_handle]);
    SELECT known.queue_id, rule.refusal INTO own FROM {schema}.endpoints AS known
    JOIN {schema}.dialog_rules AS rule
        ON rule.verb = 'set timer' AND rule.state = {schema}.state_now(known.state, known.expires_at)
    WHERE known.handle = of_handle FOR NO KEY UPDATE OF known;
    IF NOT FOUND THEN
        refused := 'usage';
        what := format('there is no dialog with the handle %s', of_handle);
        RETURN;
    END IF;
    PERFORM {schema}.permit('receive', ARRAY[own.queue_id]);
    IF own.refusal IS NOT NULL THEN
        refused := 'refused';
        what := format('the dialog %s takes no timer: %s', of_handle, own.refusal);
        RETURN;
    END IF;
    UPDATE {schema}.endpoints AS known SET timer_at = clock_timestamp() + delay, timer_set_at = clock_timestamp()
    WHERE known.handle = of_handle;
END
$function$;
