-- Return whether a timer is due, or a lifetime over.
-- is: stable, definer, generic plan, no seqscan
CREATE OR REPLACE FUNCTION {schema}.is_due() RETURNS boolean
AS $function$
BEGIN
    PERFORM {schema}.permit_anything();
    RETURN EXISTS (SELECT FROM {schema}.endpoints AS known WHERE known.due_at <= clock_timestamp());
END
$function$;
