-- Return the ports through which messages have come in, with their partitions.
-- is: stable, definer
CREATE OR REPLACE FUNCTION {schema}.ports_known() RETURNS TABLE (
    port text, partition text, kind text, holder text, is_held boolean, held_since timestamptz, seen_at timestamptz,
    silent_s double precision, "position" text, taken bigint, left_out bigint, id_reused bigint, refused bigint,
    last_taken_at timestamptz, problem text
)
AS $function$
BEGIN
    PERFORM {schema}.permit_anything();
    RETURN QUERY SELECT
        known.port, known.partition, known.kind, known.holder, known.expires_at > clock_timestamp(), known.held_since,
        known.seen_at, greatest(extract(epoch FROM clock_timestamp() - known.seen_at), 0)::double precision,
        known.position::text, known.taken, known.left_out, known.id_reused, known.refused, known.last_taken_at, known.problem
    FROM {schema}.ports AS known ORDER BY known.port, known.partition;
END
$function$;
