-- Count a rollback that has left its mark. At a limit in a row the group is suspended, by a request that its next
-- turn obeys, and counting begins anew: then TRUE. `own`: the transaction that has the group, and will put the
-- message back.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.note_rollback(
    of_queue integer, of_group text, of_entry bigint, rolled_back bigint, own bigint, at_most integer
) RETURNS boolean
AS $function$
DECLARE
    counted integer;
BEGIN
    PERFORM {schema}.permit_entries('receive', of_queue, ARRAY[of_entry]);
    INSERT INTO {schema}.rollbacks AS known (queue_id, group_key, entry_id, times, last_by)
    VALUES (of_queue, of_group, of_entry, 1, rolled_back)
    ON CONFLICT (queue_id, group_key) DO UPDATE SET
        times = CASE WHEN known.entry_id = excluded.entry_id THEN known.times + 1 ELSE 1 END,
        entry_id = excluded.entry_id, last_by = excluded.last_by
    RETURNING known.times INTO counted;
    IF counted < at_most THEN
        RETURN FALSE;
    END IF;
    UPDATE {schema}.rollbacks AS known SET times = 0, last_by = own
    WHERE known.queue_id = of_queue AND known.group_key = of_group;
    INSERT INTO {schema}.requests (queue_id, group_key, action, rank)
    VALUES (of_queue, of_group, 'suspend', {schema}.now_us());
    INSERT INTO {schema}.operator_log (actor, action, queue, group_key, reason)
    SELECT
        'seriatim', 'suspend', place.queue, of_group,
        format(
            'the message %s of type %s was rolled back %s times in a row', stored.message_id, left(stored.type, 300),
            counted
        )
    FROM {schema}.entries AS entry
    JOIN {schema}.spool AS stored
        ON stored.arrival_id = ANY (ARRAY[entry.arrival_id]) AND stored.position = ANY (ARRAY[entry.position])
    JOIN {schema}.queues AS place ON place.queue_id = entry.queue_id
    WHERE entry.entry_id = of_entry;
    RETURN TRUE;
END
$function$;
