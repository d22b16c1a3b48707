-- Return the entries of a turn's groups, as columns: the first that arrived (code 0), in order of commit, and within
-- a transaction of publishing; the first that are held (1), by number, and the first late ones, by arrival; the first
-- that are queued (2), by ordinal; and, of a group that holds more than is read, those that are held with the number
-- of an arrival (3), some perhaps twice. Of each group at most `most_arrived`, `most_held` and `at_most`. `places`
-- counts groups from 0. The caller has locked the groups.
--
-- `unrouted`: messages published through SQL wait to be routed. Messages that were committed after these stay out; it
-- is one statement, so a caller that sees the former sees the latter. `settled`, `unsettled`: see `is_left`.
--
-- Rows that are needed in the order of an index are read in that order.
-- is: definer, generic plan, no seqscan, no bitmapscan, no hashjoin, no mergejoin, no sort
CREATE OR REPLACE FUNCTION {schema}.turn_entries(
    of_queue integer, of_groups text[], at_most integer, most_arrived integer, most_held integer,
    settled xid8 DEFAULT '0', unsettled xid8[] DEFAULT '{}'
) RETURNS TABLE (
    places bigint[], codes integer[], entry_ids bigint[], sequences bigint[], sizes bigint[], ranks bigint[],
    visible bigint[], arrivals bigint[], ordinals bigint[], late boolean[], waits boolean[], unrouted boolean,
    times bigint[], meanings text[]
)
AS $function$
#variable_conflict use_column
DECLARE
    unplaced text[];
    long text[];
BEGIN
    PERFORM {schema}.permit('judge', ARRAY[of_queue]);
    -- The groups with more arrivals than a turn takes in, which only their tickets can put in order, and those
    -- that hold more than it reads.
    SELECT
        array_agg(group_key) FILTER (WHERE most_arrived > 0 AND EXISTS (
            SELECT FROM {schema}.entries AS entry
            WHERE entry.queue_id = of_queue AND entry.group_key = wanted.group_key
                AND entry.status >= 'arrived' AND entry.status <= 'arrived' AND entry.stamp IS NULL
            OFFSET most_arrived
        )),
        array_agg(group_key) FILTER (WHERE EXISTS (
            SELECT FROM {schema}.known_groups AS known
            WHERE known.queue_id = of_queue AND known.group_key = wanted.group_key
                AND known.arrivals - (SELECT sum(one) FROM unnest(known.decided) AS one) > most_held
        ))
    INTO unplaced, long
    FROM unnest(of_groups) AS wanted (group_key);
    IF unplaced IS NOT NULL THEN
        -- Stored once, or each turn would have to sort them all.
        UPDATE {schema}.entries AS entry SET stamp = run.stamp, arrived_us = coalesce(entry.arrived_us, run.arrived_us)
        FROM {schema}.tickets AS run
        WHERE entry.queue_id = of_queue AND entry.group_key = ANY (unplaced)
            AND entry.status >= 'arrived' AND entry.status <= 'arrived' AND entry.stamp IS NULL
            AND run.arrival_id = ANY (ARRAY[entry.arrival_id]);
    END IF;
    RETURN QUERY
    WITH around AS MATERIALIZED (
        SELECT left_over.unrouted, coalesce(first.stamp, 9223372036854775807) AS bound, first.serial AS bound_serial
        FROM (SELECT {schema}.is_left(settled, unsettled) AS unrouted OFFSET 0) AS left_over
        LEFT JOIN LATERAL (
            SELECT waiting.stamp, waiting.serial FROM {schema}.to_route AS waiting
            -- Only if it holds back some: messages that were routed before stay there until they are
            -- vacuumed.
            WHERE left_over.unrouted AND EXISTS (
                SELECT FROM {schema}.entries AS entry
                WHERE entry.queue_id = of_queue AND entry.group_key = ANY (of_groups)
                    AND entry.status >= 'arrived' AND entry.status <= 'arrived'
            )
            ORDER BY waiting.stamp, waiting.serial LIMIT 1
        ) AS first ON TRUE
    ), come AS MATERIALIZED (
        SELECT wanted.place - 1 AS place, first.*
        FROM unnest(of_groups) WITH ORDINALITY AS wanted (group_key, place)
        CROSS JOIN LATERAL (
            SELECT one.* FROM (
                (
                    SELECT entry.*, entry.stamp AS first_by, coalesce(entry.arrived_us, (
                        SELECT run.arrived_us FROM {schema}.tickets AS run WHERE run.arrival_id = entry.arrival_id
                    )) AS came
                    FROM {schema}.entries AS entry
                    -- Written so that the index of all arrivals isn't one to choose, and in the
                    -- order of the other.
                    WHERE entry.queue_id = of_queue AND entry.group_key = wanted.group_key
                        AND entry.status >= 'arrived' AND entry.status <= 'arrived'
                        AND (entry.stamp, entry.serial) < (SELECT bound, bound_serial FROM around)
                    ORDER BY entry.status, entry.ordinal, entry.stamp NULLS FIRST, entry.serial
                    LIMIT most_arrived
                ) UNION ALL (
                    SELECT entry.*, run.stamp, coalesce(entry.arrived_us, run.arrived_us)
                    FROM {schema}.entries AS entry
                    JOIN {schema}.tickets AS run ON run.arrival_id = ANY (ARRAY[entry.arrival_id])
                    WHERE entry.queue_id = of_queue AND entry.group_key = wanted.group_key
                        AND entry.status >= 'arrived' AND entry.status <= 'arrived' AND entry.stamp IS NULL
                        AND (run.stamp, entry.serial) < (SELECT bound, bound_serial FROM around)
                )
            ) AS one
            ORDER BY one.first_by, one.serial LIMIT most_arrived
        ) AS first
    )
    SELECT
        {turn_columns()},
        (SELECT unrouted FROM around) AS unrouted,
        array_agg(greatest(came, (extract(epoch FROM visible_at) * 1000000)::bigint)) AS times,
        array_agg(meaning::text) AS meanings
    FROM (
        SELECT
            place, 0 AS code, entry_id, sequence, size, meaning, rank, subscription_ids, visible_at, arrival, ordinal, late,
            waits, came, first_by, serial AS then_by
        FROM come
        UNION ALL
        SELECT
            wanted.place - 1, 1, one.entry_id, one.sequence, one.size, one.meaning, one.rank, one.subscription_ids, one.visible_at,
            one.arrival, one.ordinal, one.late, one.waits, one.arrived_us, one.arrival, 0
        FROM unnest(of_groups) WITH ORDINALITY AS wanted (group_key, place)
        CROSS JOIN LATERAL (
            (
                SELECT entry.* FROM {schema}.entries AS entry
                WHERE entry.queue_id = of_queue AND entry.group_key = wanted.group_key
                    AND entry.status = 'held' AND NOT entry.late
                ORDER BY entry.sequence, entry.arrival LIMIT most_held
            ) UNION ALL (
                SELECT entry.* FROM {schema}.entries AS entry
                WHERE entry.queue_id = of_queue AND entry.group_key = wanted.group_key
                    AND entry.status = 'held' AND entry.late
                ORDER BY entry.arrival LIMIT most_held
            )
        ) AS one
        UNION ALL
        SELECT
            wanted.place - 1, 2, one.entry_id, one.sequence, one.size, one.meaning, one.rank, one.subscription_ids, one.visible_at,
            one.arrival, one.ordinal, one.late, one.waits, NULL, one.ordinal, 0
        FROM unnest(of_groups) WITH ORDINALITY AS wanted (group_key, place)
        CROSS JOIN LATERAL (
            SELECT * FROM {schema}.entries
            WHERE queue_id = of_queue AND group_key = wanted.group_key AND status = 'queued'
            ORDER BY ordinal LIMIT at_most
        ) AS one
        UNION ALL
        SELECT
            come.place, 3, same.entry_id, same.sequence, same.size, same.meaning, same.rank, same.subscription_ids, same.visible_at,
            same.arrival, same.ordinal, same.late, same.waits, same.arrived_us, same.arrival, 0
        FROM come CROSS JOIN LATERAL (
            SELECT entry.* FROM {schema}.entries AS entry
            WHERE entry.queue_id = of_queue AND entry.group_key = come.group_key
                AND entry.status = 'held' AND NOT entry.late
                AND entry.sequence >= come.sequence AND entry.sequence <= come.sequence
            ORDER BY entry.sequence, entry.arrival LIMIT 1
        ) AS same
        WHERE long IS NOT NULL AND come.group_key = ANY (long)
        ORDER BY place, code, first_by, then_by
    ) AS found;
END
$function$;
