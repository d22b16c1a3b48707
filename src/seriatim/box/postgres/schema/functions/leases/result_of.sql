-- Return the properties of a message that results from one in hand: with the id of its cause, and what both belong to,
-- where it doesn't say so itself.
-- is: no seqscan
CREATE OR REPLACE FUNCTION {schema}.result_of(of_delivery uuid, at integer, context jsonb) RETURNS jsonb
AS $function$
DECLARE
    lease record := {schema}.at_lease(of_delivery, '', 'read', at, '');
    cause record;
BEGIN
    IF EXISTS (SELECT FROM {schema}.ways AS way WHERE way.queue_id = lease.queue_id) THEN
        RAISE EXCEPTION 'the queue "%" leads to a gate, where SQL can''t give a result the place of its cause', lease.queue
        USING ERRCODE = 'SQ006', HINT =
            'the place would close before the result is routed: complete it over HTTP, by box.lease, or in a worker';
    END IF;
    SELECT stored.message_id, stored.context INTO cause FROM {schema}.entries AS entry
    JOIN {schema}.spool AS stored ON stored.arrival_id = entry.arrival_id AND stored.position = entry.position
    WHERE entry.entry_id = lease.entry_ids[at];
    RETURN jsonb_build_object('parent_id', cause.message_id, 'correlation_id', coalesce(
        cause.context #>> '{dialog,conversation_id}', cause.context ->> 'correlation_id', cause.message_id
    )) || jsonb_strip_nulls(context);
END
$function$;
