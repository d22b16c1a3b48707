-- Let the clocks of groups begin now where they begin at a time that is still to come: of the named group, which the
-- caller has locked, or of all groups of a queue that nobody works on. What arrived in that time arrives now. A group
-- with a message that may not be seen before a time is left out: its clock may well begin then. Answers with the number
-- of groups. They are due at once, so that the next turn finds when they are due.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.put_right(of_queue integer, named text) RETURNS integer
AS $function$
DECLARE
    at_us bigint := {schema}.now_us();
    keys text[] := ARRAY[]::text[];
    candidate text;
BEGIN
    PERFORM {schema}.permit('judge', ARRAY[of_queue]);
    FOR candidate IN
        SELECT found.group_key FROM (
            SELECT known.group_key FROM {schema}.known_groups AS known
            WHERE known.queue_id = of_queue AND (named IS NULL OR known.group_key = named)
                AND (
                    known.since > at_us OR known.clock > at_us OR known.flags & {flag.LEAVING} <> 0
                        AND known.mark > at_us
                )
            UNION
            SELECT entry.group_key
            FROM {schema}.entries AS entry
            JOIN {schema}.tickets AS run ON run.arrival_id = ANY (ARRAY[entry.arrival_id])
            WHERE entry.queue_id = of_queue AND (named IS NULL OR entry.group_key = named) AND entry.status = 'arrived'
                AND coalesce(entry.arrived_us, run.arrived_us) > at_us
        ) AS found
        WHERE NOT EXISTS (
            SELECT FROM {schema}.entries AS entry
            WHERE entry.queue_id = of_queue AND entry.group_key = found.group_key
                AND entry.visible_at > clock_timestamp()
        )
        ORDER BY found.group_key
    LOOP
        CONTINUE WHEN NOT pg_try_advisory_xact_lock({schema}.group_lock(of_queue, candidate));
        CONTINUE WHEN EXISTS (
            SELECT FROM {schema}.leases AS lease WHERE lease.queue_id = of_queue AND lease.group_key = candidate
        );
        keys := keys || candidate;
    END LOOP;
    UPDATE {schema}.entries AS entry SET arrived_us = at_us
    FROM {schema}.tickets AS run
    WHERE entry.queue_id = of_queue AND entry.group_key = ANY (keys) AND entry.status IN ('arrived', 'held')
        AND run.arrival_id = ANY (ARRAY[entry.arrival_id]) AND coalesce(entry.arrived_us, run.arrived_us) > at_us;
    UPDATE {schema}.known_groups AS known SET
        since = least(known.since, at_us), clock = least(known.clock, at_us),
        mark = CASE WHEN known.flags & {flag.LEAVING} <> 0 THEN least(known.mark, at_us) ELSE known.mark END,
        due_at = CASE WHEN known.due_at IS NOT NULL THEN least(known.due_at, at_us) END
    WHERE known.queue_id = of_queue AND known.group_key = ANY (keys);
    RETURN cardinality(keys);
END
$function$;
