-- Return whether a timer is due, a lifetime over, or something has come from another box.
-- is: stable, definer, generic plan, no seqscan
CREATE OR REPLACE FUNCTION {schema}.is_due() RETURNS boolean
AS $function$
BEGIN
    PERFORM {schema}.permit_anything();
    RETURN EXISTS (SELECT FROM {schema}.endpoints AS known WHERE known.due_at <= clock_timestamp())
        OR EXISTS (
            SELECT FROM {schema}.dialog_inbox AS come
            WHERE coalesce(come.failed_at < clock_timestamp() - interval '1 minute', TRUE)
        );
END
$function$;
