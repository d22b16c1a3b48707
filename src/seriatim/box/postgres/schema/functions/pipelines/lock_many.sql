-- Lock many groups of a queue that have something to do, at most `how_many`: those of lowest rank first, by a look at
-- a limited number of entries. Locked groups are left out. Only operators compete with a pipeline for its groups, so
-- none is checked again under its lock: a turn that finds nothing does nothing.
-- is: generic plan, no seqscan, no bitmapscan
CREATE OR REPLACE FUNCTION {schema}.lock_many(of_queue integer, how_many integer, now_us bigint) RETURNS text[]
AS $function$
DECLARE
    candidates text[];
    taken text[];
BEGIN
    SELECT array_agg(group_key) INTO candidates FROM (
        SELECT group_key FROM (
            (
                SELECT group_key, ready_rank AS rank FROM {schema}.known_groups
                WHERE queue_id = of_queue AND ready_rank IS NOT NULL ORDER BY ready_rank LIMIT how_many
            ) UNION ALL (
                SELECT group_key, rank FROM {schema}.entries
                WHERE queue_id = of_queue AND status = 'arrived' ORDER BY rank LIMIT 20 * how_many
            ) UNION ALL (
                SELECT group_key, due_at FROM {schema}.known_groups
                WHERE queue_id = of_queue AND due_at <= now_us ORDER BY due_at LIMIT how_many
            ) UNION ALL (
                SELECT group_key, rank FROM {schema}.requests WHERE queue_id = of_queue LIMIT how_many
            )
        ) AS one GROUP BY group_key ORDER BY min(rank) LIMIT how_many
    ) AS first;
    SELECT array_agg(group_key) INTO taken FROM unnest(candidates) AS wanted (group_key)
    WHERE pg_try_advisory_xact_lock({schema}.group_lock(of_queue, group_key));
    -- Leased messages belong to their workers.
    RETURN ARRAY(
        SELECT mine.group_key FROM unnest(taken) AS mine (group_key) WHERE NOT EXISTS (
            SELECT FROM {schema}.leases AS one WHERE one.queue_id = of_queue AND one.group_key = mine.group_key
        )
    );
END
$function$;
