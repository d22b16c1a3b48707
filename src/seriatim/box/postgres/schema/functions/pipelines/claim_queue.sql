-- Make a queue a pipeline's own. Answers with the pipeline that has it, where it is another one's; with nothing where a
-- reader that isn't new is known no more. One that has never had a batch worked on makes way for a new one; one that
-- has does only for somebody who says so. What it had in hand and hadn't finished is the first that the new one gets.
CREATE OR REPLACE FUNCTION {schema}.claim_queue(
    of_queue integer, by_reader text, by_pipeline text, is_new boolean, takes_over boolean
) RETURNS text
AS $function$
DECLARE
    known record;
    named text;
    keeps text;
BEGIN
    PERFORM {schema}.take_lock({schema}.lock_of('definitions'), 'the definitions');
    SELECT owner, coalesce(definition ->> 'keep', 'nothing') INTO named, keeps
    FROM {schema}.queues WHERE queue_id = of_queue FOR NO KEY UPDATE;
    SELECT reader, batch, done INTO known FROM {schema}.readers WHERE queue_id = of_queue;
    IF known.reader = by_reader THEN
        RETURN NULL;
    END IF;
    IF NOT is_new OR known.done > 0 AND NOT takes_over THEN
        RETURN coalesce(named, '');
    END IF;
    PERFORM {schema}.drop_batches(of_queue, known.done + 1, keeps);
    -- Its batches are numbered from 1 on: whether it has finished one is told by that.
    UPDATE {schema}.entries SET batch = batch - known.done WHERE queue_id = of_queue AND batch > 0 AND known.done > 0;
    INSERT INTO {schema}.readers (queue_id, reader, batch)
    VALUES (of_queue, by_reader, coalesce(known.batch - known.done, 0))
    ON CONFLICT (queue_id) DO UPDATE SET reader = excluded.reader, batch = excluded.batch, done = 0;
    IF named IS DISTINCT FROM by_pipeline THEN
        UPDATE {schema}.queues SET owner = by_pipeline WHERE queue_id = of_queue;
        INSERT INTO {schema}.changes (version, what)
        SELECT max(version) + 1, 'the pipeline ' || by_pipeline || ' reads a queue' FROM {schema}.changes;
    END IF;
    RETURN NULL;
END
$function$;
