-- Make a queue a pipeline's own. Return the pipeline that has it, if it is another one's; nothing if a former reader
-- isn't known any more. A reader that has never finished a batch makes way for a new one; any other only on an
-- explicit takeover. Its unfinished messages in hand are the first ones of the new reader.
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
    -- Its batches are numbered from 1: the number shows whether it has finished one.
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
