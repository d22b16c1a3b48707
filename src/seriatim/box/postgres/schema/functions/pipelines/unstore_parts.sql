-- Take the messages of staged parts out of the spool into `staged_messages`, where they can be numbered and routed anew.
CREATE OR REPLACE FUNCTION {schema}.unstore_parts(of_parts bigint[]) RETURNS void
AS $function$
BEGIN
    WITH gone AS (
        DELETE FROM {schema}.staged_arrivals WHERE part_id = ANY (of_parts) RETURNING part_id, arrival_id, location
    ), beside AS (
        INSERT INTO {schema}.staged_message_parts (part_id, place, number, name, content_type, body)
        SELECT gone.part_id, stored.serial & 4294967295, part.number, part.name, part.content_type, part.body
        FROM gone JOIN {schema}.spool AS stored USING (arrival_id)
        JOIN {schema}.message_parts AS part USING (arrival_id, position)
        WHERE stored.parts IS NOT NULL
    ), taken AS (
        DELETE FROM {schema}.spool AS stored USING gone WHERE stored.arrival_id = gone.arrival_id
        RETURNING gone.part_id, gone.location, stored.*
    )
    INSERT INTO {schema}.staged_messages (
        part_id, place, message_id, type, location, content_type, context, property_types, body, destinations, problem,
        parts
    )
    SELECT
        taken.part_id, taken.serial & 4294967295, taken.message_id, taken.type, taken.location, taken.content_type,
        taken.context, taken.property_types, taken.body, taken.destinations, nowhere.problem, taken.parts
    FROM taken LEFT JOIN {schema}.staged_entries AS nowhere
        ON taken.destinations = 0 AND nowhere.part_id = taken.part_id
        AND nowhere.place = taken.serial & 4294967295;
    DELETE FROM {schema}.staged_entries WHERE part_id = ANY (of_parts) AND queue_id IS NULL;
END
$function$;
