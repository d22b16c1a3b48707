-- Delete the messages for a side in its queue, except those that its turn has in hand; with a reason they are set
-- aside. The caller has the lock of its group. Return the entries that are set aside.
-- is: generic plan, no seqscan
CREATE OR REPLACE FUNCTION {schema}.drop_unread(
    of_handle uuid, in_hand text[], why text, from_sequence bigint DEFAULT NULL
)
RETURNS bigint[]
AS $function$
DECLARE
    own record;
    gone bigint;
    set_aside bigint[];
BEGIN
    SELECT known.queue_id, known.group_id INTO own FROM {schema}.endpoints AS known WHERE known.handle = of_handle;
    WITH unread AS (
        DELETE FROM {schema}.entries AS entry USING {schema}.spool AS stored
        WHERE entry.queue_id = own.queue_id AND entry.group_key = own.group_id::text
            AND stored.arrival_id = ANY (ARRAY[entry.arrival_id]) AND stored.position = ANY (ARRAY[entry.position])
            AND stored.context -> 'dialog' ->> 'handle' = of_handle::text AND stored.message_id <> ALL (in_hand)
            AND (from_sequence IS NULL OR (stored.context -> 'dialog' ->> 'sequence')::bigint >= from_sequence)
            -- The batch of a pipeline doesn't change.
            AND entry.batch IS NULL
        RETURNING entry.*
    ), kept AS (
        {set_aside_dead(unread, ordinal)} WHERE why IS NOT NULL
    ), removed AS (
        DELETE FROM {schema}.spool AS stored USING unread
        WHERE why IS NULL AND stored.arrival_id = ANY (ARRAY[unread.arrival_id])
            AND stored.position = ANY (ARRAY[unread.position])
    )
    SELECT count(*), coalesce(array_agg(unread.entry_id ORDER BY unread.entry_id) FILTER (WHERE why IS NOT NULL), '{}')
    INTO gone, set_aside FROM unread;
    IF gone > 0 THEN
        INSERT INTO {schema}.requests (queue_id, group_key, action, rank)
        VALUES (own.queue_id, own.group_id::text, 'look', {schema}.now_us());
    END IF;
    RETURN set_aside;
END
$function$;
