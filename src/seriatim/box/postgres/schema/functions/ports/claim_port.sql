-- Claim a partition of a port, unless another process or role holds it; a claim ends when it wasn't kept for `period`. Return
-- its token and position, or no row. Each claim has a higher token, so that an earlier holder can't commit any more. Only the
-- role that claims keeps the claim, and gives it back.
-- is: definer, lock timeout 2s
CREATE OR REPLACE FUNCTION {schema}.claim_port(
    of_port text, of_partition text, of_kind text, by_holder text, period interval
) RETURNS TABLE (token bigint, "position" jsonb)
AS $function$
    #variable_conflict use_column
BEGIN
    PERFORM {schema}.permit('publish', ARRAY[]::integer[]);
    RETURN QUERY INSERT INTO {schema}.ports AS known (port, partition, kind, role, holder, expires_at)
    VALUES (of_port, of_partition, of_kind, {schema}.caller(), by_holder, clock_timestamp() + period)
    ON CONFLICT (port, partition) DO UPDATE SET
        kind = of_kind, role = excluded.role, token = known.token + 1, holder = by_holder, held_since = clock_timestamp(),
        seen_at = clock_timestamp(), expires_at = clock_timestamp() + period, problem = NULL
    WHERE known.expires_at <= clock_timestamp() OR (known.holder, known.role) = (excluded.holder, excluded.role)
    RETURNING known.token, known.position;
END
$function$;
