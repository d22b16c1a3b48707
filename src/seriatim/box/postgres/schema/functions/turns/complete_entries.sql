-- Complete messages that were handed out: delete them, or keep them as history. `keep`: `nothing`, `everything`, or
-- else only messages that have failed before. A message with a single destination is deleted with its entry; with
-- more, no receiver can know whether it is the last, so that is left to the clean-up. `ordinals`, `lates`: as they
-- were handed out; the places of late ones are late at their gate, too. `of_incarnation`: that of their group; NULL:
-- each has its own group's. The caller has the group of the entries, or the entries, in hand.
-- is: definer, generic plan, no seqscan, no bitmapscan, no hashjoin, no mergejoin
CREATE OR REPLACE FUNCTION {schema}.complete_entries(
    of_queue integer, entry_ids bigint[], ordinals bigint[], lates boolean[], of_incarnation integer, keep text
) RETURNS void
AS $function$
DECLARE
    arrivals bigint[];
    positions bigint[];
    alone bigint;
    looks text[];
BEGIN
    PERFORM {schema}.permit_entries('receive', of_queue, entry_ids);
    IF TRUE = ANY (lates) THEN
        INSERT INTO {schema}.late_places (gate_id, group_key, number)
        SELECT entry.gate_id, entry.group_key, handed.ordinal
        FROM unnest(entry_ids, ordinals, lates) AS handed (entry_id, ordinal, late)
        JOIN {schema}.entries AS entry ON entry.entry_id = ANY (ARRAY[handed.entry_id])
        WHERE handed.late AND handed.ordinal IS NOT NULL AND entry.gate_id <> entry.queue_id
            AND entry.origin_number IS NULL
        ON CONFLICT DO NOTHING;
    END IF;
    IF keep = 'nothing' THEN
        PERFORM set_config('seriatim.looks', 'together', TRUE);
        WITH done AS (
            DELETE FROM {schema}.entries WHERE entry_id = ANY (entry_ids)
            RETURNING arrival_id, position,
                CASE WHEN gate_id <> queue_id THEN gate_id || ' ' || coalesce(origin_group, group_key) END AS looked
        ), alone AS (
            DELETE FROM {schema}.spool AS stored USING done
            WHERE stored.arrival_id = ANY (ARRAY[done.arrival_id]) AND stored.position = ANY (ARRAY[done.position])
                AND stored.destinations = 1
            RETURNING stored.position
        )
        SELECT
            array_agg(done.arrival_id), array_agg(done.position), (SELECT count(*) FROM alone),
            array_agg(DISTINCT done.looked) FILTER (WHERE done.looked IS NOT NULL)
        INTO arrivals, positions, alone, looks FROM done;
        PERFORM set_config('seriatim.looks', '', TRUE);
        IF looks IS NOT NULL THEN
            PERFORM {schema}.look_at_gates(looks);
        END IF;
    ELSE
        WITH done AS (
            DELETE FROM {schema}.entries AS entry USING unnest(entry_ids, ordinals, lates)
                AS handed (entry_id, ordinal, late)
            WHERE entry.entry_id = ANY (ARRAY[handed.entry_id])
            RETURNING entry.*, handed.ordinal AS handed_ordinal, handed.late AS handed_late
        ), kept AS (
            INSERT INTO {schema}.history (
                entry_id, queue_id, group_key, incarnation, ordinal, late, arrival_id, position, sequence,
                subscription_ids, attempt
            )
            SELECT
                entry_id, queue_id, group_key, coalesce(of_incarnation, (
                    SELECT known.incarnation FROM {schema}.known_groups AS known
                    WHERE known.queue_id = done.queue_id AND known.group_key = done.group_key
                ), 0), handed_ordinal, handed_late, arrival_id, position, sequence, subscription_ids, attempt
            FROM done WHERE keep = 'everything' OR attempt > 0
        ), alone AS (
            DELETE FROM {schema}.spool AS stored USING done
            WHERE stored.arrival_id = ANY (ARRAY[done.arrival_id]) AND stored.position = ANY (ARRAY[done.position])
                AND stored.destinations = 1 AND done.attempt = 0 AND keep <> 'everything'
            RETURNING stored.position
        )
        SELECT array_agg(done.arrival_id), array_agg(done.position), (SELECT count(*) FROM alone)
        INTO arrivals, positions, alone FROM done WHERE attempt = 0 AND keep <> 'everything';
    END IF;
    IF cardinality(arrivals) > alone THEN
        INSERT INTO {schema}.dropped (arrival_id, position)
        SELECT arrival_id, position FROM unnest(arrivals, positions) AS done (arrival_id, position)
        WHERE EXISTS (
            SELECT FROM {schema}.spool AS stored
            WHERE stored.arrival_id = ANY (ARRAY[done.arrival_id]) AND stored.position = ANY (ARRAY[done.position])
        );
    END IF;
END
$function$;
