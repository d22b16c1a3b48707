-- Return the kept messages of a dialog: both directions if its service keeps them, and those that were set aside
-- unread.
-- is: stable, definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.history_of(of_handle uuid)
RETURNS TABLE (sent boolean, sequence bigint, type text, content_type text, body bytea, at timestamptz, reason text)
AS $function$
#variable_conflict use_column
DECLARE
    own record;
BEGIN
    SELECT known.queue_id, known.retains INTO own FROM {schema}.endpoints AS known WHERE known.handle = of_handle;
    PERFORM {schema}.permit('receive', ARRAY_REMOVE(ARRAY[own.queue_id], NULL));
    RETURN QUERY
    WITH left_over AS MATERIALIZED (
        SELECT stored.*, known.reason
        FROM {schema}.aside AS known JOIN {schema}.spool AS stored USING (arrival_id, position)
        -- In any group: the dialog may have been moved since.
        WHERE known.queue_id = own.queue_id AND stored.context -> 'dialog' ->> 'handle' = of_handle::text
    )
    SELECT one.sent, one.sequence, one.type, one.content_type, one.body, one.at, one.reason FROM (
        SELECT known.sent, known.sequence, known.type, known.content_type, known.body, known.at, left_over.reason
        FROM {schema}.dialog_messages AS known LEFT JOIN left_over USING (message_id) WHERE known.handle = of_handle
        UNION ALL
        SELECT
            FALSE, (left_over.context -> 'dialog' ->> 'sequence')::bigint, left_over.type, left_over.content_type,
            left_over.body, left_over.received_at, left_over.reason
        FROM left_over WHERE NOT own.retains
    ) AS one ORDER BY one.at, one.sequence;
END
$function$;
