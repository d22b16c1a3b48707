-- Keep messages until their numbers are confirmed. `part_places`: for each part its message, from 1. Return the ids
-- of those that wait already.
-- is: own path
CREATE OR REPLACE FUNCTION {schema}.region_wait(
    of_name text, message_ids text[], of_queues integer[], of_sessions text[], of_numbers bigint[], reservations text[],
    types text[],
    content_types text[], contexts text[], property_types text[], bodies bytea[], part_places bigint[],
    part_names text[],
    part_content_types text[], part_bodies bytea[]
) RETURNS text[]
AS $function$
#variable_conflict use_column
DECLARE
    kept text[];
BEGIN
    WITH fresh AS (
        INSERT INTO {schema}.region_waiting (
            name, message_id, queue_id, session, number, reservation, type, content_type, context, property_types, body,
            part_names,
            part_content_types, part_bodies
        )
        SELECT of_name, given.message_id, given.queue_id, given.session, given.number, given.reservation, given.type,
            given.content_type,
            given.context, given.property_types::jsonb, given.body, parts.names, parts.content_types, parts.bodies
        FROM unnest(
            message_ids, of_queues, of_sessions, of_numbers, reservations, types, content_types, contexts,
            property_types, bodies
        ) WITH ORDINALITY AS given (
            message_id, queue_id, session, number, reservation, type, content_type, context, property_types, body, nth
        )
        LEFT JOIN LATERAL (
            SELECT array_agg(part.name ORDER BY part.nth) AS names,
                array_agg(part.content_type ORDER BY part.nth) AS content_types,
                array_agg(part.body ORDER BY part.nth) AS bodies
            FROM unnest(part_places, part_names, part_content_types, part_bodies)
                WITH ORDINALITY AS part (place, name, content_type, body, nth)
            WHERE part.place = given.nth
        ) AS parts ON TRUE
        ORDER BY given.nth
        ON CONFLICT DO NOTHING
        RETURNING message_id
    )
    SELECT coalesce(array_agg(fresh.message_id), '{}') INTO kept FROM fresh;
    RETURN ARRAY(SELECT one FROM unnest(message_ids) AS one WHERE one <> ALL (kept));
END
$function$;
