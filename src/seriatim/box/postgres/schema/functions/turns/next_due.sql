-- Return the seconds until the next timer of a queue, or of any dialog, is due; NULL: there is none.
-- is: stable, definer
CREATE OR REPLACE FUNCTION {schema}.next_due(of_queue integer) RETURNS float8
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    RETURN (
        SELECT least(
            (
                SELECT (min(due_at) - {schema}.now_us()) / 1e6::float8 FROM {schema}.known_groups
                WHERE queue_id = of_queue AND due_at IS NOT NULL
            ),
            -- A due timer that still exists is in work elsewhere: it is checked again after a pause.
            (
                SELECT greatest(extract(epoch FROM due_at - clock_timestamp())::float8, 0.05) FROM {schema}.endpoints
                WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1
            )
        )
    );
END
$function$;
