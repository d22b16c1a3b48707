-- Messages that open and close groups.

COMMENT ON COLUMN {schema}.entries.size IS
'The size of its set, where it tells it. In a queue that is Fifo or Standard its marks: in the two lowest bits whether it opens its group
(1) and closes it (2), in the others of a Standard queue the fingerprint of its content, 0: it is not compared. NULL: nothing.';

-- A group that isn't opened waits for that: see `shown_state` of 0007.
CREATE OR REPLACE FUNCTION {schema}.shown_state(flags bigint, suspended boolean, locked boolean, hole boolean, overdue boolean)
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN flags & 2 <> 0 AND NOT (flags & 4 <> 0 AND flags & 16 <> 0) THEN 'closed'
    WHEN suspended THEN 'suspended'
    WHEN flags & 16 <> 0 THEN 'faulted'
    WHEN locked THEN 'locked'
    WHEN hole AND overdue THEN 'timed_out'
    WHEN hole OR flags & 512 <> 0 THEN 'waiting'
    ELSE 'ready'
END;

-- Groups have begun again, so often each: they are in later incarnations. The caller has judged them in this transaction.
CREATE FUNCTION {schema}.begin_again(of_queue integer, of_groups text[], its_times integer[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit('judge', ARRAY[of_queue]);
    UPDATE {schema}.known_groups AS known SET incarnation = known.incarnation + begun.times
    FROM unnest(of_groups, its_times) AS begun (group_key, times)
    WHERE known.queue_id = of_queue AND known.group_key = ANY (ARRAY[begun.group_key]);
END
$function$;
