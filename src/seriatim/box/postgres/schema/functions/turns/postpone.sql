-- Hand out again after a delay messages that the caller has in hand, and has put back in this transaction; their
-- group waits with them. Like a retry in `note_fault`, without a fault. `of_group`: NULL in a queue without groups.
-- Return until when; NULL: another process has them in hand, or they are gone.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.postpone(
    of_queue integer, of_group text, of_entries bigint[], delay interval
) RETURNS timestamptz
AS $function$
DECLARE
    moment timestamptz := clock_timestamp();
    again timestamptz;
    free bigint[];
BEGIN
    PERFORM {schema}.permit_entries('receive', of_queue, of_entries);
    IF delay IS NULL OR delay < '0 s' OR delay > '10000 days' THEN
        RAISE EXCEPTION 'a message cannot be postponed by %', coalesce(delay::text, 'no time') USING
            ERRCODE = 'invalid_parameter_value', HINT = 'from 0 s to 10000 days';
    END IF;
    again := moment + delay;
    IF of_group IS NULL THEN
        free := ARRAY(
            SELECT entry.entry_id FROM {schema}.entries AS entry JOIN {schema}.queues AS place USING (queue_id)
            WHERE entry.entry_id = ANY (of_entries) AND entry.queue_id = of_queue AND entry.status = 'arrived'
                AND entry.visible_at IS DISTINCT FROM 'infinity' -- which is in a lease
                AND place.definition #>> '{policy,name}' = 'unordered'
            FOR UPDATE OF entry SKIP LOCKED
        );
    ELSIF pg_try_advisory_xact_lock({schema}.group_lock(of_queue, of_group)) AND NOT EXISTS (
        SELECT FROM {schema}.leases AS lease WHERE lease.queue_id = of_queue AND lease.group_key = of_group
    ) THEN
        free := ARRAY(
            SELECT entry.entry_id FROM {schema}.entries AS entry
            WHERE entry.entry_id = ANY (of_entries) AND entry.queue_id = of_queue AND entry.group_key = of_group
                AND entry.status = 'queued'
        );
    END IF;
    IF coalesce(cardinality(free), 0) = 0 THEN
        RETURN NULL;
    END IF;
    UPDATE {schema}.entries AS entry
    SET visible_at = again, delayed_at = moment, postponed_until = again, postponed = coalesce(entry.postponed, 0) + 1
    WHERE entry.entry_id = ANY (free);
    UPDATE {schema}.known_groups AS known
    SET ready_rank = NULL, due_at = least(known.due_at, (extract(epoch FROM again) * 1000000)::bigint)
    WHERE known.queue_id = of_queue AND known.group_key = of_group;
    RETURN again;
END
$function$;
