-- Of several messages under one number, let this one, which is beside the queue, replace the one that has an entry,
-- or was set aside. The caller has the group. Return the entry, if it was set aside and has to be put back; 0:
-- nothing more is needed; NULL: there is no such message, or the other one is handed out now, or done.
-- is: own path, no seqscan
CREATE OR REPLACE FUNCTION {schema}.region_exchange(
    of_queue integer, of_session text, of_number bigint, of_message text
) RETURNS bigint
AS $function$
DECLARE
    present record;
    better record;
BEGIN
    SELECT one.*, coalesce(stored.serial, one.arrival_id + one.position) AS serial INTO better
    FROM {schema}.region_numbers AS one LEFT JOIN {schema}.spool AS stored USING (arrival_id, position)
    WHERE one.queue_id = of_queue AND one.session = of_session AND one.number = of_number
        AND one.message_id = of_message AND one.beside
    FOR UPDATE OF one;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    SELECT entry.entry_id, entry.arrival_id, entry.position, FALSE AS is_aside INTO present
    FROM {schema}.entries AS entry
    WHERE entry.queue_id = of_queue AND entry.group_key = of_session AND entry.sequence = of_number
        AND entry.status <> 'in_hand'
    ORDER BY entry.entry_id LIMIT 1 FOR UPDATE;
    IF FOUND THEN
        UPDATE {schema}.entries AS entry SET arrival_id = better.arrival_id, position = better.position,
            serial = better.serial, attempt = 0, size = NULL
        WHERE entry.entry_id = present.entry_id;
    ELSE
        SELECT gone.entry_id, gone.arrival_id, gone.position, TRUE AS is_aside INTO present FROM {schema}.aside AS gone
        WHERE gone.queue_id = of_queue AND gone.group_key = of_session AND gone.sequence = of_number
            AND gone.disposition = 'dead'
        ORDER BY gone.entry_id LIMIT 1 FOR UPDATE;
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
        UPDATE {schema}.aside AS gone SET arrival_id = better.arrival_id, position = better.position, attempt = 0,
            size = NULL
        WHERE gone.entry_id = present.entry_id;
    END IF;
    -- An edit is of the message that is replaced.
    DELETE FROM {schema}.edits AS edit WHERE edit.entry_id = present.entry_id;
    UPDATE {schema}.region_numbers AS one SET beside = one.message_id <> of_message
    WHERE one.queue_id = of_queue AND one.session = of_session AND one.number = of_number
        AND (one.message_id = of_message OR one.arrival_id = present.arrival_id AND one.position = present.position);
    RETURN CASE WHEN present.is_aside THEN present.entry_id ELSE 0 END;
END
$function$;
