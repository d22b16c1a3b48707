-- Change the state of a side; a closed one has no timer any more, and keeps nothing.
-- is: generic plan
CREATE OR REPLACE FUNCTION {schema}.become(
    of_handle uuid, new_state text, code integer DEFAULT NULL, why text DEFAULT NULL
)
RETURNS void
AS $function$
BEGIN
    UPDATE {schema}.endpoints AS known SET
        state = new_state,
        timer_at = CASE WHEN new_state IN ('DO', 'ER', 'CD') THEN NULL ELSE known.timer_at END,
        expires_at = CASE WHEN new_state IN ('ER', 'CD') THEN NULL ELSE known.expires_at END,
        closed_at = CASE WHEN new_state = 'CD' THEN coalesce(known.closed_at, clock_timestamp()) END,
        error_code = coalesce(code, known.error_code), error = coalesce(why, known.error)
    WHERE known.handle = of_handle;
    IF new_state IN ('DO', 'CD') THEN
        DELETE FROM {schema}.dialog_messages WHERE handle = of_handle;
    END IF;
END
$function$;
