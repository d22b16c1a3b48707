-- End leases of copies: the first `dones` of each are completed, and the others are free again, after a delay
-- (microseconds) if one is given. Return the leases that existed. A missing one has run out; its copies are handed
-- out again, and found to be over.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.end_copies(
    of_queue integer, tokens bigint[], dones integer[], delays bigint[], keep text
) RETURNS bigint[]
AS $function$
DECLARE
    one record;
    done record;
    ended bigint[] := '{}';
    in_time boolean;
    frees bigint := 0;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    FOR one IN
        SELECT told.*, lease.group_key, lease.entry_ids
        FROM unnest(tokens, dones, delays) AS told (token, done, delay)
        JOIN {schema}.leases AS lease ON lease.token = told.token AND lease.queue_id = of_queue
        ORDER BY lease.group_key
    LOOP
        IF one.done > 0 THEN
            in_time := {schema}.settle_lease(of_queue, one.token, one.done, TRUE);
        ELSE
            in_time := {schema}.drop_lease(of_queue, one.token, FALSE, 10000);
        END IF;
        CONTINUE WHEN NOT in_time;
        ended := ended || one.token;
        IF one.done > 0 THEN
            SELECT
                array_agg(entry.entry_id ORDER BY entry.ordinal) AS ids,
                array_agg(entry.ordinal ORDER BY entry.ordinal) AS ordinals,
                array_agg(entry.late ORDER BY entry.ordinal) AS lates
            INTO done
            FROM {schema}.entries AS entry
            WHERE entry.entry_id = ANY (one.entry_ids[:one.done]) AND entry.queue_id = of_queue
                AND entry.status = 'queued';
            IF done.ids IS NOT NULL THEN
                PERFORM {schema}.complete_entries(of_queue, done.ids, done.ordinals, done.lates, (
                    SELECT known.incarnation FROM {schema}.known_groups AS known
                    WHERE known.queue_id = of_queue AND known.group_key = one.group_key
                ), keep);
            END IF;
        END IF;
        IF one.done < cardinality(one.entry_ids) THEN
            IF one.delay > 0 THEN
                PERFORM {schema}.postpone(
                    of_queue, one.group_key, one.entry_ids[one.done + 1:one.done + 1],
                    make_interval(secs => one.delay / 1000000.0)
                );
            ELSE
                frees := frees + 1;
            END IF;
        END IF;
    END LOOP;
    IF frees > 0 THEN
        PERFORM {schema}.call_waiters(ARRAY[of_queue], frees);
    END IF;
    RETURN ended;
END
$function$;
