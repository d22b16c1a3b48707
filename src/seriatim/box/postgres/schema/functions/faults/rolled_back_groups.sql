-- Return the ready groups of a queue whose last transaction was rolled back, which nobody has now. One that wasn't on
-- trial is from now on, and its mark is taken away. One that was has an entry: the message that was tried alone.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.rolled_back_groups(of_queue integer)
RETURNS TABLE (group_key text, entry_id bigint)
AS $function$
#variable_conflict use_column
DECLARE
    marked text;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    FOR marked IN
        SELECT one.group_key FROM (
            SELECT known.group_key, known.xmax AS locker FROM {schema}.known_groups AS known
            WHERE known.queue_id = of_queue AND known.ready_rank IS NOT NULL ORDER BY known.ready_rank LIMIT 1000
        ) AS one
        WHERE one.locker <> '0' AND {schema}.was_rolled_back(one.locker)
    LOOP
        CONTINUE WHEN NOT pg_try_advisory_xact_lock({schema}.group_lock(of_queue, marked));
        group_key := marked;
        entry_id := NULL;
        PERFORM FROM {schema}.trials AS trial WHERE trial.queue_id = of_queue AND trial.unit = marked;
        IF NOT FOUND THEN
            PERFORM {schema}.begin_trial(of_queue, marked, 50);
            UPDATE {schema}.known_groups AS known SET touched_at = now()
            WHERE known.queue_id = of_queue AND known.group_key = marked;
            RETURN NEXT;
        ELSIF NOT {schema}.is_leased(of_queue, marked) THEN
            entry_id := (
                SELECT entry.entry_id FROM {schema}.entries AS entry JOIN {schema}.trials AS trial
                    ON trial.queue_id = entry.queue_id AND trial.unit = entry.group_key AND trial.token IS NULL
                WHERE entry.queue_id = of_queue AND entry.group_key = marked AND entry.status = 'queued'
                ORDER BY entry.ordinal LIMIT 1
            );
            RETURN NEXT;
        END IF;
    END LOOP;
END
$function$;
