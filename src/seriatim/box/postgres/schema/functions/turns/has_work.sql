-- Return whether a group has work for a turn.
-- is: stable, generic plan, no seqscan, no hashjoin, no mergejoin
CREATE OR REPLACE FUNCTION {schema}.has_work(of_queue integer, of_group text, now_us bigint) RETURNS boolean
AS $function$
BEGIN
    RETURN EXISTS (
        -- The transaction's own messages are numbered at its commit, and no turn sees them before.
        SELECT FROM {schema}.entries AS entry
        JOIN {schema}.tickets AS run ON run.arrival_id = ANY (ARRAY[entry.arrival_id])
        WHERE entry.queue_id = of_queue AND entry.group_key = of_group
            -- Written so that the index of all arrivals isn't one to choose, here and elsewhere.
            AND entry.status >= 'arrived' AND entry.status <= 'arrived'
    ) OR EXISTS (
        SELECT FROM {schema}.known_groups
        WHERE queue_id = of_queue AND group_key = of_group AND (ready_rank IS NOT NULL OR due_at <= now_us)
    ) OR EXISTS (
        SELECT FROM {schema}.requests WHERE queue_id = of_queue AND group_key = of_group
    );
END
$function$;
