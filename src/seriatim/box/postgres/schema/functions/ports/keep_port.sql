-- Keep a claim for another `period`, count what the transaction has published, and go on to `new_position` (NULL: it stays).
-- Return FALSE if the claim is another process's, or the position isn't the `former_position` that the holder knows, as after a failover that
-- lost its last commits: the transaction must not commit. If it is `new_position`, the same was committed before, without an answer.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.keep_port(
    of_port text, of_partition text, of_token bigint, period interval, former_position jsonb, new_position jsonb,
    more_taken bigint, more_left_out bigint, more_reused bigint, more_refused bigint, present_problem text
) RETURNS boolean
AS $function$
BEGIN
    PERFORM {schema}.permit('publish', ARRAY[]::integer[]);
    UPDATE {schema}.ports SET
        expires_at = clock_timestamp() + period, seen_at = clock_timestamp(), position = coalesce(new_position, position),
        taken = taken + more_taken, left_out = left_out + more_left_out, id_reused = id_reused + more_reused,
        refused = refused + more_refused, problem = left(present_problem, 2000),
        last_taken_at = CASE WHEN more_taken > 0 THEN clock_timestamp() ELSE last_taken_at END
    WHERE port = of_port AND partition = of_partition AND token = of_token AND role = {schema}.caller()
        AND (position IS NOT DISTINCT FROM former_position OR position = new_position);
    RETURN FOUND;
END
$function$;
