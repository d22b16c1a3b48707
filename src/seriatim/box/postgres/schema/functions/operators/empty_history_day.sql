-- Empty the partition of a day at once, unless one of the queues that still keep that day's messages has some in it.
-- Return how many rows were deleted; NULL if it stays.
-- is: no seqscan
CREATE OR REPLACE FUNCTION {schema}.empty_history_day(of_day date, staying integer[]) RETURNS bigint
AS $function$
DECLARE
    part text := 'history_' || to_char(of_day, 'YYYYMMDD');
    stays boolean;
    emptied bigint;
BEGIN
    -- Checked before, so that a day that stays is never locked, and again under the lock. Only a transaction that
    -- began on a past day still writes into it.
    FOR look IN 1..2 LOOP
        EXECUTE format(
            'SELECT EXISTS (SELECT FROM unnest($1) AS queue (queue_id) WHERE EXISTS ('
            'SELECT FROM {schema}.%I AS done WHERE done.queue_id = queue.queue_id))', part
        ) INTO stays USING staying;
        IF stays THEN
            RETURN NULL;
        END IF;
        EXECUTE format('LOCK TABLE {schema}.%I IN ACCESS EXCLUSIVE MODE', part);
    END LOOP;
    EXECUTE format(
        'INSERT INTO {schema}.dropped (arrival_id, position) SELECT arrival_id, position FROM {schema}.%I', part
    );
    GET DIAGNOSTICS emptied = ROW_COUNT;
    IF emptied > 0 THEN
        EXECUTE format('TRUNCATE {schema}.%I', part);
    END IF;
    RETURN emptied;
END
$function$;
