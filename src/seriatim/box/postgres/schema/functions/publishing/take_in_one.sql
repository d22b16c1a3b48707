-- `take_in` for one message without parts for one queue: without arrays, joins and sorts. Return whether it was taken
-- in, FALSE: it was published before; or NULL, and take nothing in, if the definitions have changed. `on_way`: it may
-- carry an origin, or the queue leads to a gate, or is one: then the entry gets its place. A queue that numbers its
-- messages on arrival uses `take_in`.
-- is: definer, generic plan, no seqscan, no bitmapscan
CREATE OR REPLACE FUNCTION {schema}.take_in_one(
    known_version bigint, of_message text, of_type text, at_location text, of_content_type text,
    of_context text, of_property_types text, of_body bytea, visible_at timestamptz, delay interval,
    of_queue integer, of_group text, of_sequence bigint, of_size bigint, of_priority integer,
    by_subscriptions integer[], on_way boolean, by_itself boolean, flushed boolean
) RETURNS boolean
AS $function$
DECLARE
    delayed_at timestamptz := CASE WHEN visible_at IS NULL AND delay IS NOT NULL THEN clock_timestamp() END;
    seen_from timestamptz := coalesce(visible_at, delayed_at + delay);
    space text := '';
    granted integer[];
    wrong text;
    arrival bigint;
    given record;
    stamped bigint;
    came bigint;
    gate integer;
    origin text;
    place bigint;
    early text;
BEGIN
    IF NOT {schema}.is_owner() THEN
        granted := {schema}.permitted('publish');
        IF (of_queue = ANY (granted)) IS NOT TRUE THEN
            IF cardinality(granted) = 0 OR {schema}.is_asked_for(of_queue, by_subscriptions, of_type) IS NOT TRUE THEN
                PERFORM {schema}.permit('publish', ARRAY[of_queue]);
            END IF;
        END IF;
        wrong := coalesce(
            {schema}.wrong_message(
                of_message, of_type, at_location, of_content_type, {schema}.without_origin(of_context::jsonb),
                of_property_types::jsonb, of_body
            ),
            {schema}.wrong_moment(seen_from)
        );
        IF wrong IS NULL THEN
            SELECT {schema}.wrong_entry(known.definition #>> '{policy,name}', of_group, of_sequence, of_priority, NULL)
            INTO wrong FROM {schema}.queues AS known WHERE known.queue_id = of_queue;
            IF wrong IS NULL AND {schema}.numbering(ARRAY[of_queue]) IS NOT NULL THEN
                wrong := 'messages of this queue are numbered: they are taken in by take_in';
            END IF;
        END IF;
        IF wrong IS NOT NULL THEN
            RAISE EXCEPTION '%', wrong USING ERRCODE = 'invalid_parameter_value';
        END IF;
        space := {schema}.space_of_role({schema}.caller());
        on_way := TRUE;
    END IF;
    IF known_version IS DISTINCT FROM {schema}.hold_definitions() THEN
        RETURN NULL;
    END IF;
    INSERT INTO {schema}.message_ids (message_id, id_space) VALUES (of_message, space) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN FALSE;
    END IF;
    IF on_way THEN
        SELECT way.gate_id, way.origin_group, way.origin_number INTO gate, origin, place
        FROM {schema}.place_at_gate(of_queue, of_context::jsonb) AS way;
    END IF;
    IF by_itself THEN
        arrival := nextval('{schema}.arrival_ids');
    ELSE
        INSERT INTO {schema}.arrivals (location, count, queue_ids) VALUES (
            at_location, 1, CASE WHEN gate = of_queue THEN ARRAY[]::integer[] ELSE ARRAY[of_queue] END
        ) RETURNING arrival_id INTO arrival;
    END IF;
    INSERT INTO {schema}.spool (
        arrival_id, position, message_id, type, content_type, context, property_types, body, destinations, visible_at,
        id_space
    ) VALUES (
        arrival, 0, of_message, of_type, of_content_type, of_context::jsonb, of_property_types::jsonb, of_body, 1,
        seen_from, space
    );
    IF flushed THEN
        early := {schema}.commit_early();
    END IF;
    IF by_itself THEN
        -- Without a row for the work at the commit.
        IF EXISTS (SELECT FROM {schema}.waiters) THEN
            PERFORM {schema}.call_waiters(ARRAY[of_queue], 1);
        END IF;
        given := {schema}.dispense(at_location, 1, arrival);
        stamped := given.stamp;
        came := given.arrived_us;
    END IF;
    INSERT INTO {schema}.entries (
        gate_id, origin_group, origin_number, status,
        queue_id, group_key, rank, arrival_id, position, sequence, size, priority, visible_at, delayed_at, subscription_ids,
        stamp, arrived_us, serial
    ) VALUES (
        gate, origin, place, CASE WHEN gate = of_queue THEN 'placed'::{schema}.entry_status ELSE 'arrived' END,
        of_queue, of_group, {schema}.now_us() - (of_priority - 5) * 10000000, arrival, 0, of_sequence, of_size,
        of_priority, seen_from, delayed_at, by_subscriptions, stamped, came, arrival
    );
    RETURN TRUE;
END
$function$;
