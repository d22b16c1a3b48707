-- Return groups that wait for a missing number, with nothing before it left to do, in the order of their keys: their
-- next number, and the message with the lowest number behind the hole. `digest`: in the journal's form, the SHA-256
-- of type, content type and body. `over_through`: the number through which the session is over, as far as the box knows.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.copies_behind_holes(of_queue integer, after_group text, how_many integer)
RETURNS TABLE (group_key text, next bigint, number bigint, message_id text, digest bytea, age bigint, over_through bigint)
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    RETURN QUERY
    SELECT
        known.group_key, known.next, held.sequence, stored.message_id, sha256(
            int8send(octet_length(convert_to(stored.type, 'UTF8'))) || convert_to(stored.type, 'UTF8')
            || CASE WHEN stored.content_type IS NULL THEN int8send(0)
                ELSE int8send(octet_length(convert_to(stored.content_type, 'UTF8')) + 1) || '\x01'::bytea
                    || convert_to(stored.content_type, 'UTF8') END
            || stored.body
        ),
        greatest(0, (extract(epoch FROM clock_timestamp() - coalesce((
            SELECT one.published_at FROM {schema}.region_numbers AS one
            WHERE one.queue_id = of_queue AND one.session = known.group_key AND one.number = held.sequence
                AND one.message_id = stored.message_id
        ), stored.received_at)) * 1000000)::bigint),
        (
            SELECT session.over_through FROM {schema}.region_sessions AS session
            WHERE session.queue_id = of_queue AND session.session = known.group_key
        )
    FROM (
        SELECT one.group_key, one.next
        FROM {schema}.known_groups AS one
        WHERE one.queue_id = of_queue AND one.group_key > after_group
            AND (one.flags & {flag.SUSPENDED|FAULTED} <> 0 OR one.since <> {NEVER})
            AND one.flags & {flag.SUSPENDED|FAULTED} = 0 AND one.since <> {NEVER}
            AND NOT EXISTS (
                SELECT FROM {schema}.entries AS before
                WHERE before.queue_id = of_queue AND before.group_key = one.group_key
                    AND before.status IN ('queued', 'faulted')
            )
            AND NOT EXISTS (
                SELECT FROM {schema}.leases AS lease WHERE lease.queue_id = of_queue AND lease.group_key = one.group_key
            )
        ORDER BY one.group_key
        LIMIT how_many
    ) AS known
    CROSS JOIN LATERAL (
        SELECT entry.sequence, entry.arrival_id, entry.position
        FROM {schema}.entries AS entry
        WHERE entry.queue_id = of_queue AND entry.group_key = known.group_key AND entry.status = 'held'
            AND entry.sequence >= known.next
        ORDER BY entry.sequence
        LIMIT 1
    ) AS held
    JOIN {schema}.spool AS stored ON stored.arrival_id = held.arrival_id AND stored.position = held.position
    ORDER BY known.group_key;
END
$function$;
