-- Set a message beside the queue aside as a conflicting duplicate: its number is over, by another message. The caller
-- has the group. FALSE: there is no such message.
-- is: own path, no seqscan
CREATE OR REPLACE FUNCTION {schema}.region_lose(
    of_queue integer, of_session text, of_number bigint, of_message text, why text
) RETURNS boolean
AS $function$
DECLARE
    gone record;
BEGIN
    UPDATE {schema}.region_numbers AS one SET beside = FALSE
    WHERE one.queue_id = of_queue AND one.session = of_session AND one.number = of_number
        AND one.message_id = of_message AND one.beside
    RETURNING one.arrival_id, one.position INTO gone;
    IF NOT FOUND THEN
        RETURN FALSE;
    END IF;
    INSERT INTO {schema}.aside (
        entry_id, queue_id, group_key, disposition, reason, arrival_id, position, sequence, priority, subscription_ids
    ) VALUES (
        nextval('{schema}.entry_ids'), of_queue, of_session, 'duplicate', why, gone.arrival_id, gone.position,
        of_number, 5, '{}'
    );
    UPDATE {schema}.known_groups AS known SET arrivals = known.arrivals + 1,
        decided[{decided.DUPLICATE}] = known.decided[{decided.DUPLICATE}] + 1
    WHERE known.queue_id = of_queue AND known.group_key = of_session;
    RETURN TRUE;
END
$function$;
