-- Publish messages of a batch, in order: each is routed to the queue of its stream only. A message whose id came before
-- isn't published again. Return the arrival, NULL: nothing was new. `flags`: 1 for a message that is sent again.
-- is: auto plan, no seqscan, no jit
CREATE OR REPLACE FUNCTION {schema}.link_publish(
    of_link integer, frame bytea, heap bigint, names text[], queue_ids integer[], skipped bigint[], taken bigint[],
    streams bigint[], places bigint[], sizes bigint[], id_lengths bigint[], header_lengths bigint[], flags bigint[],
    ats bigint[]
) RETURNS bigint
AS $function$
DECLARE
    most_boxes CONSTANT integer := {MOST_BOXES};
    its_name text := (SELECT one.link FROM {schema}.known_links AS one WHERE one.link_id = of_link);
    own uuid := (SELECT known.box_id FROM {schema}.box_identity AS known);
    come record;
    arrival bigint;
    wrong text;
BEGIN
    -- As in `link_take`: no plan has a copy of the frame.
    PERFORM set_config('plan_cache_mode', 'force_generic_plan', TRUE);
    SELECT array_agg(one.stream ORDER BY one.nth) AS streams, array_agg(one.message_id ORDER BY one.nth) AS ids,
        array_agg(one.header ORDER BY one.nth) AS headers, array_agg(one.size ORDER BY one.nth) AS sizes,
        array_agg(one.flag ORDER BY one.nth) AS flags, array_agg(one.at ORDER BY one.nth) AS ats
    INTO come
    FROM (
        SELECT told.stream, told.nth, told.size, told.flag,
            convert_from(
                substring(frame, (heap + told.at + 1)::integer, told.id_length::integer), 'UTF8'
            ) AS message_id,
            convert_from(
                substring(frame, (heap + told.at + told.id_length + 1)::integer, told.header_length::integer), 'UTF8'
            ) AS header,
            heap + told.at + told.id_length + told.header_length AS at
        FROM unnest(streams, places, sizes, id_lengths, header_lengths, flags, ats)
            WITH ORDINALITY AS told (stream, place, size, id_length, header_length, flag, at, nth)
        WHERE told.place > skipped[told.stream] AND told.place <= skipped[told.stream] + taken[told.stream]
    ) AS one;
    SELECT format('message "%s": its header %s', left(one.message_id, 80), looked.problem) INTO wrong
    FROM unnest(come.ids, come.headers, come.sizes) AS one (message_id, header, size)
    CROSS JOIN LATERAL (SELECT {schema}.link_wrong_header(one.message_id, one.header, one.size) AS problem) AS looked
    WHERE looked.problem IS NOT NULL LIMIT 1;
    PERFORM {schema}.link_check(wrong IS NULL, wrong);

    PERFORM set_config('plan_cache_mode', {schema}.link_plans(cardinality(come.ids)), TRUE);
    WITH given AS MATERIALIZED (
        SELECT one.nth, one.message_id,
            'link:' || (one.header::jsonb #>> '{sent_by,box}') || ':' || (one.header::jsonb ->> 'space') AS id_space
        FROM unnest(come.ids, come.headers) WITH ORDINALITY AS one (message_id, header, nth)
    ), first AS MATERIALIZED (
        SELECT DISTINCT ON (given.message_id, given.id_space) given.* FROM given
        ORDER BY given.message_id, given.id_space, given.nth
    ), fresh AS (
        INSERT INTO {schema}.message_ids (message_id, id_space)
        SELECT first.message_id, first.id_space FROM first ORDER BY first.message_id, first.id_space
        ON CONFLICT DO NOTHING RETURNING message_ids.message_id, message_ids.id_space
    )
    SELECT array_agg(one.stream ORDER BY one.nth) AS streams, array_agg(one.message_id ORDER BY one.nth) AS ids,
        array_agg(one.id_space ORDER BY one.nth) AS spaces, array_agg(one.header ORDER BY one.nth) AS headers,
        array_agg(one.size ORDER BY one.nth) AS sizes, array_agg(one.flag ORDER BY one.nth) AS flags,
        array_agg(one.at ORDER BY one.nth) AS ats,
        count(*) AS count
    INTO come
    FROM (
        SELECT told.*, first.id_space
        FROM unnest(come.streams, come.ids, come.headers, come.sizes, come.flags, come.ats)
            WITH ORDINALITY AS told (stream, message_id, header, size, flag, at, nth)
        JOIN first USING (nth)
        JOIN fresh ON fresh.message_id = first.message_id AND fresh.id_space = first.id_space
    ) AS one;
    IF come.count = 0 THEN
        RETURN NULL;
    END IF;
    INSERT INTO {schema}.arrivals (location, count, queue_ids) VALUES ('link:' || its_name, come.count, '{0}')
    RETURNING arrival_id INTO arrival;
    -- From here on no other transaction gets a number of this location.
    SET CONSTRAINTS {schema}.number_at_commit IMMEDIATE;
    PERFORM set_config('plan_cache_mode', 'force_generic_plan', TRUE);
    INSERT INTO {schema}.spool (
        arrival_id, position, message_id, type, content_type, context, property_types, body, destinations, parts,
        id_space
    )
    SELECT arrival, one.nth - 1, one.message_id, one.fields ->> 'type', one.fields ->> 'content_type',
        one.fields -> 'context' || jsonb_build_object(
            'to', one.queue, 'location', 'link:' || its_name, 'link_sent_by', (one.fields -> 'sent_by')::text,
            'link_through', (one.fields -> 'through')::text
        ) || CASE WHEN one.flag = 1 THEN '{"link_replayed": true}' ELSE '{}' END::jsonb,
        nullif(one.fields -> 'property_types', '{}'),
        substring(frame, (one.at + 1)::integer, (one.size - one.in_parts)::integer),
        one.circles::integer, nullif(jsonb_array_length(one.fields -> 'parts'), 0), one.id_space
    FROM (
        SELECT told.*, read.fields, (
            SELECT coalesce(sum((part ->> 'size')::bigint), 0) FROM jsonb_array_elements(read.fields -> 'parts') AS part
        ) AS in_parts,
            read.fields -> 'through' ? own::text OR jsonb_array_length(read.fields -> 'through') > most_boxes AS circles
        FROM unnest(
            come.ids, come.spaces, come.headers, come.sizes, come.flags, come.ats,
            {schema}.items_at(names, come.streams)
        ) WITH ORDINALITY AS told (message_id, id_space, header, size, flag, at, queue, nth)
        CROSS JOIN LATERAL (SELECT told.header::jsonb AS fields) AS read
    ) AS one;
    INSERT INTO {schema}.message_parts (arrival_id, position, number, name, content_type, body)
    SELECT arrival, one.nth - 1, part.number, part.told ->> 'name', part.told ->> 'content_type',
        substring(frame, (one.at + one.size - part.left_over + 1)::integer, (part.told ->> 'size')::integer)
    FROM unnest(come.headers, come.sizes, come.ats) WITH ORDINALITY AS one (header, size, at, nth)
    CROSS JOIN LATERAL (
        SELECT each.told, each.number, sum((each.told ->> 'size')::bigint) OVER (
            ORDER BY each.number ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
        ) AS left_over
        FROM jsonb_array_elements(one.header::jsonb -> 'parts') WITH ORDINALITY AS each (told, number)
    ) AS part;
    PERFORM set_config('plan_cache_mode', {schema}.link_plans(cardinality(come.ids)), TRUE);
    WITH told AS (
        SELECT one.nth - 1 AS position, one.queue, queue_ids[one.stream] AS queue_id,
            one.header::jsonb -> 'through' ? own::text
                OR jsonb_array_length(one.header::jsonb -> 'through') > most_boxes AS circles
        FROM unnest(come.streams, come.headers, {schema}.items_at(names, come.streams)) WITH ORDINALITY
            AS one (stream, header, queue, nth)
    ), aside AS (
        INSERT INTO {schema}.aside (
            entry_id, queue_id, disposition, reason, arrival_id, position, priority, subscription_ids
        )
        SELECT nextval('{schema}.entry_ids'), told.queue_id, 'invalid',
            'loop: it was in this box before, or went through more than {MOST_BOXES} boxes',
            arrival, told.position, 5, '{}'
        FROM told WHERE told.circles
    )
    INSERT INTO {schema}.to_route (arrival_id, position, stamp, serial, publisher, permitted)
    SELECT arrival, told.position, run.stamp, arrival + told.position, 'link:' || its_name, ARRAY[told.queue_id]
    FROM told JOIN {schema}.tickets AS run ON run.arrival_id = arrival WHERE NOT told.circles;
    RETURN arrival;
END
$function$;
