-- Lock the groups of some dialogs, in the order of their ids; dialogs that the transaction has begun are unknown to
-- others.
-- is: generic plan, no seqscan
CREATE OR REPLACE FUNCTION {schema}.lock_dialogs(handles uuid[]) RETURNS void
AS $function$
DECLARE
    wanted bigint[];
    locked bigint[] := ARRAY[]::bigint[];
BEGIN
    LOOP
        SELECT coalesce(array_agg(one.lock ORDER BY one.group_id, one.queue_id), ARRAY[]::bigint[]) INTO wanted FROM (
            SELECT DISTINCT
                known.group_id, known.queue_id, {schema}.group_lock(known.queue_id, known.group_id::text) AS lock
            FROM {schema}.endpoints AS known
            WHERE known.handle = ANY (handles) AND known.begun_by <> pg_current_xact_id()
        ) AS one;
        -- A dialog may have been moved during the wait for its group.
        EXIT WHEN wanted <@ locked;
        PERFORM {schema}.take_lock(one, 'a conversation group') FROM unnest(wanted) AS one;
        locked := wanted;
    END LOOP;
    -- What has come from other boxes comes before what a verb does.
    PERFORM {schema}.take_lock(
        {schema}.group_lock(0, {schema}.dialog_key(known.conversation_id, known.is_initiator)), 'a dialog'
    ), {schema}.obey(known.conversation_id, known.is_initiator)
    FROM {schema}.endpoints AS known
    WHERE known.handle = ANY (handles) AND known.link_id IS NOT NULL AND EXISTS (
        SELECT FROM {schema}.dialog_inbox AS come
        WHERE come.conversation_id = known.conversation_id AND come.to_initiator = known.is_initiator
    );
END
$function$;
