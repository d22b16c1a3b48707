-- Return the processes that judge this box; `is_there`: one was seen lately, and its connection still is there.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.judges_here()
RETURNS TABLE (
    name text, host text, pid integer, role name, started_at timestamptz, seen_at timestamptz, is_there boolean,
    listens boolean
)
AS $function$
BEGIN
    PERFORM {schema}.permit_anything();
    RETURN QUERY
    SELECT one.name, one.host, one.pid, one.role, one.since, one.seen_at,
        one.seen_at > clock_timestamp() - {schema}.silence()
            AND (one.backend IS NULL OR {schema}.is_there('seriatim_' || one.backend)),
        one.backend IS NOT NULL
    FROM {schema}.judges AS one ORDER BY one.since;
END
$function$;
