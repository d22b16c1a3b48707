-- Insert messages that go ahead, of the groups of a turn, before the queued ones: they get the first ordinals that
-- haven't left yet, and the others move up. The caller has locked the groups. `fresh`: the state of a new group.
-- is: definer, generic plan, no seqscan
CREATE OR REPLACE FUNCTION {schema}.place_ahead(of_queue integer, of_groups text[], fresh bigint[]) RETURNS integer
AS $function$
#variable_conflict use_column
DECLARE
    one record;
    lowest bigint;
    counted record;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    FOR one IN
        SELECT entry.group_key, array_agg(entry.entry_id ORDER BY run.stamp, entry.serial) AS ids,
            count(*) AS messages
        FROM {schema}.entries AS entry JOIN {schema}.tickets AS run ON run.arrival_id = ANY (ARRAY[entry.arrival_id])
        WHERE entry.queue_id = of_queue AND entry.group_key = ANY (of_groups)
            AND entry.status >= 'arrived' AND entry.status <= 'arrived' AND entry.ahead
        GROUP BY entry.group_key
    LOOP
        -- In a closed group a message is late, like any other.
        CONTINUE WHEN EXISTS (
            SELECT FROM {schema}.known_groups AS known
            WHERE known.queue_id = of_queue AND known.group_key = one.group_key AND known.flags & {flag.CLOSED} <> 0
        );
        INSERT INTO {schema}.known_groups (
            queue_id, group_key, flags, first, next, mark, last, ordinal, since, reports, clock, skipped, arrivals
        ) VALUES (
            of_queue, one.group_key, fresh[1], fresh[2], fresh[3], fresh[4], fresh[5], fresh[6], fresh[7], fresh[8],
            fresh[9], '{}', 0
        ) ON CONFLICT DO NOTHING;
        UPDATE {schema}.known_groups AS known SET
            ordinal = known.ordinal + one.messages, arrivals = known.arrivals + one.messages,
            decided[{decided.RELEASED}] = known.decided[{decided.RELEASED}] + one.messages
        WHERE known.queue_id = of_queue AND known.group_key = one.group_key
        RETURNING known.ordinal, known.arrivals INTO counted;
        UPDATE {schema}.entries AS entry SET ordinal = entry.ordinal + one.messages
        WHERE entry.queue_id = of_queue AND entry.group_key = one.group_key AND entry.status = 'queued';
        SELECT min(entry.ordinal) INTO lowest FROM {schema}.entries AS entry
        WHERE entry.queue_id = of_queue AND entry.group_key = one.group_key AND entry.status = 'queued';
        UPDATE {schema}.entries AS entry SET
            status = 'queued', ahead = FALSE, arrival = counted.arrivals - one.messages + placed.nth,
            ordinal = coalesce(lowest, counted.ordinal + 1) - one.messages - 1 + placed.nth
        FROM unnest(one.ids) WITH ORDINALITY AS placed (entry_id, nth)
        WHERE entry.entry_id = ANY (ARRAY[placed.entry_id]);
    END LOOP;
    RETURN of_queue;
END
$function$;
