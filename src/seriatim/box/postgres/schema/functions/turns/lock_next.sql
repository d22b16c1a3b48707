-- Lock the next groups of a queue that have something to do, at most `how_many`: those of lowest rank first. The four
-- indexes are merged (each is asked for its order, or all would be read and sorted), and read no further than needed.
-- Where more than 1,000 entries are of groups that were tried before, the others are tried by key.
-- is: generic plan, no seqscan, no bitmapscan, no sort
CREATE OR REPLACE FUNCTION {schema}.lock_next(of_queue integer, how_many integer, now_us bigint, from_rank bigint)
RETURNS text[]
AS $function$
DECLARE
    -- Messages that this transaction has received are behind it, of each kind.
    reached bigint := {schema}.reached(of_queue);
    least_rank bigint := greatest(from_rank, reached);
    candidate text;
    -- Groups on trial come after the others: `next_trial`.
    tried text[] := ARRAY(SELECT unit FROM {schema}.trials WHERE queue_id = of_queue);
    its_rank bigint;
    taken text[] := ARRAY[]::text[];
    passed integer := 0;
BEGIN
    FOR candidate, its_rank IN
        SELECT group_key, rank FROM (
            (
                SELECT group_key, ready_rank AS rank FROM {schema}.known_groups
                WHERE queue_id = of_queue AND ready_rank >= least_rank ORDER BY ready_rank
            ) UNION ALL (
                SELECT group_key, rank FROM {schema}.entries
                WHERE queue_id = of_queue AND status = 'arrived' AND rank >= least_rank ORDER BY rank
            ) UNION ALL (
                SELECT group_key, due_at FROM {schema}.known_groups
                WHERE queue_id = of_queue AND due_at BETWEEN reached AND now_us ORDER BY due_at
            ) UNION ALL (
                SELECT group_key, rank FROM {schema}.requests
                WHERE queue_id = of_queue AND rank >= reached ORDER BY rank
            )
        ) AS known
        ORDER BY rank
    LOOP
        IF candidate = ANY (tried) THEN
            passed := passed + 1;
            EXIT WHEN passed > 1000;
            CONTINUE;
        END IF;
        tried := tried || candidate;
        CONTINUE WHEN NOT {schema}.lock_group(of_queue, candidate, now_us);
        taken := taken || candidate;
        IF how_many = 1 THEN -- it is handed out, and not judged for later
            PERFORM {schema}.reach(of_queue, its_rank);
        END IF;
        EXIT WHEN cardinality(taken) >= how_many;
    END LOOP;
    IF passed > 1000 AND cardinality(taken) < how_many THEN
        FOR candidate IN
            SELECT group_key FROM (
                (
                    SELECT group_key FROM {schema}.known_groups
                    WHERE queue_id = of_queue AND ready_rank IS NOT NULL ORDER BY ready_rank
                ) UNION ALL (
                    SELECT group_key FROM {schema}.known_groups
                    WHERE queue_id = of_queue AND due_at <= now_us ORDER BY due_at
                ) UNION ALL (
                    SELECT group_key FROM {schema}.requests WHERE queue_id = of_queue
                ) UNION ALL
                SELECT one FROM {schema}.groups_with_arrivals(of_queue) AS one
            ) AS known
        LOOP
            CONTINUE WHEN candidate = ANY (tried);
            tried := tried || candidate;
            CONTINUE WHEN NOT {schema}.lock_group(of_queue, candidate, now_us);
            taken := taken || candidate;
            EXIT WHEN cardinality(taken) >= how_many;
        END LOOP;
    ELSIF cardinality(taken) = 0 AND least_rank > -9223372036854775808 THEN
        PERFORM {schema}.reach(of_queue, -9223372036854775808);
        RETURN {schema}.lock_next(of_queue, how_many, now_us, -9223372036854775808);
    END IF;
    RETURN taken;
END
$function$;
