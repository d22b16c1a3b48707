-- Put messages into the queues of their receivers; `receivers` are the handles. Some go `ahead` of the queued
-- messages: then a turn has to judge the group instead of handing out its first ones.
-- is: generic plan, no seqscan
CREATE OR REPLACE FUNCTION {schema}.post(
    receivers uuid[], kinds text[], content_types text[], bodies bytea[], sequences bigint[], ahead boolean, replayed boolean DEFAULT FALSE
) RETURNS void
AS $function$
DECLARE
    moment_us bigint := {schema}.now_us();
    serials bigint[] := ARRAY(SELECT nextval('{schema}.arrival_ids') FROM generate_series(1, cardinality(receivers)));
BEGIN
    WITH placed AS MATERIALIZED (
        SELECT one.place, one.type, one.content_type, one.body, one.sequence, known.*,
            serials[one.place] AS serial, first_value(serials[one.place]) OVER run AS arrival_id,
            row_number() OVER run - 1 AS position, {schema}.new_message_id() AS message_id
        FROM unnest(receivers, kinds, content_types, bodies, sequences) WITH ORDINALITY
            AS one (handle, type, content_type, body, sequence, place)
        JOIN {schema}.endpoints AS known USING (handle)
        WINDOW run AS (PARTITION BY known.service ORDER BY one.place)
    ), arrived AS (
        INSERT INTO {schema}.arrivals (arrival_id, location, count, queue_ids)
        SELECT placed.arrival_id, placed.service, count(*), array_agg(DISTINCT placed.queue_id)
        FROM placed GROUP BY placed.arrival_id, placed.service
    ), spooled AS (
        INSERT INTO {schema}.spool (
            arrival_id, position, message_id, type, content_type, context, body, destinations, serial
        )
        SELECT
            placed.arrival_id, placed.position, placed.message_id, placed.type, placed.content_type,
            jsonb_build_object('dialog', jsonb_build_object(
                'handle', placed.handle, 'conversation_id', placed.conversation_id, 'service', placed.service,
                'far_service', placed.to_services[1], 'contract', placed.contract, 'sequence', placed.sequence,
                'is_initiator', placed.is_initiator, 'is_monolog', placed.is_monolog
            ) || coalesce((
                SELECT jsonb_build_object('far_box', road.peer, 'principal', coalesce(road.role::text, encode(road.public_key, 'hex')))
                FROM {schema}.known_links AS road WHERE road.link_id = placed.link_id AND road.peer IS NOT NULL
            ), '{}')) || CASE WHEN replayed THEN '{"link_replayed": true}' ELSE '{}' END::jsonb, placed.body, 1, nullif(placed.serial, placed.arrival_id + placed.position)
        FROM placed
    ), entered AS (
        INSERT INTO {schema}.entries (queue_id, group_key, rank, arrival_id, position, serial, priority, ahead)
        SELECT
            placed.queue_id, placed.group_id::text, moment_us - (placed.priority - 5) * 10000000, placed.arrival_id,
            placed.position, placed.serial, placed.priority, post.ahead
        FROM placed ORDER BY placed.place
    )
    INSERT INTO {schema}.dialog_messages (handle, sent, sequence, type, content_type, body, message_id)
    SELECT placed.handle, FALSE, placed.sequence, placed.type, placed.content_type, placed.body, placed.message_id
    FROM placed WHERE placed.retains ORDER BY placed.place;
    IF ahead THEN
        INSERT INTO {schema}.requests (queue_id, group_key, action, rank)
        SELECT known.queue_id, known.group_id::text, 'look', moment_us
        FROM {schema}.endpoints AS known WHERE known.handle = ANY (receivers);
    END IF;
END
$function$;
