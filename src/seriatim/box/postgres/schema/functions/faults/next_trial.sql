-- Return the next group on trial that has something to do and no worker, or in a queue without groups the next
-- message with the mark of a rolled-back transaction. Or, with its `token`, a turn on trial that began and will never
-- end: it is recorded, and neither its group nor its message is locked. Locks nothing.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.next_trial(
    of_queue integer, has_groups boolean, OUT group_key text, OUT entry_id bigint, OUT token bigint, OUT worker text
)
AS $function$
#variable_conflict use_column
DECLARE
    one record;
    begun record;
    is_found boolean := FALSE;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    FOR one IN
        SELECT * FROM {schema}.trials AS trial
        WHERE trial.queue_id = of_queue AND (has_groups OR trial.token IS NOT NULL) ORDER BY trial.since
    LOOP
        -- The block releases the lock.
        BEGIN
            IF has_groups THEN
                IF NOT pg_try_advisory_xact_lock({schema}.group_lock(of_queue, one.unit))
                    OR {schema}.is_leased(of_queue, one.unit) THEN
                    RAISE EXCEPTION 'somebody has it' USING ERRCODE = 'SQ001';
                END IF;
            ELSE
                PERFORM FROM {schema}.entries AS entry WHERE entry.entry_id = one.entry_id FOR UPDATE SKIP LOCKED;
                IF NOT FOUND THEN
                    RAISE EXCEPTION 'somebody has it' USING ERRCODE = 'SQ001';
                END IF;
            END IF;
            -- A separate statement: it reads rows that are younger than the lock.
            SELECT trial.entry_id, trial.token, trial.worker INTO begun
            FROM {schema}.trials AS trial
            WHERE trial.queue_id = of_queue AND trial.unit = one.unit
                AND trial.token IS NOT NULL AND trial.server_began = pg_postmaster_start_time();
            is_found := FOUND OR has_groups AND {schema}.has_work(of_queue, one.unit, {schema}.now_us());
            RAISE EXCEPTION 'only looked' USING ERRCODE = 'SQ001';
        EXCEPTION WHEN SQLSTATE 'SQ001' THEN
            IF is_found THEN
                group_key := one.group_key;
                entry_id := begun.entry_id;
                token := begun.token;
                worker := begun.worker;
                RETURN;
            END IF;
        END;
    END LOOP;
    IF NOT has_groups THEN
        SELECT first.entry_id INTO entry_id
        FROM (
            SELECT entry.entry_id, entry.rank, entry.xmax AS locker FROM {schema}.entries AS entry
            WHERE entry.queue_id = of_queue AND entry.status = 'arrived'
                AND (entry.visible_at IS NULL OR entry.visible_at <= clock_timestamp())
            ORDER BY entry.rank LIMIT 1000
        ) AS first
        WHERE {schema}.was_rolled_back(first.locker)
        ORDER BY first.rank LIMIT 1;
    END IF;
END
$function$;
