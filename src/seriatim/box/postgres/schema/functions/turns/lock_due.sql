-- Lock groups of a queue, at most `how_many`: those with a timer that is due, or a message that may be seen from now
-- on; then, from `from_rank` to `until_rank`, those with messages that nobody has judged; and if none of these are
-- left, those that a request says to look at. Groups that others have locked are skipped. `from_rank` NULL: the first
-- kind only; `until_rank` NULL: to the end. `at_us`: the time, NULL: the clock's. `through`: the rank from which to go
-- on looking, NULL: that was all.
-- is: definer, generic plan, no seqscan, no bitmapscan, no sort
CREATE OR REPLACE FUNCTION {schema}.lock_due(
    of_queue integer, how_many integer, at_us bigint, from_rank bigint, until_rank bigint,
    OUT group_keys text[], OUT now_us bigint, OUT isolation text, OUT version bigint, OUT through bigint
)
AS $function$
DECLARE
    candidate text;
    one record;
    tried text[] := ARRAY[]::text[];
    looked integer := 0;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    now_us := coalesce(at_us, {schema}.now_us());
    isolation := current_setting('transaction_isolation');
    version := (SELECT max(change.version) FROM {schema}.changes AS change);
    group_keys := ARRAY[]::text[];
    FOR candidate IN
        SELECT known.group_key FROM {schema}.known_groups AS known
        WHERE known.queue_id = of_queue AND known.due_at <= now_us ORDER BY known.due_at
    LOOP
        EXIT WHEN cardinality(group_keys) >= how_many;
        tried := tried || candidate;
        IF {schema}.lock_group(of_queue, candidate, now_us) THEN
            group_keys := group_keys || candidate;
        END IF;
    END LOOP;
    FOR one IN
        SELECT entry.group_key, entry.rank FROM {schema}.entries AS entry
        WHERE entry.queue_id = of_queue AND entry.status = 'arrived' AND entry.rank >= from_rank
            AND (until_rank IS NULL OR entry.rank <= until_rank)
        ORDER BY entry.rank
    LOOP
        IF cardinality(group_keys) >= how_many OR looked >= 20000 THEN
            through := one.rank;
            EXIT;
        END IF;
        looked := looked + 1;
        CONTINUE WHEN one.group_key = ANY (tried);
        tried := tried || one.group_key;
        IF {schema}.lock_group(of_queue, one.group_key, now_us) THEN
            group_keys := group_keys || one.group_key;
        END IF;
    END LOOP;
    FOR candidate IN
        SELECT DISTINCT request.group_key FROM {schema}.requests AS request
        WHERE request.queue_id = of_queue AND request.action = 'look' AND from_rank IS NOT NULL AND through IS NULL
    LOOP
        EXIT WHEN cardinality(group_keys) >= how_many;
        CONTINUE WHEN candidate = ANY (tried);
        IF {schema}.lock_group(of_queue, candidate, now_us) THEN
            group_keys := group_keys || candidate;
        END IF;
    END LOOP;
END
$function$;
