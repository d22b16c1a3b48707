-- `turn_entries` for a gate: its arrivals are the results of closed places, from `close_places`. All held messages
-- are included, because there are few places.
-- is: definer, generic plan, no seqscan, no bitmapscan, no hashjoin, no mergejoin, no sort
CREATE OR REPLACE FUNCTION {schema}.turn_entries_gate(
    of_queue integer, of_groups text[], at_most integer, through bigint[], behind bigint[]
)
RETURNS TABLE (
    places bigint[], codes integer[], entry_ids bigint[], sequences bigint[], sizes bigint[], ranks bigint[],
    visible bigint[],
    arrivals bigint[], ordinals bigint[], late boolean[], waits boolean[], times bigint[], meanings text[]
)
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.permit('judge', ARRAY[of_queue]);
    RETURN QUERY
    SELECT
        {turn_columns()},
        array_agg(greatest(came, (extract(epoch FROM visible_at) * 1000000)::bigint)) AS times,
        NULL::text[] AS meanings
    FROM (
        SELECT
            wanted.place - 1 AS place, 0 AS code, one.entry_id, one.sequence, one.size, one.rank, one.subscription_ids,
            one.visible_at, one.arrival, one.ordinal, one.late, one.waits,
            coalesce(one.arrived_us, run.arrived_us) AS came, coalesce(one.stamp, run.stamp) AS first_by,
            one.serial AS then_by
        FROM unnest(of_groups, through, behind) WITH ORDINALITY AS wanted (group_key, last, nearest, place)
        CROSS JOIN LATERAL (
            (
                SELECT * FROM {schema}.entries
                WHERE queue_id = of_queue AND group_key = wanted.group_key AND status = 'placed'
                    AND origin_number <= wanted.last
            ) UNION ALL (
                SELECT * FROM {schema}.entries
                WHERE queue_id = of_queue AND group_key = wanted.group_key AND status = 'placed'
                    AND origin_number = wanted.nearest
            ) UNION ALL (
                SELECT * FROM {schema}.entries
                WHERE queue_id = of_queue AND group_key = wanted.group_key AND status >= 'arrived'
                    AND status <= 'arrived'
            )
        ) AS one
        JOIN {schema}.tickets AS run ON run.arrival_id = ANY (ARRAY[one.arrival_id])
        UNION ALL
        SELECT
            wanted.place - 1, CASE one.status WHEN 'held' THEN 1 ELSE 2 END, one.entry_id, one.sequence, one.size,
            one.rank,
            one.subscription_ids, one.visible_at, one.arrival, one.ordinal, one.late, one.waits, one.arrived_us,
            CASE one.status WHEN 'held' THEN one.arrival ELSE one.ordinal END, 0
        FROM unnest(of_groups) WITH ORDINALITY AS wanted (group_key, place)
        CROSS JOIN LATERAL (
            (
                SELECT * FROM {schema}.entries
                WHERE queue_id = of_queue AND group_key = wanted.group_key AND status >= 'held' AND status <= 'held'
            ) UNION ALL (
                SELECT * FROM {schema}.entries
                WHERE queue_id = of_queue AND group_key = wanted.group_key AND status = 'queued'
                ORDER BY ordinal LIMIT at_most
            )
        ) AS one
        ORDER BY place, code, first_by, then_by
    ) AS found;
END
$function$;
