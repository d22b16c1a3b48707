-- Return whether a process judges this box: one that was seen lately, and whose connection still is there.
-- is: no seqscan
CREATE OR REPLACE FUNCTION {schema}.is_judged() RETURNS boolean
AS $function$
BEGIN
    RETURN EXISTS (
        SELECT FROM {schema}.judges AS one
        WHERE one.seen_at > clock_timestamp() - {schema}.silence()
            AND (one.backend IS NULL OR {schema}.is_there('seriatim_' || one.backend))
    );
END
$function$;
