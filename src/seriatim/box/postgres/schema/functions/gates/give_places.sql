-- Return the next numbers of the groups of entries, one for each, in the given order. Until the transaction ends no
-- other one gets numbers of these groups. The caller has the locks of all its locations.
-- is: generic plan, no seqscan, no bitmapscan
CREATE OR REPLACE FUNCTION {schema}.give_places(of_queues integer[], of_groups text[]) RETURNS bigint[]
AS $function$
DECLARE
    one record;
    own text;
    held boolean;
    given bigint[];
BEGIN
    -- In one order for all, by the bytes of the keys, so that two never deadlock. A transaction with many groups
    -- locks the queue as a whole: the server has room for a limited number of locks.
    FOR one IN
        SELECT asked.queue_id, array_agg(asked.group_key ORDER BY asked.group_key) AS keys
        FROM (
            SELECT DISTINCT entry.queue_id, entry.group_key COLLATE "C" AS group_key
            FROM unnest(of_queues, of_groups) AS entry (queue_id, group_key)
        ) AS asked
        GROUP BY asked.queue_id ORDER BY asked.queue_id
    LOOP
        IF cardinality(one.keys) > 64 THEN
            held := {schema}.take_lock(
                {schema}.lock_of('places ' || one.queue_id), format('the places of queue %s', one.queue_id)
            );
            CONTINUE;
        END IF;
        held := pg_try_advisory_xact_lock_shared({schema}.lock_of('places ' || one.queue_id)) OR {schema}.wait_for_lock(
            {schema}.lock_of('places ' || one.queue_id), TRUE, format('the places of queue %s', one.queue_id)
        );
        FOREACH own IN ARRAY one.keys LOOP
            held := {schema}.take_lock(
                {schema}.lock_of(format('places %s %s', one.queue_id, own)),
                format('the places of the group "%s" of queue %s', own, one.queue_id)
            );
        END LOOP;
    END LOOP;
    -- A separate statement: its snapshot is younger than the locks.
    WITH asked AS MATERIALIZED (
        SELECT entry.queue_id, entry.group_key, entry.nth,
            row_number() OVER (PARTITION BY entry.queue_id, entry.group_key ORDER BY entry.nth) AS place
        FROM unnest(of_queues, of_groups) WITH ORDINALITY AS entry (queue_id, group_key, nth)
    ), run AS (
        INSERT INTO {schema}.place_runs (queue_id, group_key, first, count)
        SELECT own.queue_id, own.group_key, coalesce((
            SELECT newest.first + newest.count FROM {schema}.place_runs AS newest
            WHERE newest.queue_id = own.queue_id AND newest.group_key = own.group_key ORDER BY newest.first DESC LIMIT 1
        ), 1), own.many
        FROM (
            SELECT queue_id, group_key COLLATE "C" AS group_key, count(*) AS many FROM asked GROUP BY 1, 2
        ) AS own
        RETURNING queue_id, group_key, first
    )
    SELECT array_agg(run.first + asked.place - 1 ORDER BY asked.nth) INTO given
    FROM asked JOIN run ON run.queue_id = asked.queue_id AND run.group_key = asked.group_key COLLATE "C";
    RETURN given;
END
$function$;
