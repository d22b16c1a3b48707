-- Return whether a timer is due, a lifetime over, or something has come from another box.
-- is: stable, definer, generic plan, no seqscan
CREATE OR REPLACE FUNCTION {schema}.is_due() RETURNS boolean
AS $function$
DECLARE
    -- An index is read up to it. By a clock that moves on it would be read to its end.
    moment CONSTANT timestamptz := clock_timestamp();
BEGIN
    PERFORM {schema}.permit_anything();
    RETURN EXISTS (SELECT FROM {schema}.endpoints AS known WHERE known.due_at <= moment)
        OR EXISTS (
            SELECT FROM {schema}.dialog_inbox AS come
            WHERE coalesce(come.failed_at < moment - interval '1 minute', TRUE)
        );
END
$function$;
