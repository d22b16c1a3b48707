-- Forget sides that have been closed for long, of one service or all, and the state of conversation groups that have none
-- any more. Return the number of sides.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.forget_closed(older_than interval, of_service text DEFAULT NULL) RETURNS bigint
AS $function$
DECLARE
    closed_by CONSTANT timestamptz := clock_timestamp() - older_than; -- see `is_due`
    forgotten bigint;
BEGIN
    PERFORM {schema}.permit('route', ARRAY[]::integer[]);
    WITH gone AS (
        DELETE FROM {schema}.endpoints WHERE closed_at <= closed_by AND (of_service IS NULL OR service = of_service)
            AND (link_id IS NULL OR {schema}.is_acknowledged(handle, conversation_id, is_initiator, link_id))
        RETURNING handle, queue_id, group_id, link_id, conversation_id, is_initiator, opened_in, number
    ), silent AS (
        UPDATE {schema}.link_streams_out AS stream SET last_used = '-infinity' FROM gone -- so it is closed next
        WHERE gone.link_id IS NOT NULL AND stream.queue_id = 0
            AND stream.key = {schema}.dialog_key(gone.conversation_id, gone.is_initiator)
    ), numbered AS (
        INSERT INTO {schema}.conversations AS known (link_id, is_ours, incarnation, over)
        SELECT gone.link_id, FALSE, gone.opened_in, range_agg(int8range(gone.number, gone.number, '[]'))
        FROM gone JOIN {schema}.known_links USING (link_id)
        WHERE gone.number IS NOT NULL AND NOT gone.is_initiator GROUP BY 1, 3
        ON CONFLICT (link_id, is_ours, incarnation) DO UPDATE SET over = known.over + excluded.over
    ), uncounted AS (
        DELETE FROM {schema}.rollbacks AS known USING gone
        WHERE known.queue_id = gone.queue_id AND known.group_key = gone.group_id::text
    ), unwritten AS (
        DELETE FROM {schema}.writer_dialogs AS known USING gone, {schema}.writers AS writing
        WHERE known.handle = gone.handle AND writing.writer = known.writer AND known.batch <= writing.batch
    ), emptied AS (
        DELETE FROM {schema}.known_groups AS known USING (SELECT DISTINCT queue_id, group_id FROM gone) AS one
        WHERE known.queue_id = one.queue_id AND known.group_key = one.group_id::text
            AND NOT EXISTS (
                SELECT FROM {schema}.endpoints AS other
                WHERE other.queue_id = one.queue_id AND other.group_id = one.group_id
                    AND other.handle NOT IN (SELECT handle FROM gone)
            )
            AND NOT EXISTS (
                SELECT FROM {schema}.entries AS entry
                WHERE entry.queue_id = one.queue_id AND entry.group_key = one.group_id::text
            )
            AND pg_try_advisory_xact_lock({schema}.group_lock(one.queue_id, one.group_id::text))
    )
    SELECT count(*) INTO forgotten FROM gone;
    RETURN forgotten;
END
$function$;
