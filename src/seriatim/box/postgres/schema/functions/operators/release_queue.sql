-- Give a queue back to workers: its pipeline's messages in hand are queued again, in their places.
CREATE OR REPLACE FUNCTION {schema}.release_queue(of_queue integer) RETURNS boolean
AS $function$
DECLARE
    known record;
    keeps text;
BEGIN
    PERFORM {schema}.take_lock({schema}.lock_of('definitions'), 'the definitions');
    SELECT coalesce(definition ->> 'keep', 'nothing') INTO keeps
    FROM {schema}.queues WHERE queue_id = of_queue FOR NO KEY UPDATE;
    SELECT reader, done INTO known FROM {schema}.readers WHERE queue_id = of_queue;
    IF NOT FOUND THEN
        RETURN FALSE;
    END IF;
    PERFORM {schema}.drop_batches(of_queue, known.done + 1, keeps);
    DELETE FROM {schema}.readers WHERE queue_id = of_queue;
    WITH back AS (
        UPDATE {schema}.entries SET
            status = CASE WHEN ordinal IS NULL THEN 'arrived' ELSE 'queued' END, batch = NULL
        WHERE queue_id = of_queue AND batch IS NOT NULL
        RETURNING group_key, rank
    )
    UPDATE {schema}.known_groups AS one SET ready_rank = least(one.ready_rank, first.rank)
    FROM (SELECT group_key, min(rank) AS rank FROM back GROUP BY group_key) AS first
    WHERE one.queue_id = of_queue AND one.group_key = first.group_key;
    UPDATE {schema}.queues SET owner = NULL WHERE queue_id = of_queue;
    INSERT INTO {schema}.changes (version, what)
    SELECT max(version) + 1, 'no pipeline reads a queue any more' FROM {schema}.changes;
    RETURN TRUE;
END
$function$;
