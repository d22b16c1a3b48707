-- Note through which number a session is over; it never goes back. An unknown session is known up to there.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.note_over(of_queue integer, of_groups text[], throughs bigint[]) RETURNS void
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    INSERT INTO {schema}.region_sessions AS known (queue_id, session, through, over_through)
    SELECT of_queue, told.group_key, max(told.through), max(told.through)
    FROM unnest(of_groups, throughs) AS told (group_key, through)
    WHERE told.through IS NOT NULL
    GROUP BY told.group_key
    ORDER BY told.group_key
    ON CONFLICT (queue_id, session) DO UPDATE SET
        through = greatest(known.through, excluded.through), over_through = excluded.over_through
    WHERE known.over_through IS NULL OR known.over_through < excluded.over_through;
END
$function$;
